"""A pool with copies of every row: BatchBALD against BALD (Kirsch et al. 2019)."""

from functools import partial

from credax.experiments.active_loops import (
    CPU_NETWORK,
    CPU_TRAINING,
    CPU_WORDS,
    Buying,
    Loop,
    by_arm,
    dropout_network,
    run,
)
from credax.experiments.experiment import Arm, Data, Experiment, Scale
from credax.experiments.published import Measure, Published
from credax.methods.dropout.mc_dropout import MCDropout
from credax.training import Training

MEASURES = (
    Measure("labels_for_90", "labels for 90 %", decimals=0),
    Measure("labels_for_95", "labels for 95 %", decimals=0),
    Measure("accuracy", "accuracy at the end (theirs: 300 labels)"),
)
SOURCE = (
    "recomputed from the logs kept in BlackHC/BatchBALD, medians of six runs, 10 masks; ours are "
    "means of the seeds that got there"
)
TWICE = Published(
    "MNIST with every row twice",
    SOURCE,
    MEASURES,
    """
    BatchBALD | 100 | 245 | .955
    BALD      | 175 | -   | .926
    Random    | 170 | -   | .926
    """,
)
FIVE_TIMES = Published(
    "MNIST with every row five times",
    f"{SOURCE}; BALD did not get to 90 % in half of the runs",
    MEASURES,
    """
    BatchBALD | 110 | 270 | .957
    BALD      | -   | -   | .891
    Random    | 155 | -   | .926
    """,
)


def arms(samples: int) -> tuple[Arm, ...]:
    """One method; BatchBALD, PowerBALD, BALD and a random choice."""
    method = MCDropout(rate=None, samples=samples)
    names = {
        "batchbald": "BatchBALD",
        "power-bald": "PowerBALD",
        "bald": "BALD",
        "random": "Random",
    }
    return tuple(Arm(name, label, method) for name, label in names.items())


def findings(loops: list[Loop]) -> tuple[str, ...]:
    """How many purchases were copies of a row that had a label already."""
    parts = []
    for label, own in by_arm(loops).items():
        bought = sum(len(each.history.purchases) - each.history.labels[0] for each in own)
        parts.append(f"{label} {sum(each.copies for each in own)} of {bought}")
    return (f"Purchases that are copies of an earlier one: {', '.join(parts)}.",)


TEST = Scale(
    data=Data("mnist", 60, 60, (8, 8, 1), 4, synthetic=True),
    network=partial(dropout_network, channels=(), dense=8),
    training=Training(batch_size=8, learning_rate=0.05),
    arms=arms(4),
    seeds=1,
    evaluation=Buying(8, 4, 1, repeat=3, steps=3),
    note="generated images, not MNIST, one purchase: shows that the program runs",
)
CPU = Scale(
    data=Data("mnist", 1000, 1000, (28, 28, 1), 10),
    network=CPU_NETWORK,
    training=CPU_TRAINING,
    arms=arms(10),
    seeds=5,
    weight_decay=1e-4,
    evaluation=Buying(20, 10, 22, repeat=5, steps=300),
    note=(
        "1000 rows of MNIST, each five times with noise of a tenth of the standard deviation: 5000 "
        "candidates, all scored; 20 balanced labels and 22 purchases of 10; "
        f"{CPU_WORDS.format(steps=300, rate=0.002, before='a half')}; 10 masks of dropout, as "
        "published"
    ),
)
FULL = Scale(
    data=Data("mnist", 60_000, 10_000, (28, 28, 1), 10),
    network=partial(dropout_network, channels=(32, 64), dense=128, size=5, padding="VALID"),
    training=Training(
        batch_size=64, optimiser="adam", learning_rate=1e-3, schedule="constant", last_batch="pad"
    ),
    arms=arms(10),
    seeds=6,
    weight_decay=0.0,
    evaluation=Buying(20, 10, 28, repeat=5, steps=790),
    note=(
        "the published sizes: five copies of every row, 20 balanced labels, 28 purchases of 10, 10 "
        "masks; every training has 790 steps of 64 rows, ten of the published epochs of 5056 "
        "draws, where the published ones end by early stopping (patience 3) on 1024 validation rows"
    ),
)

EXPERIMENT = Experiment(
    name="active-repeated-mnist",
    title="MNIST with copies of every row",
    description=(
        "A pool in which every row is there five times with a little noise. The claim: BALD buys "
        "copies and is no better than a random choice, BatchBALD does not and needs fewer labels."
    ),
    scales={
        "test": TEST,
        "cpu": CPU,
        "paper": FULL,
    },
    run=run(FIVE_TIMES, TWICE, findings=findings),
)
