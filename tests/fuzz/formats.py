"""Every format credax reads: how to make small valid files of it, and the public reader."""

import shutil
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

TESTS = Path(__file__).resolve().parent.parent
GOLDEN = TESTS / "golden" / "before"
sys.path[:0] = [str(TESTS), str(TESTS / "data"), str(TESTS / "zoo")]


@dataclass(frozen=True)
class Format:
    """``make`` writes valid files into a folder; one of ``targets`` (a glob) is damaged; ``read``
    gives the numbers that came out, or None where a reader says in a warning that it read none."""

    name: str
    make: Callable[[Path], Any]
    targets: str
    read: Callable[[Path], Any]


# Runs


def golden(name, folder):
    shutil.copytree(GOLDEN / name, folder / name)
    for file in ("flowers.csv", "numbers.csv"):
        shutil.copy(GOLDEN / file, folder)


class Saved(NamedTuple):
    method: Any
    problem: Any
    data: Any
    about: Any


@cache
def saved(name):
    """A golden run as it should be."""
    import os

    from credax.cli.saved import original_rows, saved_run

    here = os.getcwd()
    os.chdir(GOLDEN)
    try:
        run = saved_run(name)
        return Saved(run.method, run.problem, original_rows(run), run.about)
    finally:
        os.chdir(here)


def numbers(prediction):
    from credax.prediction import ClassPrediction

    classes = isinstance(prediction, ClassPrediction)
    names = ("probs", "total", "epistemic") if classes else ("mean", "std", "epistemic")
    return [np.asarray(getattr(prediction, name)) for name in names]


def members(name, folder):
    method, problem, data, _ = saved(name)
    posterior = method.load(folder / name / "members.safetensors", problem)
    return numbers(posterior.predict(data.test.x[:3]))


def make_infinite(folder):
    method, problem, data = infinite()
    import credax as cx

    fitted = cx.fit(problem, method, data.train[slice(0, 8)], training=cx.Training(1, 8))
    fitted.save(folder / "members.safetensors")


@cache
def infinite():
    import credax as cx
    from credax import methods

    _, problem, data, _ = saved("deep-ensemble")
    plain = cx.Problem(problem.network, problem.likelihood)
    return methods.get("ntk")(members=3), plain, data


def read_infinite(folder):
    method, problem, data = infinite()
    posterior = method.load(folder / "members.safetensors", problem)
    return numbers(posterior.predict(data.test.x[:3]))


def read_state(folder):
    from credax.files import load_arrays
    from credax.training.run import RunFolder

    template, _ = load_arrays(GOLDEN / "unfinished" / "state.safetensors", finite=False)
    found = RunFolder(folder / "unfinished").load_state(template)
    return None if found is None else [np.float64(found[1]["step"])]


def read_show(name, folder):
    from credax.cli.show import describe

    shown = describe(str(folder / name))
    print(shown)
    return [np.float64(shown["loss"] or 0.0)]


def read_list(folder):
    from credax.cli.list import run

    run(["runs", "--root", str(folder)])
    run(["runs", "--root", str(folder), "--json"])


def read_config(name, folder):
    import os

    from credax.cli.saved import saved_run

    here = os.getcwd()
    os.chdir(folder)
    try:
        run = saved_run(name)
        x = np.zeros((2, *run.about.input_shape), np.float32)
        print(run.seed, run.about, run.stored)
        return numbers(run.posterior().predict(x))
    finally:
        os.chdir(here)


def make_new_run(folder):
    """A run that says all of itself, in the present format."""
    import credax as cx

    shutil.copy(GOLDEN / "flowers.csv", folder)
    data = cx.data.load(folder / "flowers.csv")
    problem = cx.Problem(cx.networks.MLP((4,), outputs=3), cx.Categorical())
    training = cx.Training(epochs=1, batch_size=16)
    cx.fit(problem, "deep-ensemble", data, training=training, folder=folder / "run", progress=False)


def read_rows(folder):
    from credax.cli.saved import kept_rows, saved_run

    rows = kept_rows(saved_run(folder / "run")).dataset.test
    return [np.asarray(rows.x, np.float64), np.asarray(rows.y, np.float64)]


def read_shift(folder):
    from credax.cli.judge import read_shift

    read_shift(folder / "digits" / "shift.json")


# Calibrators


def class_prediction(classes):
    from credax.prediction import ClassPrediction

    rng = np.random.default_rng(classes)
    return ClassPrediction.from_logits(rng.standard_normal((2, 60, classes)))


def number_prediction():
    from credax.prediction import GaussianPrediction

    rng = np.random.default_rng(0)
    return GaussianPrediction(rng.standard_normal((2, 60, 1)), np.ones((2, 60, 1)))


def predicted(name):
    from credax import calibration

    rng = np.random.default_rng(1)
    if calibration.entry(name).task == "regression":
        return number_prediction(), rng.standard_normal(60)
    classes = 2 if name in ("beta", "platt") else 3
    return class_prediction(classes), rng.integers(0, classes, 60)


def make_calibrator(name, folder):
    from credax import calibration

    with warnings.catch_warnings(action="ignore"):
        fitted = calibration.get(name)().fit(*predicted(name), key=0)
    calibration.save(folder / f"{name}.safetensors", fitted)


def read_calibrator(name, folder):
    from credax import calibration

    after = calibration.load(folder / f"{name}.safetensors")(predicted(name)[0])
    if isinstance(after, np.ndarray):
        return [after]
    if isinstance(after, calibration.Intervals):
        return [np.isnan(end).astype(float) / (1 - np.isnan(end)) for end in after]
    if isinstance(after, calibration.RecalibratedPrediction):
        return [np.asarray(after.as_mixture().mean)]
    return numbers(after)


# Data


def rows(dataset):
    splits = (dataset.train, dataset.test)
    return [np.asarray(a, np.float64) for split in splits for a in (split.x, split.y)]


def load(name, folder, **options):
    from credax.data import load

    return rows(load(folder / name, **options) if "." in name else load(name, folder, **options))


def loaded(name):
    return partial(load, name, download=False)


def arrays(seed=0):
    rng = np.random.default_rng(seed)
    return {"x": rng.standard_normal((20, 3)), "y": np.arange(20) % 3}


def make_npz(folder):
    np.savez(folder / "mine.npz", **arrays())


def make_splits(folder):
    x = np.random.default_rng(0).integers(0, 255, (6, 4, 4, 3), np.uint8)
    parts = {"x_train": x, "y_train": np.arange(6) % 2, "x_test": x, "y_test": np.arange(6) % 2}
    np.savez_compressed(folder / "mine.npz", **parts, class_names=np.array(["a", "b"]))


def make_table(ending, folder):
    mark = "\t" if ending == "tsv" else ","
    lines = [mark.join(("a", "b", "target"))]
    pairs = zip(*arrays().values(), strict=True)
    lines += [mark.join([*(f"{v:.4f}" for v in x[:2]), str(y)]) for x, y in pairs]
    (folder / f"mine.{ending}").write_text("\n".join(lines) + "\n")


def make_inputs(ending, folder):
    x = np.random.default_rng(0).standard_normal((3, 2)).astype(np.float32)
    if ending == "npy":
        np.save(folder / "new.npy", x)
    elif ending == "npz":
        np.savez(folder / "new.npz", x=x)
    else:
        np.savetxt(folder / "new.csv", x, delimiter=",", header="length,width", comments="")


def read_new(ending, folder):
    from credax.cli.predict import read_inputs

    method, problem, _, about = saved("deep-ensemble")
    x, _ = read_inputs(folder / f"new.{ending}", about)
    posterior = method.load(GOLDEN / "deep-ensemble" / "members.safetensors", problem)
    return numbers(posterior.predict(x))


def make_idx(compress, folder):
    from data_files import grey, write_idx

    for stem in ("train", "t10k"):
        write_idx(folder / "mnist", stem, *grey(3), compress)


def make_mnist_npz(folder):
    from data_files import grey

    x, y = grey(3)
    np.savez(folder / "mnist.npz", x_train=x, y_train=y, x_test=x, y_test=y)


def make_cifar10(form, packed, folder):
    from test_data_cifar import place

    place(folder, form, packed)


def make_cifar100(folder):
    from data_files import colour, planes, python2_pickle, unpack

    x, _ = colour(2)
    batch = {b"data": planes(x), b"fine_labels": [3, 99], b"coarse_labels": [1, 2]}
    meta = python2_pickle({b"fine_label_names": [b"name%d" % i for i in range(100)]})
    files = {"train": python2_pickle(batch), "test": python2_pickle(batch), "meta": meta}
    unpack(folder / "cifar-100-python", files)


def make_svhn(compress, folder):
    from data_files import colour
    from scipy.io import savemat

    x, _ = colour(3)
    content = {"X": x.transpose(1, 2, 3, 0), "y": np.array([[10], [1], [2]], np.uint8)}
    for part in ("train", "test"):
        savemat(folder / f"{part}_32x32.mat", content, do_compression=compress)


def make_svhn_npz(folder):
    from data_files import colour

    x, _ = colour(3)
    np.savez_compressed(folder / "svhn_test.npz", x=x, y=np.array([1, 2, 3]))


def make_tiny(packed, folder):
    from test_data_tiny_imagenet import place, tiny

    place(folder, tiny(), packed)


def make_uci(packed, folder):
    from data_files import pack, unpack
    from test_data_uci import concrete

    if packed:
        files = {f"UCI_Datasets/concrete/data/{n}": body for n, body in concrete().items()}
        pack(folder / "uci.tar.xz", files)
    else:
        unpack(folder / "UCI_Datasets/concrete/data", concrete())


def make_shifted(folder):
    from test_shifted import cifar_c

    cifar_c(folder / "CIFAR-10-C", kinds=("fog",))


def read_shifted(folder):
    from credax.data import load_shifted

    split = load_shifted("cifar10-c", folder).read("fog", 2)
    return [np.asarray(split.x, np.float64), np.asarray(split.y)]


def make_tile(folder):
    from test_data_histology import write

    write(folder / "ADI-A.tif")


def read_tile(folder):
    from credax.data.histology import read_tile

    return [read_tile(folder / "ADI-A.tif", 32)]


def make_components(folder):
    from credax.data.dataset import Split
    from credax.data.pca import principal_components

    x = np.random.default_rng(0).standard_normal((20, 4))
    principal_components(Split(x, np.zeros(20)), rank=3).save(folder / "pca.npz")


def read_components(folder):
    from credax.data.pca import Components

    found = Components.load(folder / "pca.npz")
    return [found.vectors, found.values, np.float64(found.explained)]


# Zoos


def make_zoo(folder):
    shutil.copytree(GOLDEN / "zoo", folder / "zoo")


def read_zoo(verify, folder):
    from credax.zoo import Zoo

    zoo = Zoo.open(folder / "zoo", verify=verify)
    prediction = zoo.population().predict(np.zeros((2, 2), np.float32))
    return [*numbers(prediction), zoo.values("test_accuracy")]


def read_zoo_commands(folder):
    from credax.cli.zoo import run

    for command in ("info", "table", "verify"):
        run([command, str(folder / "zoo")])


def make_checkpoints(packed, folder):
    from safetensors.numpy import save
    from test_zoo_format import archive, published

    contents = {f"{i}": save(published("optunet", i)) for i in range(3)}
    if packed:
        archive(folder / "mnist-optunet-0-2.tgz", contents)
        return
    place = folder / "mnist-optunet-0-2"
    place.mkdir()
    for name, content in contents.items():
        (place / f"{name}.safetensors").write_bytes(content)


def read_checkpoints(packed, folder):
    from credax.zoo import import_checkpoints

    place = folder / ("mnist-optunet-0-2.tgz" if packed else "mnist-optunet-0-2")
    zoo = import_checkpoints(place, folder / "zoo")
    return numbers(zoo.population().predict(np.zeros((1, 28, 28, 1), np.uint8)))


# Caches of calculations


def make_pairs(folder):
    read_pairs(folder)


def read_pairs(folder):
    from credax.quality import pairwise_disagreement

    found = pairwise_disagreement(
        class_prediction(3), chunk=30, checkpoint=folder / "pairs.safetensors"
    )
    return [found.values]


RUNS = ("deep-ensemble", "swag", "laplace", "mc-dropout", "mean-field-vi", "regression", "hmc")
CALIBRATORS = ("temperature", "vector", "beta", "isotonic", "histogram", "aps", "raps")
CALIBRATORS += ("variance-scaling", "quantile-recalibration", "cqr", "normalised")

FORMATS = (
    *(
        Format(f"members {n}", partial(golden, n), "*/members.safetensors", partial(members, n))
        for n in RUNS
    ),
    Format("members infinite", make_infinite, "members.safetensors", read_infinite),
    Format("state", partial(golden, "unfinished"), "*/state*.safetensors", read_state),
    Format("config, show", partial(golden, "swag"), "*/config.json", partial(read_show, "swag")),
    Format("config, open", partial(golden, "swag"), "*/config.json", partial(read_config, "swag")),
    Format("config, new run", make_new_run, "run/config.json", partial(read_config, "run")),
    Format("rows of a run", make_new_run, "run/rows.safetensors", read_rows),
    Format("metrics", partial(golden, "hmc"), "*/metrics.jsonl", partial(read_show, "hmc")),
    Format("list runs", partial(golden, "python"), "*/*.json*", read_list),
    Format("shift scores", partial(golden, "digits"), "*/shift.json", read_shift),
    *(
        Format(f"calibrator {n}", partial(make_calibrator, n), "*", partial(read_calibrator, n))
        for n in CALIBRATORS
    ),
    Format("npz", make_npz, "mine.npz", partial(load, "mine.npz")),
    Format("npz splits", make_splits, "mine.npz", partial(load, "mine.npz")),
    Format("csv", partial(make_table, "csv"), "mine.csv", partial(load, "mine.csv")),
    Format("tsv", partial(make_table, "tsv"), "mine.tsv", partial(load, "mine.tsv")),
    *(
        Format(f"predict {e}", partial(make_inputs, e), "new.*", partial(read_new, e))
        for e in ("npy", "npz", "csv")
    ),
    Format("idx", partial(make_idx, False), "mnist/*", loaded("mnist")),
    Format("idx gzip", partial(make_idx, True), "mnist/*", loaded("mnist")),
    Format("mnist npz", make_mnist_npz, "*.npz", loaded("mnist")),
    Format("cifar10 pickles", partial(make_cifar10, "python", False), "*/*", loaded("cifar10")),
    Format("cifar10 tar", partial(make_cifar10, "python", True), "*.gz", loaded("cifar10")),
    Format("cifar10 binary", partial(make_cifar10, "binary", False), "*/*", loaded("cifar10")),
    Format("cifar10 png", partial(make_cifar10, "png", False), "**/*.*", loaded("cifar10")),
    Format("cifar10 npm", partial(make_cifar10, "png", True), "*.tgz", loaded("cifar10")),
    Format("cifar100", make_cifar100, "*/*", loaded("cifar100")),
    Format("svhn mat", partial(make_svhn, False), "*.mat", loaded("svhn")),
    Format("svhn mat zlib", partial(make_svhn, True), "*.mat", loaded("svhn")),
    Format("svhn npz", make_svhn_npz, "*.npz", loaded("svhn")),
    Format("tiny zip", partial(make_tiny, True), "*.zip", loaded("tiny-imagenet")),
    Format("tiny folder", partial(make_tiny, False), "**/*.*", loaded("tiny-imagenet")),
    Format("uci folder", partial(make_uci, False), "**/*.txt", loaded("uci/concrete")),
    Format("uci tar", partial(make_uci, True), "*.xz", loaded("uci/concrete")),
    Format("cifar10-c", make_shifted, "*/*.npy", read_shifted),
    Format("histology", make_tile, "*.tif", read_tile),
    Format("pca", make_components, "pca.npz", read_components),
    Format("zoo manifest", make_zoo, "zoo/zoo.json", partial(read_zoo, False)),
    Format("zoo journal", make_zoo, "zoo/members.jsonl", partial(read_zoo, False)),
    Format("zoo shard", make_zoo, "zoo/shard*", partial(read_zoo, False)),
    Format("zoo shard, verified", make_zoo, "zoo/shard*", partial(read_zoo, True)),
    Format("zoo commands", make_zoo, "zoo/*", read_zoo_commands),
    Format(
        "checkpoints", partial(make_checkpoints, False), "*/*", partial(read_checkpoints, False)
    ),
    Format(
        "checkpoints tgz", partial(make_checkpoints, True), "*", partial(read_checkpoints, True)
    ),
    Format("pair sums", make_pairs, "*", read_pairs),
)
