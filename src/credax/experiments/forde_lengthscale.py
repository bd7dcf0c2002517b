"""From the identity to PCA, by both published mixes (Trinh et al. 2024, figure 11)."""

from dataclasses import replace
from functools import partial

from credax.experiments.bench import Bench
from credax.experiments.experiment import Arm, Experiment, Outcome
from credax.experiments.forde_cifar100 import PAPER
from credax.experiments.forde_digits import CPU, SMALL, digits_scale, ensemble
from credax.experiments.forde_images import EPS, MEMBERS, SOURCE
from credax.experiments.published import Measure, Published
from credax.experiments.shift import Study, paired_findings, study
from credax.methods.repulsive.forde import FoRDE
from credax.report import Result
from credax.report.figure import Figure, Panel, Sheet
from credax.report.layers import Line
from credax.report.svg import Axis, Frame

SHARES = (0.0, 0.1, 0.2, 0.4, 0.8, 1.0)
MILD, HARD = (1, 2, 3), (4, 5)

FIGURE_11 = Published(
    "figure 11: ResNet18 on CIFAR-100, mix of identity (0) and PCA (1)",
    f"{SOURCE}, figure 11, read off the drawing to 0.01, 3 seeds; which mix it is, is not stated",
    (
        Measure("accuracy", "clean %", 100, 2),
        Measure("accuracy_mild", "severity 1-3 %", 100, 2),
        Measure("accuracy_hard", "severity 4-5 %", 100, 2),
    ),
    """
    Deep ensemble        | 81.73 | 62.30 | 43.20
    identity             | 82.08 | 62.24 | 43.16
    PCA                  | 81.44 | 63.76 | 44.71
    inverse mix, a = 0.1 | 82.07 | 62.40 | 43.34
    inverse mix, a = 0.2 | 82.03 | 62.50 | 43.43
    inverse mix, a = 0.4 | 82.07 | 62.97 | 43.91
    inverse mix, a = 0.8 | 81.50 | 63.53 | 44.40
    """,
)


def arms(members: int, shares: tuple[float, ...] = SHARES, **options) -> tuple[Arm, ...]:
    """The deep ensemble, both ends, and both mixes between them."""
    forde = partial(FoRDE, members, **options)
    between = [share for share in shares if 0 < share < 1]
    mixes = [
        Arm(
            f"{mixing}-{share:g}",
            f"{mixing} mix, a = {share:g}",
            forde(lengthscale=share, mixing=mixing),
        )
        for mixing in ("inverse", "linear")
        for share in between
    ]
    return (
        ensemble(members),
        Arm("identity", "identity", forde(lengthscale="identity")),
        Arm("pca", "PCA", forde(lengthscale="pca")),
        *mixes,
    )


def run(bench: Bench) -> Outcome:
    """Clean and corrupted scores by mix, and accuracy at mild and hard corruption."""
    found = study(bench)
    results = [_with_bands(result, found) for result in found.results]
    return Outcome(results, (FIGURE_11,), (sweep_figure(results),), paired_findings(results))


def _with_bands(result: Result, found: Study) -> Result:
    scores = found.by_severity[result.method, result.seed]
    bands = {}
    for name, severities in (("mild", MILD), ("hard", HARD)):
        values = [scores[s]["accuracy"] for s in severities if s in scores]
        if values:
            bands[f"accuracy_{name}"] = sum(values) / len(values)
    return replace(result, metrics={**result.metrics, **bands})


def sweep_figure(results: list[Result]) -> Figure:
    """Scores against the share of PCA in the mix, one line per mix, mean over seeds."""
    panels = []
    for name, heading in (
        ("accuracy", "Clean accuracy (share)"),
        ("corrupted_accuracy", "Corrupted accuracy (share)"),
        ("corrupted_nll", "Corrupted NLL (nats)"),
    ):
        lines = [_line(results, mixing, name) for mixing in ("inverse", "linear")]
        values = [value for _, line in lines for value in line]
        frame = Frame(Axis(0, 1, "share of PCA"), Axis.around(values))
        layers = [Line(x, y, number) for number, (x, y) in enumerate(lines)]
        panels.append(Panel(heading, frame, layers))
    caption = "Scores against the share of PCA in the metric, mean over seeds."
    return Sheet("sweep", caption, panels, 3, series=("inverse mix", "linear mix"))


def _line(results: list[Result], mixing: str, name: str) -> tuple[list[float], list[float]]:
    places: dict[float, list[float]] = {}
    for result in results:
        share = {"identity": 0.0, "PCA": 1.0}.get(result.method)
        if result.method.startswith(mixing):
            share = float(result.method.rpartition(" ")[2])
        if share is not None:
            places.setdefault(share, []).append(result.metrics[name])
    shares = sorted(places)
    return shares, [sum(places[s]) / len(places[s]) for s in shares]


EXPERIMENT = Experiment(
    name="forde-lengthscale",
    title="Between the identity and PCA",
    description=(
        "The metric in which gradients are compared, from the identity to the data's principal "
        "components. The claim: clean accuracy falls and corrupted accuracy rises with the share "
        "of PCA. Two different mixes have been published; both are here."
    ),
    scales={
        "test": digits_scale(arms(3, (0.0, 0.4, 1.0)), 1, SMALL, small=True),
        "cpu": digits_scale(arms(10), 3, CPU),
        "paper": replace(
            PAPER,
            arms=arms(MEMBERS, eps=EPS),
            seeds=3,
            note="CIFAR-100 at the README's settings; generated corruptions of 19 kinds",
        ),
    },
    run=run,
)
