"""How many members (Trinh et al. 2024, figures 5 and 6)."""

from dataclasses import replace
from functools import partial

from credax.experiments.bench import Bench
from credax.experiments.experiment import Arm, Experiment, Outcome
from credax.experiments.forde_cifar10 import PAPER
from credax.experiments.forde_digits import CPU, SMALL, digits_scale
from credax.experiments.forde_images import EPS, SOURCE, paper_network
from credax.experiments.published import Measure, Published
from credax.experiments.shift import study
from credax.methods.ensembles.deep_ensemble import DeepEnsemble
from credax.methods.repulsive.forde import FoRDE
from credax.report import Result
from credax.report.figure import Figure, Panel, Sheet
from credax.report.layers import Line
from credax.report.svg import Axis, Frame

KINDS = ("Deep ensemble", "FoRDE-PCA")

FIGURES_5_6 = Published(
    "figures 5 and 6: WideResNet-16-4 on CIFAR-10 and CIFAR-10-C",
    f"{SOURCE}, figures 5 and 6, approximate, 5 seeds",
    (Measure("nll", "NLL"), Measure("corrupted_nll", "cNLL")),
    """
    Deep ensemble, 10 members | .120 | .84
    Deep ensemble, 30 members | .116 | .81
    FoRDE-PCA, 10 members     | .125 | .74
    FoRDE-PCA, 30 members     | .125 | .66
    """,
)


def arms(sizes: tuple[int, ...], **options) -> tuple[Arm, ...]:
    """A deep ensemble and FoRDE-PCA of every size."""
    return tuple(
        Arm(f"{name}-{size}", f"{label}, {size} members", method)
        for size in sizes
        for name, label, method in (
            ("deep-ensemble", KINDS[0], DeepEnsemble(size, batches="shared")),
            ("forde-pca", KINDS[1], FoRDE(size, **options)),
        )
    )


def run(bench: Bench) -> Outcome:
    """Clean and corrupted scores by the number of members."""
    results = study(bench).results
    return Outcome(results, (FIGURES_5_6,), (size_figure(results),))


def size_figure(results: list[Result]) -> Figure:
    """Scores against the number of members, mean over seeds."""
    panels = []
    for name, heading in (
        ("nll", "Clean NLL (nats)"),
        ("corrupted_nll", "Corrupted NLL (nats)"),
        ("corrupted_accuracy", "Corrupted accuracy (share)"),
    ):
        lines = [_line(results, kind, name) for kind in KINDS]
        values = [value for _, line in lines for value in line]
        sizes = [size for line, _ in lines for size in line]
        frame = Frame(Axis.around(sizes, "members"), Axis.around(values))
        layers = [Line(x, y, number) for number, (x, y) in enumerate(lines)]
        panels.append(Panel(heading, frame, layers))
    caption = "Scores against the number of members, mean over seeds."
    return Sheet("size", caption, panels, 3, series=KINDS)


def _line(results: list[Result], kind: str, name: str) -> tuple[list[int], list[float]]:
    places: dict[int, list[float]] = {}
    for result in results:
        label, _, size = result.method.partition(", ")
        if label == kind:
            places.setdefault(int(size.split()[0]), []).append(result.metrics[name])
    sizes = sorted(places)
    return sizes, [sum(places[s]) / len(places[s]) for s in sizes]


EXPERIMENT = Experiment(
    name="forde-ensemble-size",
    title="Number of members",
    description=(
        "A deep ensemble and FoRDE-PCA of growing size. The claim: under corruption ten repelled "
        "members are as good as thirty independent ones."
    ),
    scales={
        "test": digits_scale(arms((2, 3)), 1, SMALL, small=True),
        "cpu": digits_scale(arms((2, 5, 10, 20)), 3, CPU),
        "paper": replace(
            PAPER,
            network=partial(paper_network, "wide-resnet-16-4"),
            arms=arms((10, 15, 20, 25, 30), eps=EPS),
            note="WideResNet-16-4 on CIFAR-10, otherwise the README's settings",
        ),
    },
    run=run,
)
