"""Two whole training steps of the reference implementation of FoRDE, reproduced in float64."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from repulsive_cases import batch_of, start, step

import credax as cx
from credax.data import Split
from credax.methods.repulsive.lengthscale import Factored
from credax.networks import Activation, Conv, Dense, Flatten, ResNet, Sequential

pytestmark = pytest.mark.slow

GOLDEN = np.load(Path(__file__).parent.parent / "golden" / "forde_train_step.npz")
# 0.1, then 0.05.
TRAINING = {"schedule": "piecewise-linear", "milestones": (0.0, 0.5), "final_ratio": 0.5}


class Smoothed(cx.Categorical):
    """Cross-entropy against ``(1 - a) onehot + a / C``."""

    amount: float = 0.1

    def log_prob(self, outputs, y):
        classes = outputs.shape[-1]
        target = (1 - self.amount) * jax.nn.one_hot(y, classes) + self.amount / classes
        return jnp.sum(target * jax.nn.log_softmax(outputs), axis=-1)


def mlp(activation, classes):
    act = Activation(activation)
    return Sequential((Flatten(), Dense(7), act, Dense(6), act, Dense(classes)))


def dense_names(count):
    return {f"l{i}": f"{i}_dense" for i in range(count)}


CNN = Sequential(
    (Conv(4), Activation("relu"), Conv(5, stride=2), Activation("relu"), Flatten(), Dense(4))
)
RESNET = ResNet(4, (3, 4, 5, 6), blocks=(1, 1, 1, 1), stem=3, implementation="native")


def resnet_names():
    names = {"initial_conv": "0_conv", "initial_batchnorm": "1_batch_norm", "logits": "6_dense"}
    parts = {"conv_0": "0_conv", "batchnorm_0": "1_batch_norm"}
    parts |= {"conv_1": "2_conv", "batchnorm_1": "3_batch_norm"}
    for group in range(4):
        theirs, ours = f"block_group_{group}/~/block_0/~", f"{group + 2}_residual"
        names |= {f"{theirs}/{a}": f"{ours}/body/{b}" for a, b in parts.items()}
        if group:
            names[f"{theirs}/shortcut_conv"] = f"{ours}/shortcut/0_conv"
            names[f"{theirs}/shortcut_batchnorm"] = f"{ours}/shortcut/1_batch_norm"
    return {f"res_net/~/{a}": b for a, b in names.items()}


CASES = {
    "mlp_relu_pca": (mlp("relu", 4), dense_names(3), 5e-4, 1e-24, cx.Categorical()),
    "mlp_tanh_identity": (mlp("tanh", 3), dense_names(3), 5e-4, 1e-24, cx.Categorical()),
    "cnn_pca": (
        CNN,
        {"c0": "0_conv", "c1": "1_conv", "out": "2_dense"},
        1e-3,
        1e-12,
        Smoothed(0.1),
    ),
    "resnet_v1_bn_identity": (RESNET, resnet_names(), 5e-4, 1e-24, cx.Categorical()),
}
LEAVES = {"w": "kernel", "b": "bias", "scale": "scale", "offset": "shift"}


def read(case, what, names):
    """Their arrays ``case/what/module/name`` as our nested parameters."""
    tree = {}
    for theirs, ours in names.items():
        prefix = f"{case}/{what}/{theirs}/"
        for key in GOLDEN:
            name = key.removeprefix(prefix)
            if key.startswith(prefix) and name in LEAVES:
                node = tree
                for part in ours.split("/"):
                    node = node.setdefault(part, {})
                value = GOLDEN[key]
                single = value.reshape(len(value), -1) if "batch" in theirs else value
                node[LEAVES[name]] = jnp.asarray(single)
    return tree


def dynamics_of(case):
    network, _, decay, eps, likelihood = CASES[case]
    members = len(GOLDEN[next(k for k in GOLDEN if k.startswith(f"{case}/params0/"))])
    metric = "identity"
    if f"{case}/eigenvectors" in GOLDEN:
        weights = jnp.square(jnp.asarray(GOLDEN[f"{case}/sqrt_eigenvalues"]))
        metric = Factored(jnp.asarray(GOLDEN[f"{case}/eigenvectors"]), weights)
    record = cx.FoRDE(members=members, lengthscale=metric, eps=eps)
    problem = cx.Problem(network, likelihood, weight_decay=decay)
    x, y = GOLDEN[f"{case}/x"][0], GOLDEN[f"{case}/y"][0]
    training = cx.Training(epochs=2, batch_size=len(y), learning_rate=0.1, **TRAINING)
    return record.dynamics(problem, Split(x, y), training)


def assert_trees_close(ours, theirs, tolerance):
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("case", CASES)
def test_two_steps(float64, case):
    names = CASES[case][1]
    tolerance = 2e-7 if case == "cnn_pca" else 1e-9
    dynamics = dynamics_of(case)
    state = start(dynamics, GOLDEN[f"{case}/x"][0], params=read(case, "params0", names))
    for number in range(2):
        batch = batch_of(GOLDEN[f"{case}/x"][number], GOLDEN[f"{case}/y"][number])
        state, info = step(dynamics, state, batch)
        after = f"{number + 1}"
        theirs = read(case, f"params{after}", names)
        assert_trees_close(state.descent.variables.params, theirs, tolerance)
        trace = state.descent.optimiser[1].trace
        assert_trees_close(trace, read(case, f"velocity{after}", names), tolerance)
        members = dynamics.replicas.count
        recorded = GOLDEN[f"{case}/repulsion_mean_over_members"][number]
        np.testing.assert_allclose(info["repulsion"] / members, recorded, rtol=tolerance)
        recorded = GOLDEN[f"{case}/cross_entropy_mean_over_members"][number]
        np.testing.assert_allclose(info["nll"].mean(), recorded, rtol=tolerance)
        if case.startswith("resnet"):
            check_batch_norm(state.descent.variables.state, names, f"{case}/state{after}", number)


def check_batch_norm(state, names, prefix, number):
    """Their ``average`` is our mean and variance; ``1 - 0.9^t`` our weight."""
    found = 0
    for theirs, ours in names.items():
        if "batchnorm" not in theirs:
            continue
        node = state
        for part in ours.split("/"):
            node = node[part]
        for ema, name in (("mean_ema", "mean"), ("var_ema", "variance")):
            average = GOLDEN[f"{prefix}/{theirs}/~/{ema}/average"]
            expected = average.reshape(len(average), -1)
            np.testing.assert_allclose(node[name], expected, rtol=1e-9, atol=1e-12)
            found += 1
        np.testing.assert_allclose(node["weight"], 1 - 0.9 ** (number + 1), rtol=1e-12)
    assert found == 2 * 12
