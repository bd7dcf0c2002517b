"""The packages of credax in one picture: run it from the root of the project.

python docs/pictures/rooms.py
"""

from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch

SOURCE = Path(__file__).parents[2] / "src" / "credax"
ROWS = [
    (
        "what is modelled",
        [
            ("network", "init, apply"),
            ("prediction", "the mixture"),
            ("likelihoods", "p(y | outputs)"),
            ("prior", "p(weights)"),
            ("problem", "log joint, loss"),
        ],
    ),
    (
        "what fitting gives",
        [
            ("posterior", "members"),
            ("exporting", "a program for serving"),
            ("adoption", "networks trained elsewhere"),
        ],
    ),
    (
        "what goes in",
        [
            ("networks", "MLP, CNN, ResNet"),
            ("adapters", "Flax, Equinox, Haiku"),
            ("data", "tables, pictures, sets"),
        ],
    ),
    (
        "what is known of it",
        [
            ("groups", "groups and orbits"),
            ("structure", "axes and symmetries of weights"),
        ],
    ),
    (
        "how it is trained",
        [
            ("training", "the one loop"),
            ("infinite", "NNGP and NTK"),
            ("functions", "priors over functions"),
            ("methods", "seven families"),
        ],
    ),
    (
        "what is kept",
        [
            ("fitting", "fit"),
            ("runs", "run folders read back"),
            ("hub", "runs shared"),
        ],
    ),
    (
        "how good it is",
        [
            ("metrics", "scores, calibration, OOD"),
            ("calibration", "temperature, conformal"),
            ("quality", "posteriors compared"),
            ("zoo", "thousands of networks"),
        ],
    ),
    (
        "what people use",
        [
            ("plot", "matplotlib figures"),
            ("report", "tables and the page"),
            ("experiments", "published results"),
            ("sklearn", "estimators"),
            ("cli", "the command line"),
        ],
    ),
]


def files_of(package: str) -> int:
    """Python files of a package."""
    folder = SOURCE / package
    return len(list(folder.rglob("*.py"))) if folder.is_dir() else 1


def main() -> None:
    """Draw and save."""
    figure, axes = plt.subplots(figsize=(11, 8.4))
    axes.set(xlim=(0, 11), ylim=(-0.1, len(ROWS) + 0.05))
    axes.axis("off")
    for row, (title, packages) in enumerate(ROWS):
        y = len(ROWS) - row - 0.8
        axes.text(0.05, y + 0.3, title, va="center", fontsize=10, color="#555555")
        width = 8.6 / len(packages)
        for number, (package, words) in enumerate(packages):
            x = 2.2 + number * width
            box = FancyBboxPatch(
                (x, y), width - 0.15, 0.6, boxstyle="round,pad=0.02", fc="#eaf1fb", ec="#3465a4"
            )
            axes.add_patch(box)
            middle = x + (width - 0.15) / 2
            count = files_of(package)
            label = f"{package}/ · {count}" if count > 1 else f"{package}.py"
            axes.text(middle, y + 0.4, label, ha="center", va="center", fontsize=8.6, weight="bold")
            axes.text(middle, y + 0.17, words, ha="center", va="center", fontsize=8)
    axes.annotate(
        "",
        (1.95, len(ROWS) - 0.2),
        (1.95, 0.2),
        arrowprops={"arrowstyle": "->", "color": "#3465a4"},
    )
    axes.text(1.85, len(ROWS) / 2, "imports", rotation=90, ha="right", va="center", fontsize=9)
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=110, bbox_inches="tight")


if __name__ == "__main__":
    main()
