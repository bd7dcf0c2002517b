"""Tables as people have them: text, dates, missing cells, semicolons, decimal commas."""

import csv
from datetime import date, timedelta

import numpy as np

COLOURS = ("red", "green", "blue")
HEADER = ("id", "colour", "age", "member", "since", "spent", "bought")


def customers(rows=240, seed=0):
    """Rows of text whose last cell follows from colour, age and member, nearly without noise."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(rows):
        colour, member = rng.choice(COLOURS), bool(rng.integers(2))
        age = rng.normal(40, 10)
        when = date(2023, 1, 1) + timedelta(days=int(rng.integers(700)))
        score = 4 * (colour == "red") + (age - 40) / 4 + 3 * member - 2.5 + rng.normal(0, 0.2)
        shown = "" if rng.random() < 0.1 else f"{age:.1f}"
        cells = [f"C{number:04d}", str(colour), shown, "yes" if member else "no"]
        bought = "buys, often" if score > 0 else "leaves"
        found.append([*cells, when.isoformat(), f"{rng.gamma(2, 30):.2f}", bought])
    return found


def write_table(path, rows, header=HEADER, *, delimiter=",", comma=False, mark=False, end="\n"):
    """A CSV file; with ``comma`` decimal commas and German dates, with ``mark`` a UTF-8 BOM."""
    with open(path, "w", newline="", encoding="utf-8-sig" if mark else "utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter, lineterminator=end)
        writer.writerow(header)
        for row in rows:
            writer.writerow([german(cell) if comma else cell for cell in row])
    return path


def german(cell):
    if cell.count("-") == 2:
        return ".".join(reversed(cell.split("-")))
    return cell.replace(".", ",") if cell.replace(".", "", 1).isdigit() else cell
