"""Draws corruptions.png: every generated corruption of a coloured Fashion-MNIST picture.

Run it where that data set is; Fashion-MNIST is under the MIT licence (Zalando SE).
"""

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from credax import data

COLUMNS, SCALE, GAP, LABEL = 2, 2, 3, 108
GROUND, CLOTH = np.array([0.25, 0.35, 0.45]), np.array([0.95, 0.6, 0.3])
PICTURES = (4, 23, 1, 0, 18)  # rows of the test split, in turn


def main():
    grey = data.load("fashion-mnist").test.x / 255.0
    kinds = data.corruptions.names("standard")
    side = grey.shape[1] * SCALE + GAP
    rows = -(-len(kinds) // COLUMNS)
    width = LABEL + 6 * side + 4 * GAP
    sheet = Image.new("RGB", (COLUMNS * width - 4 * GAP, rows * side - GAP), "white")
    write = ImageDraw.Draw(sheet)
    for number, kind in enumerate(kinds):
        left, top = number // rows * width, number % rows * side
        write.text((left + 2, top + side // 2 - 8), kind.replace("_", " "), fill="black")
        one = grey[PICTURES[number % len(PICTURES)]]
        clean = np.round(255 * (GROUND + one * (CLOTH - GROUND))).astype(np.uint8)[None]
        for severity in range(6):
            changed = data.corrupt(clean, kind, severity, key=0)[0]
            large = changed.repeat(SCALE, axis=0).repeat(SCALE, axis=1)
            sheet.paste(Image.fromarray(large), (left + LABEL + severity * side, top))
    sheet.save(Path(__file__).with_suffix(".png"), optimize=True)


if __name__ == "__main__":
    main()
