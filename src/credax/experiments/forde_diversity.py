"""Diversity against the severity of corruption (Trinh et al. 2024, figure 7)."""

from dataclasses import replace

from credax.experiments.bench import Bench
from credax.experiments.experiment import Experiment, Outcome
from credax.experiments.forde_cifar100 import PAPER
from credax.experiments.forde_digits import CPU, SMALL, digits_scale, ensemble
from credax.experiments.forde_images import MEMBERS, forde_arms
from credax.experiments.shift import Shift, Study, severity_figure, study

CURVES = {
    "gradient_distance": "1 - cosine of gradients",
    "mutual_information": "Epistemic uncertainty (nats)",
    "accuracy": "Accuracy (share)",
}


def run(bench: Bench) -> Outcome:
    """Cosine distance of input gradients and epistemic uncertainty at every severity."""
    found = study(bench)
    rows = {key: _distances(scores) for key, scores in found.by_severity.items()}
    found = Study(found.results, rows)
    return Outcome(
        found.results, figures=(severity_figure(found, CURVES),), findings=_findings(found)
    )


def _distances(scores: dict[int, dict[str, float]]) -> dict[int, dict[str, float]]:
    return {
        severity: {**values, "gradient_distance": 1 - values["gradient_cosine"]}
        for severity, values in scores.items()
    }


def _findings(found: Study) -> tuple[str, ...]:
    labels = dict.fromkeys(label for label, _ in found.by_severity)
    lines = []
    for name, heading in (
        ("gradient_distance", "cosine distance of gradients"),
        ("mutual_information", "epistemic uncertainty in nats"),
    ):
        for label in labels:
            seeds = [rows for (row, _), rows in found.by_severity.items() if row == label]
            means = [sum(rows[s][name] for rows in seeds) / len(seeds) for s in sorted(seeds[0])]
            values = "  ".join(f"{mean:.4f}" for mean in means)
            lines.append(
                f"{label}, {heading} at severity {', '.join(map(str, sorted(seeds[0])))}: {values}"
            )
    return tuple(lines)


EXPERIMENT = Experiment(
    name="forde-diversity",
    title="Diversity under corruption",
    description=(
        "How far apart the members' input gradients and predictions are as corruption grows. The "
        "claim: both grow, and FoRDE-PCA is above a deep ensemble at every severity."
    ),
    scales={
        "test": digits_scale(
            (ensemble(3), *forde_arms(3)), 1, SMALL, small=True, gradients_by_severity=True
        ),
        "cpu": digits_scale((ensemble(10), *forde_arms(10)), 3, CPU, gradients_by_severity=True),
        "paper": replace(
            PAPER,
            arms=(ensemble(MEMBERS), *forde_arms(MEMBERS)),
            evaluation=Shift("standard", gradients_by_severity=True),
            note="CIFAR-100 at the README's settings; generated corruptions of 19 kinds",
        ),
    },
    run=run,
)
