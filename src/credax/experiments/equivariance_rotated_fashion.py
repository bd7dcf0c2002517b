"""Rotated Fashion-MNIST: ensembles with augmentation against built-in symmetry."""

import numpy as np

from credax import groups
from credax.data import load
from credax.errors import InputError
from credax.experiments.bench import Bench
from credax.experiments.equivariance_pictures import Settings, picture_scale, study
from credax.experiments.experiment import Arm, Data, Experiment, Outcome
from credax.experiments.published import Measure, Published
from credax.methods.ensembles.single import Single

PUBLISHED = Published(
    "orbit same prediction out of distribution",
    "Gerken and Kessel: Emergent equivariance in deep ensembles, ICML 2024 (slides)",
    tuple(Measure(f"osp_c{order}", f"C{order}", decimals=2) for order in (4, 8, 16)),
    """
    DeepEns + DA | 3.85 ± 0.12 | 7.72 ± 0.34 | 15.24 ± 0.69
    only DA | 3.41 ± 0.18 | 6.73 ± 0.24 | 12.77 ± 0.71
    Group-convolutional | 4 ± 0.0 | 7.71 ± 0.21 | 15.08 ± 0.34
    Canonicalised | 4 ± 0.0 | 7.45 ± 0.14 | 12.41 ± 0.85
    """,
)


def other_pictures(names: tuple[str, ...], count: int, size: int, mask) -> dict[str, np.ndarray]:
    """Grey images of other sets in the same size, masked; sets that are not here are left out."""
    found = {}
    for name in names:
        if name == "noise":
            pixels = 128 + 64 * np.random.default_rng(3).standard_normal((count, size, size, 1))
        else:
            try:
                x = np.asarray(load(name, download=False).test.x[:count], np.float32)
            except InputError:
                continue
            grey = x.mean(-1, keepdims=True)
            edge = (grey.shape[1] - size) // 2
            pixels = grey[:, edge : edge + size, edge : edge + size] if edge > 0 else grey
            if pixels.shape[1] != size:
                continue
        found[name] = (pixels * mask[..., None]).astype(np.float32)
    return found


def run(bench: Bench) -> Outcome:
    """The study of all arms, beside the published table."""
    settings: Settings = bench.scale.evaluation
    size = bench.dataset.input_shape[0]
    others = other_pictures(settings.others, settings.evaluated, size, groups.soft_mask(size))
    return study(bench, others, (PUBLISHED,))


BUILT_IN = (
    Arm("group-cnn", "Group-convolutional", Single()),
    Arm("canonicalised", "Canonicalised", Single()),
)


def _data(rows: int, test: int, size: int = 28, synthetic: bool = False) -> Data:
    return Data("fashion-mnist", rows, test, (size, size, 1), 10, synthetic=synthetic)


EXPERIMENT = Experiment(
    name="equivariance-rotated-fashion",
    title="Rotated Fashion-MNIST",
    description=(
        "Convolutional networks trained on whole orbits of C4, C8 and C16. The claim: an ensemble "
        "with augmentation is nearly as invariant as networks built to be, also far from its data, "
        "and is better where turns need interpolation. Published: ensembles of 100 networks with "
        "120 000 parameters; layers, training and mask are not stated."
    ),
    scales={
        "test": picture_scale(
            _data(32, 16, 12, True),
            Settings((4, 8), 8, ("noise",)),
            3,
            1,
            (4, 4),
            "made-up images",
            built_in=BUILT_IN,
        ),
        "cpu": picture_scale(
            _data(1000, 1000),
            Settings((4, 8, 16), 500, fields=(4, 8, 8)),
            5,
            10,
            (16, 32, 32),
            "1000 images, 5 members",
            seeds=3,
            built_in=BUILT_IN,
        ),
        "paper": picture_scale(
            _data(60000, 10000),
            Settings((4, 8, 16), 10000),
            100,
            20,
            (32, 64, 96),
            "100 members",
            built_in=BUILT_IN,
        ),
    },
    run=run,
)
