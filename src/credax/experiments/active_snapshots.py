"""Snapshot ensembles choose labels: a deep ensemble's curve at a fifth of its steps? (2023)."""

from functools import partial
from statistics import fmean, stdev
from typing import Any

import jax
import numpy as np

from credax.active.rounds import fitting, measured
from credax.active.snapshot_presets import PRESETS
from credax.data import Dataset
from credax.experiments.active_loops import Buying, Loop, by_arm, dropout_network, run
from credax.experiments.bench import Bench
from credax.experiments.experiment import Arm, Data, Experiment, Scale
from credax.methods.dropout.mc_dropout import MCDropout
from credax.methods.ensembles.deep_ensemble import DeepEnsemble
from credax.methods.ensembles.single import Single
from credax.methods.trajectory.snapshot_ensemble import SnapshotEnsemble
from credax.networks import build
from credax.training import Training, fit

MEMBERS = 5
SNAPSHOT, ENSEMBLE = "Snapshots", "Deep ensemble"
RATIO = "variation-ratio"
ACQUISITIONS = {
    "random": "random",
    "mc-dropout": RATIO,
    "deep-ensemble": RATIO,
    "snapshot": RATIO,
    "snapshot-entropy": "entropy",
    "snapshot-bald": "bald",
    "snapshot-greedy": "variation-ratio-greedy",
    "snapshot-continued": RATIO,
}


def arms(
    snapshots: SnapshotEnsemble, masks: int, rate: float, network: Any = None
) -> tuple[Arm, ...]:
    """A random choice, three posteriors with one acquisition, and variants of snapshots.

    ``rate`` is the learning rate of the others: that of snapshots is the base of their cycle, a
    tenth of its peak. ``network`` has dropout layers, for MC dropout alone.
    """
    masked, own = MCDropout(rate=None, samples=masks), {"learning_rate": rate}
    return (
        Arm("random", "Snapshots, random", snapshots),
        Arm("mc-dropout", "MC dropout", masked, network, training=own),
        Arm("deep-ensemble", ENSEMBLE, DeepEnsemble(snapshots.members), training=own),
        Arm("snapshot", SNAPSHOT, snapshots),
        Arm("snapshot-entropy", "Snapshots, entropy", snapshots),
        Arm("snapshot-bald", "Snapshots, BALD", snapshots),
        Arm("snapshot-greedy", "Snapshots, greedy", snapshots),
        Arm("snapshot-continued", "Snapshots, fine-tuned", snapshots),
    )


def findings(loops: list[Loop]) -> tuple[str, ...]:
    """Mean accuracy over the curve, steps and seconds, of every arm over the deep ensemble's."""
    found = by_arm(loops)
    if ENSEMBLE not in found:
        return ()
    base = _summary(found[ENSEMBLE])
    sentences = []
    for label, own in found.items():
        if label == ENSEMBLE:
            continue
        area, steps, seconds = _summary(own)
        gaps = [_area(a) - _area(b) for a, b in zip(own, found[ENSEMBLE], strict=False)]
        error = f" ± {stdev(gaps) / len(gaps) ** 0.5:.4f}" if len(gaps) > 1 else ""
        sentences.append(
            f"{label}: mean accuracy over the curve {area:.4f}, {area - base[0]:+.4f}{error} "
            f"against the deep ensemble, with {steps / base[1]:.2f} of its gradient steps and "
            f"{seconds / base[2]:.2f} of its seconds."
        )
    return tuple(sentences)


def _area(loop: Loop) -> float:
    """Mean accuracy over the rounds after the first."""
    return float(np.mean(loop.history.curve()[1:]))


def _summary(loops: list[Loop]) -> tuple[float, float, float]:
    seconds = [sum(s or 0.0 for s in loop.history.seconds) for loop in loops]
    steps = [loop.history.steps for loop in loops]
    area = fmean(_area(loop) for loop in loops)
    return area, fmean(steps), fmean(seconds)


def trained_afresh(bench: Bench, dataset: Dataset, loops: list[Loop]) -> tuple[str, ...]:
    """One new network on the labels of every round: what the choice is worth, whoever made it."""
    found = by_arm(loops)
    if ENSEMBLE not in found:
        return ()
    arm = found[ENSEMBLE][0].trial.arm
    areas = {}
    for label, own in found.items():
        for loop in own:
            bench.say(f"{label}, seed {loop.trial.seed}: networks trained afresh")
            areas[label, loop.trial.seed] = bench.remembered(
                loop.trial, partial(_fresh, bench, dataset, loop, arm)
            )["afresh"]
    sentences = []
    for label, own in found.items():
        seeds = [loop.trial.seed for loop in own]
        ours = [areas[label, seed] for seed in seeds]
        gaps = [
            areas[label, seed] - areas[ENSEMBLE, seed]
            for seed in seeds
            if (ENSEMBLE, seed) in areas and label != ENSEMBLE
        ]
        error = f" ± {stdev(gaps) / len(gaps) ** 0.5:.4f}" if len(gaps) > 1 else ""
        against = f", {fmean(gaps):+.4f}{error} against those of the deep ensemble" if gaps else ""
        sentences.append(
            f"One network trained afresh on the labels of {label}: mean accuracy over the curve "
            f"{fmean(ours):.4f}{against}."
        )
    return tuple(sentences)


def _fresh(bench: Bench, dataset: Dataset, loop: Loop, arm: Arm) -> dict[str, float]:
    """Mean accuracy over the rounds after the first of new networks on the labels of each."""
    settings: Buying = bench.scale.evaluation
    problem, history = bench.problem(arm), loop.history
    accuracies = []
    for number, labels in list(enumerate(history.labels))[1:]:
        rows = dataset.train[np.sort(history.purchases[:labels])]
        training = fitting(bench.scale.training_of(arm), labels, settings.steps)
        key = jax.random.fold_in(jax.random.key(loop.trial.seed), number)
        posterior = fit(problem, Single(), rows, key=key, training=training, progress=False)
        accuracies.append(measured(posterior, dataset.test, key, "classification")["accuracy"])
    return {"afresh": fmean(accuracies)}


_SMALL = partial(dropout_network, channels=(), dense=8)
TEST = Scale(
    data=Data("fashion-mnist", 120, 60, (8, 8, 1), 4, synthetic=True),
    network=partial(build, "mlp", hidden=(8,)),
    training=Training(batch_size=4, learning_rate=5e-3),
    arms=arms(SnapshotEnsemble(members=2, schedule="one-cycle"), 4, 0.05, _SMALL),
    seeds=1,
    evaluation=Buying(8, 4, 2, ACQUISITIONS, ("snapshot-continued",), steps=12),
    note="generated images, not Fashion-MNIST, two purchases: shows that the program runs",
)
_CPU_NETWORK = partial(dropout_network, channels=(8, 16), dense=64, padding="VALID")
CPU = Scale(
    data=Data("fashion-mnist", 5000, 1000, (28, 28, 1), 10),
    network=partial(_CPU_NETWORK, rate=0.0),
    training=Training(batch_size=32, learning_rate=0.01, clip_norm=1.0, last_batch="pad"),
    arms=arms(
        SnapshotEnsemble(members=MEMBERS, schedule="one-cycle"), 20, 0.1, network=_CPU_NETWORK
    ),
    seeds=5,
    weight_decay=1e-3,
    evaluation=Buying(
        20, 40, 6, ACQUISITIONS, ("snapshot-continued",), scoring_pool=2000, steps=300
    ),
    note=(
        "a pool of 5000 rows of Fashion-MNIST of which 2000 are scored in each round, 20 balanced "
        "labels and 6 purchases of 40; 5x5 convolutions of 8 and 16 channels without padding, 64 "
        "hidden units (MC dropout: with dropout of a half before and after them, 20 masks); 300 "
        "steps of 32 rows per network and round; snapshots at equal intervals of the last half, at "
        "ten times the base rate of 0.01 as published, five members; the deep ensemble and MC "
        "dropout by a cosine from 0.1; gradients clipped to a norm of 1; the curve is that of the "
        "posterior that asks, and below it that of one network trained afresh; rates were chosen "
        "by the accuracy on 2000 rows of the training data with 60 and 260 labels bought at "
        "random: no test row was looked at"
    ),
)
_CIFAR = PRESETS["cifar10"]
FULL = Scale(
    data=Data("cifar10", 50_000, 10_000, (32, 32, 3), 10),
    network=partial(build, "resnet18"),
    training=_CIFAR.training,
    arms=tuple(
        arm
        for arm in arms(_CIFAR.method, 50, 10 * _CIFAR.learning_rate)
        if arm.name != "mc-dropout"
    ),
    seeds=3,
    weight_decay=_CIFAR.weight_decay,
    evaluation=Buying(
        _CIFAR.initial, _CIFAR.query, _CIFAR.rounds, ACQUISITIONS, ("snapshot-continued",)
    ),
    note=(
        "the published settings for CIFAR-10: ResNet-18, 200 epochs, snapshots at 120, 140, ..., "
        "200, 500 labels and 29 purchases of 500; without MC dropout, for this network has no "
        "dropout layers; the curve is that of the posterior that asks, theirs that of a classifier "
        "trained afresh, which ours has below it"
    ),
)

EXPERIMENT = Experiment(
    name="active-snapshots",
    title="Snapshot ensembles choose labels",
    description=(
        "Labels bought by the variation ratio of snapshots of one training, of a deep ensemble and "
        "of MC dropout. The claim of Jung, Kim and Lee (ICLR 2023): snapshots have about the deep "
        "ensemble's learning curve at a fifth of its gradient steps."
    ),
    scales={"test": TEST, "cpu": CPU, "paper": FULL},
    run=run(findings=findings, after=trained_afresh),
)
