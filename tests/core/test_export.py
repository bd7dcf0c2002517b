"""Exported programs give `predict`'s numbers in a process that cannot import credax."""

import json
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import jax
import numpy as np
import pytest

import credax as cx
from credax.posterior import population

ROOT = Path(__file__).parents[2]
READER = """
import sys
sys.modules["credax"] = None  # any import of it fails from here on
import pathlib, jax, numpy as np
found = {}
for name in sys.argv[1:]:
    program = jax.export.deserialize(pathlib.Path(f"{name}.export").read_bytes())
    x = np.load(f"{name}.npy")
    for rows in (1, len(x)):
        for key, value in jax.jit(program.call)(x[:rows]).items():
            found[f"{name}/{rows}/{key}"] = np.asarray(value)
np.savez("found.npz", **found)
"""


def members(problem, x, count=3):
    keys = jax.random.split(jax.random.key(2), count)
    return population(problem, jax.vmap(lambda key: problem.init(key, x[:1]))(keys), x)


def cases():
    generator = np.random.default_rng(0)
    table = generator.normal(50.0, 20.0, (7, 4)).astype(np.float32)
    images = generator.integers(0, 256, (5, 8, 8, 1), dtype=np.uint8)
    classes = cx.Problem(
        cx.networks.MLP((6,), outputs=3), cx.Categorical(), inputs=cx.Standardise.of(table)
    )
    numbers = cx.Problem(
        cx.networks.MLP((6,), outputs=2),
        cx.HeteroscedasticGaussian(),
        inputs=cx.Standardise.of(table),
        targets=cx.Standardise(np.array([100.0]), np.array([30.0])),
    )
    pictures = cx.Problem(
        cx.networks.CNN(outputs=3, channels=(2, 3), dense=4),
        cx.Categorical(),
        inputs=cx.Standardise(127.0, 60.0),
    )
    return {
        "classes": (members(classes, table), table),
        "numbers": (members(numbers, table), table),
        "pictures": (members(pictures, images, 2), images),
    }


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    made = cases()
    for name, (posterior, x) in made.items():
        posterior.export(folder / f"{name}.export")
        np.save(folder / f"{name}.npy", x)
    return folder, made


def test_a_process_without_credax_gives_the_same_numbers(exported):
    folder, made = exported
    subprocess.run(
        [sys.executable, "-c", READER, *made], cwd=folder, check=True, timeout=300, env=_plain()
    )
    found = np.load(folder / "found.npz")
    for name, (posterior, x) in made.items():
        for rows in (1, len(x)):
            expected = posterior.predict(x[:rows]).summary()
            assert {k.split("/")[2] for k in found if k.startswith(f"{name}/")} == {*expected}
            for key, value in expected.items():
                scale = max(1.0, float(np.abs(value).max()))
                np.testing.assert_allclose(
                    found[f"{name}/{rows}/{key}"], value, rtol=1e-5, atol=1e-6 * scale
                )


def test_the_description_says_what_goes_in_and_what_comes_out(exported):
    folder, _ = exported
    content = json.loads((folder / "pictures.json").read_text())
    assert content["input"] == {"shape": ["batch", 8, 8, 1], "dtype": "uint8"}
    assert content["outputs"]["members"]["shape"] == [2, "batch", 3]
    assert content["platforms"] == ["cpu", "cuda", "tpu"]


def test_a_server_answers_from_the_program_alone(exported):
    folder, made = exported
    posterior, x = made["classes"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, str(ROOT / "examples" / "serve.py"), "classes.export", str(port)]
    server = subprocess.Popen(command, cwd=folder, env=_plain(), stderr=subprocess.DEVNULL)
    try:
        answer = _ask(f"http://127.0.0.1:{port}", json.dumps(x[:2].tolist()).encode())
    finally:
        server.terminate()
        server.wait()
    np.testing.assert_allclose(answer["probs"], posterior.predict(x[:2]).probs, atol=1e-6)


def test_what_cannot_be_exported_is_refused(exported, tmp_path):
    folder, made = exported
    posterior, _ = made["classes"]
    with pytest.raises(cx.InputError, match="which exists"):
        posterior.export(folder / "classes.export")
    with pytest.raises(cx.InputError, match="give some of cpu, cuda, rocm, tpu"):
        posterior.export(tmp_path / "a.export", platforms=("fpga",))
    with pytest.raises(cx.InputError, match="another ending"):
        posterior.export(tmp_path / "a.json")
    assert not any(tmp_path.iterdir())


def _plain():
    import os

    return {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}


def _ask(address, body):
    for _ in range(120):
        try:
            with urllib.request.urlopen(address, data=body, timeout=30) as answer:
                return json.load(answer)
        except OSError:
            time.sleep(0.25)
    raise TimeoutError(address)


def test_onnx_gives_the_same_numbers(tmp_path):
    reason = "the extra onnx is not part of dev: its converter pins other packages"
    runtime = pytest.importorskip("onnxruntime", reason=reason)
    pytest.importorskip("jax2onnx", reason=reason)
    for name, (posterior, x) in cases().items():
        path = posterior.export(tmp_path / f"{name}.onnx", batch_size=len(x))
        session = runtime.InferenceSession(str(path))
        found = session.run(None, {"x": x})
        expected = posterior.predict(x).summary()
        for output, values in zip(session.get_outputs(), found, strict=True):
            scale = max(1.0, float(np.abs(expected[output.name]).max()))
            np.testing.assert_allclose(values, expected[output.name], atol=1e-6 * scale, rtol=1e-5)
