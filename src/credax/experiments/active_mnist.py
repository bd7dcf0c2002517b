"""MNIST from 20 labels on, by MC dropout and five acquisitions (Gal, Islam, Ghahramani 2017)."""

from functools import partial

from credax.experiments.active_loops import (
    CPU_NETWORK,
    CPU_TRAINING,
    CPU_WORDS,
    Buying,
    Loop,
    by_arm,
    dropout_network,
    median_labels,
    run,
)
from credax.experiments.experiment import Arm, Data, Experiment, Scale
from credax.experiments.published import Measure, Published
from credax.methods.dropout.mc_dropout import MCDropout
from credax.training import Training

MEASURES = (
    Measure("labels_for_90", "labels for 90 %", decimals=0),
    Measure("labels_for_95", "labels for 95 %", decimals=0),
)
PAPER = Published(
    "Gal, Islam, Ghahramani 2017: images until a test error of 10 % and 5 %",
    "Deep Bayesian active learning with image data, ICML 2017, as quoted in the README of "
    "lunayht/DBALwithImgData; ours are means of the seeds that got there",
    MEASURES,
    """
    BALD             | 145 | 335
    Variation ratios | 120 | 295
    Max entropy      | 165 | 355
    Mean STD         | 230 | 695
    Random           | 255 | 835
    """,
)
RERUN = Published(
    "the same rerun in PyTorch by others",
    "README of lunayht/DBALwithImgData",
    MEASURES,
    """
    BALD             | 150 | 296
    Variation ratios | 143 | 283
    Max entropy      | 163 | 310
    Mean STD         | 100 | 295
    Random           | 250 | 517
    """,
)
# What the paper calls variation ratio is one minus the largest mean probability.
ACQUISITIONS = {"variation-ratios": "variation-ratio-soft", "max-entropy": "entropy"}
LABELS = {
    "bald": "BALD",
    "variation-ratios": "Variation ratios",
    "max-entropy": "Max entropy",
    "mean-std": "Mean STD",
    "random": "Random",
}


def arms(samples: int) -> tuple[Arm, ...]:
    """One method, five acquisitions; masks of the network's own dropout layers."""
    method = MCDropout(rate=None, samples=samples)
    return tuple(Arm(name, label, method) for name, label in LABELS.items())


def findings(loops: list[Loop]) -> tuple[str, ...]:
    """How many times the labels of BALD and of variation ratios a random choice needs."""
    found = by_arm(loops)
    sentences = []
    for level in (0.9, 0.95):
        for label in ("BALD", "Variation ratios"):
            if label not in found or "Random" not in found:
                continue
            ours = median_labels(found[label], level)
            other = median_labels(found["Random"], level)
            if max(ours, other) < float("inf"):
                sentences.append(
                    f"For {level:.0%} a random choice needs {other / ours:.2f} times the labels of "
                    f"{label} (published: {_published(label, level):.2f})."
                )
    return tuple(sentences)


def _published(label: str, level: float) -> float:
    column = 0 if level == 0.9 else 1
    ours, other = PAPER.rows[label][column], PAPER.rows["Random"][column]
    assert ours is not None
    assert other is not None
    return other.mean / ours.mean


TEST = Scale(
    data=Data("mnist", 120, 60, (8, 8, 1), 4, synthetic=True),
    network=partial(dropout_network, channels=(4,), dense=8, size=3, pools=1),
    training=Training(batch_size=8, learning_rate=0.05),
    arms=arms(4),
    seeds=1,
    evaluation=Buying(8, 4, 1, ACQUISITIONS, steps=3),
    note="generated images, not MNIST, one purchase: shows that the program runs",
)
CPU = Scale(
    data=Data("mnist", 40_000, 1000, (28, 28, 1), 10),
    network=partial(CPU_NETWORK, first=0.25),
    training=CPU_TRAINING.replace(learning_rate=1e-3),
    arms=arms(100),
    seeds=3,
    weight_decay=1e-4,
    evaluation=Buying(20, 10, 18, ACQUISITIONS, scoring_pool=2000, steps=1200),
    note=(
        "a pool of 40 000 rows of MNIST of which 2000 are scored in each round, 20 balanced labels "
        "and 18 purchases of 10; "
        f"{CPU_WORDS.format(steps=1200, rate=0.001, before='a quarter')}; dropout rates and 100 "
        "masks as published"
    ),
)
FULL = Scale(
    data=Data("mnist", 60_000, 10_000, (28, 28, 1), 10),
    network=partial(dropout_network, channels=(32, 32), dense=128, size=4, pools=1, first=0.25),
    training=Training(
        batch_size=32, optimiser="adam", learning_rate=1e-3, schedule="constant", last_batch="pad"
    ),
    arms=arms(100),
    seeds=3,
    weight_decay=1e-4,
    evaluation=Buying(20, 10, 100, ACQUISITIONS, scoring_pool=2000, steps=1000),
    note=(
        "the published sizes: 20 balanced labels, 100 purchases of 10, 2000 rows scored, 100 "
        "masks, convolutions of 32 channels and 128 hidden units, dropout of 0.25 and 0.5; every "
        "training has 1000 steps of 32 rows, the weight decay is not tuned on validation rows"
    ),
)

EXPERIMENT = Experiment(
    name="active-mnist",
    title="MNIST from 20 labels on",
    description=(
        "Labels of MNIST bought ten at a time by BALD, variation ratios, maximum entropy, mean STD "
        "and at random, with MC dropout. The claim: BALD and variation ratios need about half of "
        "the labels that a random choice needs."
    ),
    scales={"test": TEST, "cpu": CPU, "paper": FULL},
    run=run(PAPER, RERUN, findings=findings),
)
