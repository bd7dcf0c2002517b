"""Data, zoos and caches: small valid files, and their public readers."""

import shutil
import sys
from functools import partial
from pathlib import Path

import numpy as np
from formats_runs import GOLDEN, class_prediction, numbers, saved

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS), str(TESTS / "data"), str(TESTS / "zoo")]


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


def mixed(rows=24):
    """Columns of every kind, with missing values."""
    rng = np.random.default_rng(0)
    return {
        "a": [None if k % 5 == 0 else float(v) for k, v in enumerate(rng.standard_normal(rows))],
        "kind": [("red", "green", None)[k % 3] for k in range(rows)],
        "flag": [k % 2 == 0 for k in range(rows)],
        "when": [f"2024-0{1 + k % 9}-11" for k in range(rows)],
        "target": [("yes", "no")[k // 2 % 2] for k in range(rows)],
    }


def make_mixed(ending, folder):
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.feather
    import pyarrow.parquet

    write = {"csv": pa.csv.write_csv, "parquet": pa.parquet.write_table}
    write["feather"] = pa.feather.write_feather
    write[ending](pa.table(mixed()), folder / f"mixed.{ending}")


def make_pictures(folder):
    from PIL import Image

    rng = np.random.default_rng(0)
    for number in range(12):
        place = folder / "pictures" / ("a", "b")[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        ending = ("png", "jpg", "webp", "bmp")[number % 4]
        pixels = rng.integers(0, 256, (9, 8, 3), np.uint8)
        Image.fromarray(pixels).save(place / f"{number}.{ending}")


def read_pictures(folder):
    from credax.data import load

    return rows(load(folder / "pictures", size=6))


def make_evidence(folder):
    from credax.calibration.trust import Evidence, save_evidence

    score = np.linspace(0, 1, 30)[:, None]
    found = Evidence("classification", {"epistemic": score, "total": score}, score > 0.9)
    save_evidence(folder / "trust.safetensors", found)


def read_evidence(folder):
    from credax.calibration.trust import load_evidence, trust_rule

    found = load_evidence(folder / "trust.safetensors")
    if found is None:
        return []
    return [*found.scores.values(), trust_rule(found).limits or ()]


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


def make_pairs(folder):
    read_pairs(folder)


def read_pairs(folder):
    from credax.quality import pairwise_disagreement

    found = pairwise_disagreement(
        class_prediction(3), chunk=30, checkpoint=folder / "pairs.safetensors"
    )
    return [found.values]
