"""A frozen trunk computed once: the head alone is the whole network's function and fit."""

import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credax as cx
from credax.adapters import from_equinox
from credax.data import Split
from credax.errors import InputError
from credax.structure.frozen_features import cache_features

RNG = np.random.default_rng(2)


def pictures():
    """A small convolutional network whose last layer is trained."""
    network = cx.networks.build("cnn", 3)
    x = RNG.normal(size=(9, 12, 12, 1)).astype(np.float32)
    start = network.init(jax.random.key(1), x[:1])
    last = sorted({name.split("/")[0] for name in start.params}, key=lambda n: int(n.split("_")[0]))
    y = np.arange(9) % 3
    problem = cx.Problem(
        network, cx.Categorical(), weight_decay=0.01, trainable=last[-1], frozen=start
    )
    return problem, x, y


def foreign():
    """An Equinox network, its activation under jit, of which the last two layers are trained."""

    def make(key):
        return eqx.nn.MLP(3, 2, 5, 2, activation=jax.jit(jax.nn.gelu), key=key)

    network, x = from_equinox(make), RNG.normal(size=(7, 3)).astype(np.float32)
    start = network.init(jax.random.key(1), x[:1])
    problem = cx.Problem(
        network,
        cx.Gaussian(0.3),
        weight_decay=0.01,
        trainable=("layers/1", "layers/2"),
        frozen=start,
    )
    return problem, x, RNG.normal(size=(7, 2)).astype(np.float32)


@pytest.mark.parametrize("case", [pictures, foreign])
def test_the_head_on_features_is_the_network_on_inputs(case):
    problem, x, _ = case()
    cached = cache_features(problem, x)
    variables = problem.init(jax.random.key(7), x[:1])
    whole = problem.outputs(variables, jnp.asarray(x))[0]
    head = cached.problem.outputs(variables, jnp.asarray(cached.features(x)))[0]
    np.testing.assert_allclose(head, whole, rtol=1e-5, atol=1e-6)
    text = str(
        jax.make_jaxpr(lambda v, f: cached.problem.outputs(v, f)[0])(variables, cached.features(x))
    )
    assert "conv_general_dilated" not in text
    assert text.count("dot_general") == (1 if case is pictures else 2)


def test_a_fit_on_features_is_the_fit_on_inputs():
    """The same key and batches: the same trained parameters, and predictions on raw inputs."""
    problem, x, y = foreign()
    cached = cache_features(problem, x)
    options = {"training": cx.Training(5, 7), "progress": False, "key": 3}
    whole = cx.fit(problem, cx.DeepEnsemble(2), Split(x, y), **options)
    head = cx.fit(cached.problem, cx.DeepEnsemble(2), cached.rows(Split(x, y)), **options)
    for name, leaf in whole.variables.params.items():
        np.testing.assert_allclose(head.variables.params[name], leaf, rtol=1e-4, atol=1e-5)
    back = cached.on_inputs(head, x)
    assert back.input_shape == (3,)
    np.testing.assert_allclose(back.predict(x).mean, whole.predict(x).mean, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_laplace_of_the_head_is_laplace_of_the_whole_networks_last_layers():
    problem, x, y = foreign()
    cached = cache_features(problem, x)
    start = problem.init(jax.random.key(7), x[:1])
    record = {"structure": "full", "subset": "all", "prior_precision": 1.0}
    found = []
    for own, rows in ((problem, x), (cached.problem, cached.features(x))):
        around = cx.adopt(own, start, x=rows)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # these weights need not be a mode
            posterior = cx.fit(own, cx.Laplace(**record, around=around), (rows, y), progress=False)
        found.append(posterior.predict(rows).epistemic)
    np.testing.assert_allclose(*found, rtol=1e-3)


def test_a_head_is_described_by_its_trunk(tmp_path):
    problem, x, y = foreign()
    cached = cache_features(problem, x)
    options = {"training": cx.Training(1, 7), "folder": tmp_path / "run", "progress": False}
    cx.fit(cached.problem, cx.Single(), cached.rows(Split(x, y)), **options)
    again = cache_features(problem, x)
    posterior = cx.open_run(tmp_path / "run", again.problem).posterior()
    assert posterior.num_members == 1
    moved = jax.tree.map(lambda leaf: leaf + 1, problem)
    other = cache_features(moved, x)
    with pytest.raises(InputError, match="network"):
        cx.open_run(tmp_path / "run", other.problem).posterior()


def test_problems_without_a_frozen_part_are_refused():
    with pytest.raises(InputError, match="no frozen part"):
        cache_features(
            cx.Problem(cx.networks.MLP((), outputs=1), cx.Gaussian(0.1)), np.ones((2, 1))
        )
