"""Draws structure.png: the arrays of a small residual network and the groups on their axes."""

from pathlib import Path

import jax
import matplotlib.pyplot as plt

from credax import networks, structure

COLOURS = {"output": "#2a6f97", "input": "#e07a2f", "elementwise": "#8a8a8a"}
WORDS = {"output": "makes", "input": "reads", "elementwise": "goes along"}


def main():
    network = networks.ResNet(3, widths=(4, 8), blocks=(1, 1), stem=4)
    x = jax.ShapeDtypeStruct((2, 8, 8, 3), "float32")
    found = structure.trace(network, jax.eval_shape(network.init, jax.random.key(0), x), x)
    used = {o.path for group in found.groups for o in group.occurrences}
    paths = sorted(used, key=lambda path: (found.first_use[path], path))
    figure, axes = plt.subplots(figsize=(7.2, 7.5), layout="constrained")
    for column, group in enumerate(found.groups):
        for occurrence in group.occurrences:
            row = paths.index(occurrence.path)
            axes.scatter(column, row, s=90, marker="s", color=COLOURS[occurrence.role])
        axes.axvline(column, color="#dddddd", lw=0.8, zorder=0)
    for role, colour in COLOURS.items():
        axes.scatter([], [], s=70, marker="s", color=colour, label=WORDS[role])
    heads = [f"group {g.id}\n{g.size} units\n{len(g.scalings)} scalings" for g in found.groups]
    axes.set_xticks(range(len(heads)), heads)
    axes.xaxis.tick_top()
    axes.set_yticks(range(len(paths)), paths, fontsize=7)
    axes.set_ylim(len(paths) - 0.5, -0.5)
    axes.set_xlim(-0.5, len(heads) - 0.5)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=110)


if __name__ == "__main__":
    main()
