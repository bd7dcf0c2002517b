"""A small pool that every test of the loop shares, so that programs are compiled once."""

import numpy as np

import credax as cx
from credax.data import Dataset, Split

INITIAL, QUERY, ROUNDS = 6, 4, 2
TRAINING = cx.Training(epochs=10, batch_size=16, learning_rate=0.1, last_batch="pad")
PROBLEM = cx.Problem(cx.networks.MLP((8,), outputs=3), cx.Categorical(), weight_decay=1e-3)
CENTRES = np.array([[1.5, 0.0], [-0.8, 1.5], [-0.8, -1.5]])


def rows(count, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, count).astype(np.int32)
    return (CENTRES[y] + rng.standard_normal((count, 2))).astype(np.float32), y


def dataset(pool=80, y=None):
    x, labels = rows(pool, 0)
    train = Split(x, labels if y is None else y)
    names = ("left", "top", "bottom")
    return Dataset("clouds", train, Split(*rows(30, 1)), Split(*rows(12, 2)), class_names=names)


def run(data=None, method=None, **options):
    """The loop on the small pool; options replace those of the case."""
    case = {"query": QUERY, "rounds": ROUNDS, "initial": INITIAL, "training": TRAINING}
    case |= {"acquisition": "entropy", "progress": False, **options}
    method = cx.DeepEnsemble(members=3) if method is None else method
    return cx.active.run(PROBLEM, method, dataset() if data is None else data, **case)


class Sealed:
    """Labels that nobody may read."""

    def __init__(self, count):
        self.count, self.dtype, self.shape, self.ndim = count, np.dtype(np.int32), (count,), 1

    def __len__(self):
        return self.count

    def __getitem__(self, rows):
        raise AssertionError(f"labels of {rows} were read")

    def __array__(self, *_, **__):
        raise AssertionError("all labels were read")


class Recorded(Sealed):
    """Labels that write down which of them are read."""

    def __init__(self, y):
        super().__init__(len(y))
        self.y, self.read = y, []

    def __getitem__(self, rows):
        self.read += np.asarray(rows).tolist()
        return self.y[rows]
