"""Networks trained elsewhere, in every library, as populations to go on from."""

import equinox as eqx
import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

import credax as cx
from credax.adapters import from_equinox, from_haiku, from_linen, from_nnx
from credax.errors import InputError

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(6, 2)
KERNEL, BIAS = np.array([[1.0, -2.0], [0.5, 3.0]], np.float32), np.array([0.1, 0.2], np.float32)
TRUTH = X @ KERNEL + BIAS


def equinox_case():
    module = eqx.nn.Linear(2, 2, key=jax.random.key(0))
    where = lambda m: (m.weight, m.bias)  # noqa: E731
    trained = eqx.tree_at(where, module, (jnp.asarray(KERNEL.T), jnp.asarray(BIAS)))
    return from_equinox(lambda key: eqx.nn.Linear(2, 2, key=key)), trained


def nnx_case():
    module = nnx.Linear(2, 2, rngs=nnx.Rngs(0))
    module.kernel[...], module.bias[...] = jnp.asarray(KERNEL), jnp.asarray(BIAS)
    return from_nnx(lambda rngs: nnx.Linear(2, 2, rngs=rngs)), module


def linen_case():
    return from_linen(nn.Dense(2)), {"params": {"kernel": KERNEL, "bias": BIAS}}


def haiku_case():
    return from_haiku(lambda x: hk.Linear(2)(x)), {"linear": {"w": KERNEL, "b": BIAS}}


def own_case():
    return cx.networks.MLP((), outputs=2), {"0_dense": {"kernel": KERNEL, "bias": BIAS}}


CASES = [equinox_case, nnx_case, linen_case, haiku_case, own_case]


@pytest.mark.parametrize("case", CASES)
def test_every_library_gives_its_trained_network(case):
    """One member predicts what the network computes; a list gives several."""
    network, trained = case()
    members = cx.adopt(network, [trained, trained], x=X, likelihood=cx.Gaussian(0.5))
    assert members.num_members == 2
    assert members.input_shape == (2,)
    prediction = members.predict(X)
    np.testing.assert_allclose(prediction.mean, TRUTH, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(prediction.epistemic, 0, atol=1e-12)


@pytest.mark.parametrize("case", [equinox_case, nnx_case])
def test_a_ready_module_is_a_network_that_starts_there(case):
    _, module = case()
    make = from_equinox if case is equinox_case else from_nnx
    members = cx.adopt(make(module, fixed=True), x=X, likelihood=cx.Gaussian(0.5))
    np.testing.assert_allclose(members.predict(X).mean, TRUTH, rtol=1e-6, atol=1e-6)


def test_around_an_adopted_network_nothing_but_the_curvature_is_new():
    """Laplace in closed form: the precision is XᵀX/σ² + prior, around the adopted weights."""
    network, trained = nnx_case()
    problem = cx.Problem(network, cx.Gaussian(0.5), prior=cx.GaussianPrior(precision=2.0))
    adopted = cx.adopt(problem, trained, x=X)
    record = cx.Laplace(structure="full", subset="all", prior_precision="problem", around=adopted)
    with pytest.warns(UserWarning, match="mode"):  # these weights are no mode of these rows
        posterior = cx.fit(problem, record, (X, TRUTH + 1.0), progress=False)
    phi = np.concatenate([np.ones((6, 1)), X], axis=1)
    covariance = np.linalg.inv(phi.T @ phi / 0.25 + 2.0 * np.eye(3))
    prediction = posterior.predict(X)
    np.testing.assert_allclose(prediction.mean, TRUTH, rtol=1e-4, atol=1e-4)
    exact = np.einsum("ni,ij,nj->n", phi, covariance, phi)
    np.testing.assert_allclose(prediction.epistemic[:, 0], exact, rtol=1e-3)


def test_batch_statistics_and_a_noise_level_come_along():
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x, train=False):
            return nn.Dense(1)(nn.BatchNorm(use_running_average=not train)(x))

    module = Net()
    variables = module.init(jax.random.key(0), X)
    moved = {
        "params": variables["params"],
        "batch_stats": {"BatchNorm_0": {"mean": np.ones(2), "var": 4 * np.ones(2)}},
    }
    problem = cx.Problem(from_linen(module), cx.Gaussian("learned", initial=0.3))
    adopted = cx.adopt(problem, moved, x=X)
    exact = module.apply(moved, X)[:, 0]
    np.testing.assert_allclose(adopted.predict(X).mean, exact, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(adopted.predict(X).aleatoric, 0.09, rtol=1e-5)
    again = cx.adopt(problem, jax.tree.map(lambda a: a[0], adopted.variables), x=X)
    np.testing.assert_array_equal(again.predict(X).mean, adopted.predict(X).mean)


def test_a_network_restored_by_orbax_is_adopted(tmp_path):
    checkpoint = pytest.importorskip("orbax.checkpoint")
    network, module = nnx_case()
    saver = checkpoint.StandardCheckpointer()
    saver.save(tmp_path / "trained", nnx.to_pure_dict(nnx.state(module)))
    saver.wait_until_finished()
    restored = checkpoint.StandardCheckpointer().restore(tmp_path / "trained")
    members = cx.adopt(network, restored, x=X, likelihood=cx.Gaussian(0.5))
    np.testing.assert_allclose(members.predict(X).mean, TRUTH, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: {"params": {"kernel": KERNEL}}, "has no array 'params/bias'"),
        (lambda t: {"params": {**t["params"], "scale": BIAS}}, "'params/scale', which the network"),
        (lambda t: {"params": {**t["params"], "kernel": KERNEL[:, :1]}}, "of shape"),
        (lambda t: {"params": {**t["params"], "bias": BIAS * np.nan}}, "NaN or infinity in"),
        (lambda t: 3, "dict of collections"),
        (lambda t: [], "empty list"),
    ],
)
def test_what_does_not_fit_is_named(change, words):
    network, trained = linen_case()
    with pytest.raises(InputError, match=words):
        cx.adopt(network, change(trained), x=X, likelihood=cx.Gaussian(0.5))


def test_a_module_of_other_code_a_missing_likelihood_and_no_rows_are_refused():
    network, _ = nnx_case()
    other = nnx.Linear(2, 2, use_bias=False, rngs=nnx.Rngs(0))
    with pytest.raises(InputError, match="lacks the array 'bias'"):
        cx.adopt(network, other, x=X, likelihood=cx.Gaussian(0.5))
    with pytest.raises(InputError, match="likelihood is missing"):
        cx.adopt(network, other, x=X)
    with pytest.raises(InputError, match="rows first"):
        cx.adopt(network, nnx_case()[1], x=X[:, 0], likelihood=cx.Gaussian(0.5))
    for case in (equinox_case, haiku_case):
        with pytest.raises(InputError, match="variables is"):
            cx.adopt(case()[0], 3, x=X, likelihood=cx.Gaussian(0.5))


def frozen_problem(trainable="1_dense", likelihood=None, **options):
    network = cx.networks.MLP((4,), outputs=2)
    start = network.init(jax.random.key(3), jnp.zeros((1, 2)))
    likelihood = likelihood or cx.Categorical()
    problem = cx.Problem(network, likelihood, trainable=trainable, frozen=start, **options)
    return problem, start


def test_frozen_parameters_get_no_update_no_prior_and_no_decay():
    """The trainable part is trained as the whole network's with an optimiser that masks."""
    problem, start = frozen_problem(weight_decay=0.1)
    y = np.array([0, 1, 0, 1, 1, 0])
    optimiser = optax.adamw(0.05, weight_decay=0.3)
    training = cx.Training(5, 6, optimiser=optimiser)
    posterior = cx.fit(problem, cx.Single(), (X, y), training=training, progress=False)
    found = posterior.variables.params
    assert set(found) == {"1_dense/bias", "1_dense/kernel"}
    params = problem.init(jax.random.key(9), X).params
    squares = sum(float(jnp.sum(leaf**2)) for leaf in params.values())
    value = problem.log_joint(cx.Variables(params, {}), X, y, num_data=6)
    flat = cx.Problem(problem.network, cx.Categorical())
    plain = flat.log_joint(cx.Variables(params, {}), X, y, num_data=6)
    constant = 0.5 * 10 * np.log(0.6 / (2 * np.pi))
    np.testing.assert_allclose(value - plain, constant - 0.3 * squares, rtol=1e-4)
    whole = problem.network.joined({n: leaf[0] for n, leaf in found.items()})
    np.testing.assert_array_equal(whole["0_dense"]["kernel"], start.params["0_dense"]["kernel"])
    outputs = problem.network.network.apply(cx.Variables(whole), X)[0]
    np.testing.assert_allclose(posterior.predict(X).probs, jax.nn.softmax(outputs), rtol=1e-5)


def test_a_frozen_run_is_described_saved_and_read_back(tmp_path):
    problem, _ = frozen_problem()
    y = np.array([0, 1, 0, 1, 1, 0])
    options = {"training": cx.Training(1, 6), "folder": tmp_path / "run", "progress": False}
    posterior = cx.fit(problem, cx.DeepEnsemble(2), (X, y), **options)
    again = cx.open_run(tmp_path / "run", problem).posterior()
    np.testing.assert_array_equal(again.predict(X).probs, posterior.predict(X).probs)
    other, _ = frozen_problem(trainable=("1_dense", "0_dense/bias"))
    with pytest.raises(InputError, match="network"):
        cx.fit(other, cx.DeepEnsemble(2), (X, y), **options)


@pytest.mark.parametrize(
    "trainable", ["1_dense*", ("1_dense/bias", "1_dense/kernel"), lambda n, a: n[0] == "1"]
)
def test_names_patterns_and_functions_choose_the_same(trainable):
    problem, _ = frozen_problem(trainable)
    assert set(problem.init(jax.random.key(0), X).params) == {"1_dense/bias", "1_dense/kernel"}


def test_frozen_parts_with_a_learned_noise_are_adopted():
    problem, start = frozen_problem(likelihood=cx.Gaussian())
    adopted = cx.adopt(problem, start, x=X)
    whole = cx.adopt(cx.Problem(cx.networks.MLP((4,), outputs=2), cx.Gaussian()), start, x=X)
    np.testing.assert_allclose(adopted.predict(X).mean, whole.predict(X).mean, rtol=1e-6)
    assert set(adopted.variables.params["network"]) == {"1_dense/bias", "1_dense/kernel"}
    from_population = cx.Problem(
        cx.networks.MLP((4,), outputs=2), cx.Gaussian(), trainable="1_dense", frozen=whole
    )
    assert set(from_population.network.network.frozen) == {"0_dense/bias", "0_dense/kernel"}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: frozen_problem("head"), "no array has such a name; choose from 0_dense/bias"),
        (lambda: frozen_problem(("1_dense", "head")), "trainable has 'head'"),
        (lambda: frozen_problem(3), "trainable is a int"),
        (
            lambda: cx.Problem(cx.networks.MLP((), outputs=1), cx.Gaussian(), trainable="0_dense"),
            "go together",
        ),
        (
            lambda: cx.Problem(
                cx.networks.MLP((), outputs=1), cx.Gaussian(), trainable="0_dense", frozen=3
            ),
            "frozen is a int",
        ),
    ],
)
def test_mistakes_about_frozen_parts_get_one_sentence(make, words):
    with pytest.raises(InputError, match=words):
        make()
