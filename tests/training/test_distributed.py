"""Two processes with two devices each train one ensemble: the same members as one process."""

import socket
import subprocess
import sys

import numpy as np
import pytest

pytestmark = pytest.mark.slow

WORKER = """
import os, sys
os.environ["JAX_NUM_CPU_DEVICES"] = sys.argv[3]
import jax, numpy as np
if len(sys.argv) > 4:
    jax.distributed.initialize(f"127.0.0.1:{sys.argv[4]}", 2, int(sys.argv[5]))
import credax as cx
rng = np.random.default_rng(0)
y = np.arange(64) % 3
x = (np.array([[2.0, 0], [-1, 2], [-1, -2]])[y] + rng.standard_normal((64, 2))).astype("float32")
problem = cx.Problem(cx.networks.MLP((8,), outputs=3), cx.Categorical(), weight_decay=1e-3)
mesh = jax.make_mesh((2, 2), ("members", "data"))
training = cx.Training(epochs=3, batch_size=16, strategy="shard", checkpoint_every=1)
record = cx.DeepEnsemble(members=4) if sys.argv[2] == "deep-ensemble" else cx.FoRDE(members=4)
split = cx.Split(x, y)
cx.fit(problem, record, split, training=training, mesh=mesh, folder=sys.argv[1], progress=False)
"""


@pytest.mark.parametrize("method", ["deep-ensemble", "forde"])
def test_two_processes_equal_one(tmp_path, method):
    from credax.files import load_arrays

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    command = [sys.executable, "-c", WORKER]
    pair = [
        subprocess.Popen([*command, str(tmp_path / "two"), method, "2", port, rank])
        for rank in "01"
    ]
    assert [process.wait(timeout=240) for process in pair] == [0, 0]
    subprocess.run([*command, str(tmp_path / "one"), method, "4"], check=True)
    two, one = (load_arrays(tmp_path / n / "members.safetensors")[0] for n in ("two", "one"))
    for name in one:
        np.testing.assert_allclose(two[name], one[name], rtol=1e-4, atol=1e-5)
