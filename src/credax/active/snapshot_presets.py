"""The published settings of active learning with snapshot ensembles (Jung, Kim, Lee 2023)."""

from dataclasses import dataclass

from credax.errors import InputError, unknown
from credax.methods.trajectory.snapshot_ensemble import SnapshotEnsemble
from credax.training.config import Training


@dataclass(frozen=True)
class SnapshotPreset:
    """One data set's settings; every field is named once, and all derive from it.

    The first ``start`` epochs are one cycle up to ten times the base rate; then the rate comes back
    to that peak in ``anneal`` epochs and stays, and ``members`` networks are taken at equal
    intervals, the last at the end.
    """

    data: str
    network: str
    epochs: int
    start: int
    """The epoch after which intervals between snapshots begin."""
    initial: int
    query: int
    rounds: int
    """Purchases: one fewer than the trainings that the paper counts."""
    members: int = 5
    anneal: int = 50
    batch_size: int = 64
    learning_rate: float = 1e-3
    momentum: float = 0.9
    weight_decay: float = 0.01

    def __post_init__(self):
        if not 0 <= self.start < self.epochs:
            raise InputError(f"start is {self.start}; give an epoch before {self.epochs}")

    @property
    def method(self) -> SnapshotEnsemble:
        """The method that asks."""
        return SnapshotEnsemble(
            members=self.members,
            schedule="one-cycle",
            start=self.start / self.epochs,
            anneal=self.anneal / self.epochs,
        )

    @property
    def training(self) -> Training:
        """How each round trains, whatever the number of labels."""
        return Training(
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            momentum=self.momentum,
            nesterov=True,
            augment=("flip", "crop"),
        )

    def snapshot_epochs(self, num_data: int) -> list[float]:
        """The epochs after which a network is taken, for so many labels.

        >>> PRESETS["cifar100"].snapshot_epochs(5000)
        [210.0, 220.0, 230.0, 240.0, 250.0]
        """
        per_epoch = self.training.steps_per_epoch(num_data)
        return [step / per_epoch for step in self.method.captures(self.epochs * per_epoch)]


PRESETS = {
    "cifar10": SnapshotPreset("cifar10", "resnet18", 200, 100, 500, 500, 29),
    "cifar100": SnapshotPreset("cifar100", "resnet18", 250, 200, 5000, 1000, 10),
    "tiny-imagenet": SnapshotPreset("tiny-imagenet", "resnet50", 350, 300, 10_000, 1000, 19),
}


def preset(name: str) -> SnapshotPreset:
    """The settings for a data set."""
    if name not in PRESETS:
        raise unknown("preset", name, PRESETS)
    return PRESETS[name]
