"""Options of repulsive ensembles: what is refused in one sentence, schedules, and every target."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from repulsive_cases import UNIT, batch_of, dynamics_of, gradient, largest_scaled, start, step

import credax as cx
from credax.data import Split
from credax.data.pca import principal_components
from credax.errors import InputError
from credax.methods.repulsive.lengthscale import DenseMetric, Factored, Identity
from credax.methods.repulsive.weight_wgd import Annealing
from credax.network import Variables
from credax.training.describe import describe_method

pytestmark = pytest.mark.slow

PROBLEM = cx.Problem(cx.networks.MLP((), 3), cx.Categorical())


def rows(batch=8, inputs=4, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(batch, inputs)), rng.integers(0, classes, batch)


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "options", "sentence"),
    [
        (cx.FoRDE, {"members": 0}, "members is 0"),
        (cx.FoRDE, {"lengthscale": 1.2}, "lengthscale is 1.2; give 'pca', 'identity' or a number"),
        (cx.FoRDE, {"lengthscale": "pac"}, "lengthscale 'pac'"),
        (cx.FoRDE, {"bandwidth": "median"}, "bandwidth 'median'"),
        (cx.FoRDE, {"bandwidth": 0.0}, "bandwidth is 0.0; give a positive number"),
        (cx.FoRDE, {"relative_floor": -1.0}, "relative_floor is -1.0"),
        (cx.FoRDE, {"estimator": "blob"}, "estimator is 'blob' and bandwidth is 'per_reference'"),
        (cx.FoRDE, {"fraction": 0.0}, "fraction is 0.0"),
        (cx.FoRDE, {"period": 0}, "period is 0"),
        (cx.FoRDE, {"eps": -1e-3}, "eps is -0.001"),
        (cx.FoRDE, {"repulsion_scale": "dat"}, "repulsion_scale 'dat'"),
        (cx.LIT, {"strength": -1.0}, "strength is -1.0"),
        (cx.LIT, {"eps": 0.0}, "eps is 0.0"),
        (cx.WeightWGD, {"keep": 1.5}, "keep is 1.5"),
        (cx.WeightWGD, {"anneal_steps": 0}, "anneal_steps is 0"),
        (cx.WeightWGD, {"estimator": "gfsf"}, "estimator 'gfsf'"),
        (cx.SVGD, {"kernel": "cosine"}, "kernel 'cosine'"),
        (cx.SVGD, {"bandwidth": -2.0}, "bandwidth is -2.0"),
        (cx.FunctionWGD, {"keep": 0.0}, "keep is 0.0"),
        (cx.FunctionWGD, {"function_prior": "gp"}, "function_prior 'gp'"),
        (cx.FunctionSVGD, {"extra": -0.1}, "extra is -0.1"),
        (cx.FunctionSVGD, {"prior_draws": 0}, "prior_draws is 0"),
    ],
)
def test_bad_options(record, options, sentence):
    with pytest.raises(InputError) as caught:
        record(**options)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        (cx.FoRDE(2, rank=9), "rank is 9; give a whole number from 1 to 4"),
        (cx.LIT(2, gradient_of="logit_difference"), "the problem has not two classes"),
        (cx.FoRDE(2, pca="nowhere.npz"), "there is no file nowhere.npz"),
    ],
    ids=["rank", "two classes", "file"],
)
def test_options_that_do_not_fit_the_data(record, sentence):
    with pytest.raises(InputError) as caught:
        dynamics_of(record, PROBLEM, *rows())
    assert sentence in str(caught.value)


class Foreign:
    """A network whose running mean is not credax's bias-corrected one."""

    def init(self, key, x):
        return Variables({"w": jnp.ones((x.shape[-1], 3))}, {"norm": {"mean": jnp.zeros(4)}})

    def apply(self, variables, x, *, key=None, train=False):
        return x @ variables.params["w"], variables.state


def test_detached_statistics_need_credax_batch_norm():
    problem = cx.Problem(Foreign(), cx.Categorical())
    with pytest.raises(InputError, match="use statistics='frozen'"):
        dynamics_of(cx.FoRDE(2, statistics="detached"), problem, *rows())
    for network in (cx.networks.MLP((5,), 3, norm="batch"), cx.networks.MLP((5,), 3)):
        own = cx.Problem(network, cx.Categorical())
        assert dynamics_of(cx.FoRDE(2, statistics="detached"), own, *rows()).replicas.count == 2


def test_components_of_other_inputs_are_refused(tmp_path):
    x, y = rows(inputs=5)
    principal_components(Split(x, y)).save(tmp_path / "pca.npz")
    with pytest.raises(InputError, match="made from inputs of 5 entries"):
        dynamics_of(cx.FoRDE(2, pca=str(tmp_path / "pca.npz")), PROBLEM, *rows())


def test_scalar_inputs_warn_and_the_graph_repels(float64):
    x, y = rows(inputs=1)
    with pytest.warns(UserWarning, match="never repels"):
        sphere = dynamics_of(cx.FoRDE(3), PROBLEM, x, y)
    graph = dynamics_of(cx.FoRDE(3, embedding="graph"), PROBLEM, x, y)
    none = dynamics_of(cx.FoRDE(3, repulsion_scale=0.0, embedding="graph"), PROBLEM, x, y)
    state, batch = start(graph, x), batch_of(x, y)
    plain = gradient(none, state, batch)
    assert largest_scaled(plain, gradient(sphere, state, batch)) < 1e-12
    assert largest_scaled(plain, gradient(graph, state, batch)) > 1e-3


def test_log_probabilities_warn_without_a_floor():
    with pytest.warns(UserWarning, match="relative_floor=1e-3"):
        cx.FoRDE(gradient_of="log_prob")
    assert cx.FoRDE(gradient_of="log_prob", relative_floor=1e-3).relative_floor == 1e-3


# --- what the options choose ---------------------------------------------------------------------


def test_lengthscales_choose_the_metric(tmp_path):
    x, y = rows(inputs=4)
    split = Split(x, y)
    principal_components(split).save(tmp_path / "pca.npz")
    metric = lambda **options: cx.FoRDE(2, **options).metric(PROBLEM, split)  # noqa: E731
    assert isinstance(metric(lengthscale="identity"), Identity)
    assert isinstance(metric(lengthscale=0.0), Identity)
    assert isinstance(metric(lengthscale=0), Identity)
    assert isinstance(metric(rank=2), Factored)
    whole, stored = metric(), metric(pca=str(tmp_path / "pca.npz"))
    assert isinstance(whole, DenseMetric)
    np.testing.assert_allclose(whole.matrix, stored.matrix, atol=1e-5)
    np.testing.assert_allclose(whole.matrix, metric(lengthscale=1.0).matrix, atol=1e-6)
    np.testing.assert_allclose(
        metric(lengthscale=1.0, unit_spectrum=True).matrix,
        whole.matrix * 4 / np.trace(whole.matrix),
        atol=1e-5,
    )
    own = DenseMetric(jnp.eye(4))
    assert metric(lengthscale=own) is own


def test_robust_and_fast():
    robust, fast = cx.FoRDE.robust(members=3), cx.FoRDE.fast(members=4, fraction=0.25)
    assert (robust.bandwidth, robust.relative_floor) == ("per_sample", 1e-3)
    assert (robust.statistics, robust.centre, robust.members) == ("frozen", True, 3)
    assert (fast.rank, fast.fraction, fast.bandwidth) == (0.99, 0.25, "per_sample")


@pytest.mark.parametrize(
    ("record", "scale"),
    [
        (cx.FoRDE(2), 1.0),
        (cx.FoRDE(2, repulsion_scale="data"), 2 / 8),
        (cx.FoRDE(2, repulsion_scale=3.0), 3.0),
        (cx.FoRDE(1), 0.0),
        (cx.LIT(2, strength=0.2), 0.2),
        (cx.LIT(1), 0.0),
        (cx.WeightWGD(2), 1 / 8),
        (cx.WeightWGD(2, repulsion_scale="batch"), 1 / 2),
        (cx.WeightWGD(2, repulsion_scale=4.0), 4 / 8),
        (cx.FunctionWGD(2), 1 / 8),
        (cx.FunctionSVGD(2), 1.0),
        (cx.FunctionSVGD(2, estimator="gfsf"), 1 / 8),
    ],
    ids=repr,
)
def test_scales(record, scale):
    assert dynamics_of(record, PROBLEM, *rows()).scale == scale


def halving(step):
    return 0.5**step


def test_a_schedule_scales_the_repulsion(float64):
    """Step t repels with 0.5^t; equal records are equal, hashable, and JSON by their code."""
    x, y = rows()
    record = cx.FoRDE(3, repulsion_scale=halving, lengthscale="identity")
    again = dataclasses.replace(record)
    assert record == again
    assert hash(record) == hash(again)
    dynamics = dynamics_of(record, PROBLEM, x, y)
    assert dynamics.scale == dynamics_of(again, PROBLEM, x, y).scale
    state, batch = start(dynamics, x), batch_of(x, y)
    scales = []
    for _ in range(3):
        state, info = step(dynamics, state, batch)
        scales.append(float(info["repulsion_scale"]))
    assert scales == [1.0, 0.5, 0.25]
    described = describe_method(record)
    assert described["repulsion_scale"]["function"] == "test_repulsive_records.halving"
    assert json.loads(json.dumps(described)) == described
    own = describe_method(cx.FoRDE(lengthscale=Identity(), repulsion_scale=0.1))
    assert own["lengthscale"] == {"type": "credax.Identity"}
    assert own["repulsion_scale"] == 0.1


def test_a_run_with_a_schedule_can_be_kept_and_resumed(tmp_path):
    x, y = rows(16)
    split = Split(x.astype(np.float32), y)
    record = cx.WeightWGD(2, repulsion_scale=lambda step: 1.0)
    training = cx.Training(epochs=1, batch_size=8)
    fit = lambda: cx.fit(  # noqa: E731
        PROBLEM, record, split, training=training, folder=tmp_path / "run", progress=False
    )
    first, again = fit(), fit()
    for a, b in zip(
        jax.tree.leaves(first.variables), jax.tree.leaves(again.variables), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert "<lambda>" in config["method"]["repulsion_scale"]["function"]


def test_annealing_forms(float64):
    """Linear; tanh((1.3 t/S)^10); five cycles to the tenth power; then one."""
    steps = 50
    times = np.array([0, 5, 9, 12, 25, 49, 50, 80])
    expected = {
        "linear": times / steps,
        "tanh": np.tanh((1.3 * times / steps) ** 10),
        "cyclic": ((times % 10) / 10) ** 10,
    }
    for kind, values in expected.items():
        found = [float(Annealing(kind, steps)(jnp.int32(t))) for t in times]
        np.testing.assert_allclose(found, np.where(times < steps, values, 1.0), 2e-6, 1e-9)


def test_annealing_multiplies_loss_and_prior(float64):
    """Half of the gradient of loss and prior half-way; the repulsion stays whole."""
    x, y = rows()
    problem = cx.Problem(cx.networks.MLP((), 3), cx.Categorical(), weight_decay=0.1)
    batch = batch_of(x, y)
    record = cx.WeightWGD(3, anneal="linear", anneal_steps=2)
    dynamics, plain = (
        dynamics_of(r, problem, x, y) for r in (record, dataclasses.replace(record, anneal="none"))
    )
    none = dynamics_of(cx.WeightWGD(3, repulsion_scale=0.0), problem, x, y)
    state = start(plain, x)
    drive = gradient(none, state, batch)
    update = jax.tree.map(np.subtract, gradient(plain, state, batch), drive)
    for time, factor in ((0, 0.0), (1, 0.5), (2, 1.0)):
        now = start(dynamics, x)._replace(step=jnp.full(3, time, jnp.int32))
        expected = jax.tree.map(lambda p, d, f=factor: p + f * d, update, drive)
        assert largest_scaled(expected, gradient(dynamics, now, batch)) < 1e-12


@pytest.mark.parametrize(
    ("problem", "classes", "chosen"),
    [
        (PROBLEM, 3, "loss"),
        (cx.Problem(cx.networks.MLP((), 2), cx.Categorical()), 2, "logit_difference"),
        (cx.Problem(cx.networks.MLP((), 1), cx.Bernoulli()), 2, "logit_difference"),
    ],
    ids=["three", "two", "bernoulli"],
)
def test_lit_chooses_the_gradient_by_the_classes(problem, classes, chosen):
    dynamics = dynamics_of(cx.LIT(2), problem, *rows(classes=classes))
    assert dynamics.space.gradient_of == chosen


def test_lit_reductions_and_metrics(float64):
    x, y = rows(classes=2)
    problem = cx.Problem(cx.networks.MLP((), 2), cx.Categorical())
    batch = batch_of(x, y)
    total, mean = (dynamics_of(cx.LIT(3, reduction=r), problem, x, y) for r in ("sum", "mean"))
    state = start(total, x)
    summed, averaged = (step(d, state, batch)[1]["repulsion"] for d in (total, mean))
    np.testing.assert_allclose(averaged, summed / len(y))
    g = np.asarray(state.descent.variables.params["0_dense"]["kernel"])
    g = g[..., 1] - g[..., 0]
    weighed = dynamics_of(cx.LIT(3, lengthscale="pca"), problem, x, y)
    moment = x.T @ x / (len(x) - 1)
    for metric, dynamics in ((np.eye(4), total), (moment, weighed)):
        a = g @ metric @ g.T
        penalty = sum(
            len(y) * a[i, j] ** 2 / (a[i, i] * a[j, j] + 1e-6) for i in range(3) for j in range(i)
        )
        np.testing.assert_allclose(step(dynamics, state, batch)[1]["repulsion"], penalty)


# --- every method on every kind of target --------------------------------------------------------

METHODS = [
    cx.FoRDE(3, bandwidth="heat"),
    cx.LIT(3),
    cx.WeightWGD(3, bandwidth="heat"),
    cx.SVGD(3, kernel="linear"),
    cx.FunctionWGD(3),
    cx.FunctionSVGD(3),
]
TARGETS = {
    "bernoulli": (cx.Bernoulli(), 1, np.array([0, 1, 1, 0, 1, 0])),
    "learned noise": (cx.Gaussian(), 2, np.linspace(-1, 1, 12).reshape(6, 2)),
    "heteroscedastic": (cx.HeteroscedasticGaussian(), 2, np.linspace(-1, 1, 6)),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("record", METHODS, ids=lambda record: record.name)
def test_every_method_takes_a_step_on_every_target(record, target):
    likelihood, outputs, y = TARGETS[target]
    y = y if y.dtype == int else y.astype(np.float32)
    x = rows(6)[0].astype(np.float32)
    problem = cx.Problem(cx.networks.MLP((), outputs), likelihood, weight_decay=1e-2)
    dynamics = dynamics_of(record, problem, x, y, UNIT.replace(learning_rate=1e-2))
    state = start(dynamics, x)
    new, info = step(dynamics, state, batch_of(x, y))
    before, after = (jax.tree.leaves(s.descent.variables.params) for s in (state, new))
    for a, b in zip(before, after, strict=True):
        assert np.isfinite(b).all()
        assert (np.asarray(a) != np.asarray(b)).any()
    assert np.isfinite(info["loss"]).all()
    assert np.asarray(info["force_ratio"]).min() > 0
