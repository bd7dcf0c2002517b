"""Tissue has no preferred orientation: ensembles with augmentation on histological tiles."""

from dataclasses import dataclass

import numpy as np

from credax.data import Dataset, load
from credax.data.histology import CLASSES, histology, load_histology
from credax.data.places import root_folder
from credax.errors import InputError
from credax.experiments.bench import Bench
from credax.experiments.equivariance_pictures import Settings, picture_scale, study
from credax.experiments.experiment import Data, Experiment, Outcome

FOLDER = "NCT-CRC-HE-100K"
COMPANIONS = {
    "other_patients": "CRC-VAL-HE-7K",
    "unnormalised": "NCT-CRC-HE-100K-NONORM",
}


@dataclass(frozen=True)
class Tiles(Data):
    """Tiles from the folder ``NCT-CRC-HE-100K`` of the data folder."""

    def load(self, root: str | None = None, download: bool = True) -> Dataset:
        """So many tiles per class."""
        if self.synthetic:
            return self.made_up(self.train_rows, self.test_rows)
        size, classes = self.input_shape[0], len(CLASSES)
        rows = {"train": self.train_rows // classes, "test": self.test_rows // classes}
        return histology(root_folder(root) / FOLDER, size=size, **rows)

    def available(self, root: str | None = None) -> bool:
        """Whether the folder is there."""
        return self.synthetic or (root_folder(root) / FOLDER).exists()


def run(bench: Bench) -> Outcome:
    """Agreement over quarter turns on tissue, natural images and noise."""
    settings: Settings = bench.scale.evaluation
    shape = (settings.evaluated, *bench.dataset.input_shape)
    others: dict[str, np.ndarray] = {
        "noise": 128 + 64 * np.random.default_rng(3).standard_normal(shape)
    }
    if "cifar10" in settings.others and shape[1:] == (32, 32, 3):
        try:
            pictures = load("cifar10", bench.data_dir, download=False).test.x[: settings.evaluated]
            others["cifar10"] = np.asarray(pictures, np.float32)
        except InputError:
            bench.say("cifar10 is not here: natural images are left out")
    if not bench.scale.data.synthetic:
        others |= companions(bench, settings.evaluated)
    return study(bench, others)


def companions(bench: Bench, count: int) -> dict[str, np.ndarray]:
    """Tiles of other patients and tiles whose stain was not normalised, where they are."""
    found = {}
    for name, folder in COMPANIONS.items():
        path = root_folder(bench.data_dir) / folder
        if path.exists():
            size, each = bench.dataset.input_shape[0], -(-count // len(CLASSES))
            found[name] = load_histology(path, size=size, per_class=each)[0][:count]
        else:
            bench.say(f"{folder} is not here: {name.replace('_', ' ')} tiles are left out")
    return found


def _tiles(train: int, test: int, size: int, synthetic: bool = False) -> Tiles:
    return Tiles("nct-crc-he", 9 * train, 9 * test, (size, size, 3), 9, synthetic=synthetic)


EXPERIMENT = Experiment(
    name="equivariance-histology",
    title="Quarter turns of tissue",
    description=(
        "Convolutional networks on tiles of colorectal tissue (Kather et al. 2018), trained on "
        "quarter turns. The claim: from five members on the ensemble agrees with itself over an "
        "orbit far from its data. The data is not downloaded: put the folder NCT-CRC-HE-100K of "
        "Zenodo record 1214456 into the data folder."
    ),
    scales={
        "test": picture_scale(
            _tiles(4, 2, 12, True), Settings((4,), 8, (), False), 3, 1, (4, 4), "made-up images"
        ),
        "cpu": picture_scale(
            _tiles(200, 100, 32),
            Settings((4,), 500, ("cifar10",), False),
            20,
            15,
            (16, 32, 32),
            "20 members",
        ),
        "paper": picture_scale(
            _tiles(1111, 500, 56),
            Settings((4,), 4500, (), False),
            100,
            20,
            (32, 64, 96),
            "100 members",
        ),
    },
    run=run,
)
