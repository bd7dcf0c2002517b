"""Efficient ensembles on any network: the shared program against the members' own networks."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from efficient_networks import CASES, OUTPUTS, Case, LinenNormed

import credax as cx
from credax import networks
from credax.data import Split
from credax.methods.ensembles.modulator import (
    Member,
    Parts,
    member_outputs,
    member_variables,
    named,
)
from credax.methods.traced import structure_with_kernels
from credax.network import FunctionNetwork
from credax.networks.width import WidthRounded
from credax.structure import kernels, unit_shape
from credax.structure.factored import Factors, factored
from credax.training.engine import build_program
from credax.training.hooks import problem_of
from credax.training.program import Rows, initialise

slow = pytest.mark.slow
ROWS = 4
SMALL = {"samples": 2}
METHODS = {
    "batch-ensemble": cx.BatchEnsemble(members=2, rank=2, initial="normal", own="biases-and-norms"),
    "masksembles": cx.Masksembles(members=2),
    "rank1-bnn": cx.Rank1BNN(members=2, own="biases", **SMALL),
    "node-bnn": cx.NodeBNN(members=2, latents="both", **SMALL),
    "lp-bnn": cx.LPBNN(members=2, latent=2, **SMALL),
    "mimo": cx.MIMO(members=2, batch_repetitions=2),
    "mnf": cx.MNF(hidden=(2, 2), flow_steps=1, auxiliary_steps=1, **SMALL),
}
SOMEWHERE = ("mlp", "cnn", "residual")


def rows(case: Case, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((ROWS, *case.shape)).astype(np.float32)
    return Split(x, rng.standard_normal((ROWS, OUTPUTS)).astype(np.float32))


def problem_with(network):
    return cx.Problem(network, cx.Gaussian(1.0), weight_decay=1e-3)


def begun(method, problem, data):
    """Dynamics and the states that training begins with."""
    training = cx.Training(epochs=2, batch_size=len(data.x))
    given = problem_of(method, problem)
    dynamics = method.dynamics(given, data, training)
    program = build_program(given, dynamics, training, data, jax.random.key(0))
    return dynamics, initialise(program, Rows(data.x[:1], data.y[:1])).states


def kept(method, problem, dynamics, states, data):
    """The posterior of the states."""
    alive = np.ones(dynamics.replicas.count * method.members, bool)
    return method.posterior(problem, dynamics, states, None, alive, data)


def before_training(method, problem, data):
    """The posterior of a method whose training has not begun."""
    return kept(method, problem, *begun(method, problem, data), data)


def one_step(dynamics, states, data, arrays):
    """A step of the first replica: a finite loss, and kernels that move."""
    state = jax.tree.map(lambda leaf: leaf[0], states)
    batch = cx.Batch(data.x, data.y, np.ones(ROWS, np.float32))
    after, info = jax.jit(dynamics.step)(jax.random.key(1), state, batch)
    assert np.isfinite(info["loss"]).all()
    before, after = named(arrays(state)), named(arrays(after))
    assert any("kernel" in name for name in before)
    for name in before:
        # A bias in front of a norm has no gradient.
        if "kernel" in name:
            assert (before[name] != after[name]).any(), name


def same(posterior, x):
    """The prediction of the shared program is that of the members' networks; they differ."""
    found = np.asarray(posterior.predict(x).members)
    written_out = posterior.members()
    assert written_out.indices == posterior.indices
    np.testing.assert_allclose(written_out.predict(x).members, found, rtol=1e-5, atol=1e-5)
    assert np.ptp(found, axis=0).max() > 1e-3
    return found


@slow
@pytest.mark.parametrize(
    ("name", "network"),
    # The flows of MNF take long to compile: not on the third.
    [(name, n) for name in METHODS for n in SOMEWHERE if (name, n) != ("mnf", "cnn")],
)
def test_predictions_are_those_of_the_members_and_a_step_is_finite(name, network):
    """A factor on the wrong axis, or lost on its way to a kernel, would change an output."""
    case, method = CASES[network], METHODS[name]
    problem, data = problem_with(case.network), rows(case)
    dynamics, states = begun(method, problem, data)
    found = same(kept(method, problem, dynamics, states, data), data.x)
    assert len(found) == method.members * getattr(method, "draws", 1)
    one_step(dynamics, states, data, lambda state: state.trained.weights)


@slow
@pytest.mark.parametrize("network", SOMEWHERE)
def test_a_packed_step_is_finite(network):
    case, method = CASES[network], cx.PackedEnsemble(members=2, alpha=2.0)
    if network == "residual":
        case = Case(networks.ResNet(OUTPUTS, widths=(2,), blocks=(1,), stem=2), case.shape)
    data = rows(case)
    dynamics, states = begun(method, problem_with(case.network), data)
    one_step(dynamics, states, data, lambda state: state.variables.params)


@pytest.mark.parametrize(
    "network", [n if n == "mlp" else pytest.param(n, marks=slow) for n in CASES]
)
def test_factors_and_masks_on_every_network(network):
    """``f(W * r sᵀ)`` with factors on activations, and with the kernel written out.

    And by a third route: factors of the first kernel's inputs are factors of the network's inputs.
    """
    case = CASES[network]
    problem, x = problem_with(case.network), rows(case).x
    structure = structure_with_kernels(problem, x[:1], "multiply")
    first = kernels(structure)[0]
    (size,) = unit_shape(structure, first, "input")
    assert size == case.shape[case.units]
    rng = np.random.default_rng(1)
    r = rng.standard_normal(size).astype(np.float32)
    # Any numbers do for masks, and drawing them would take long to compile.
    masks = {str(g.id): rng.random((2, g.size), np.float32) for g in structure.groups}
    along = [1] * len(case.shape)
    along[case.units] = size

    @jax.jit
    def routes(key):
        variables = problem.init(key, x)
        arrays, found = named(variables.params), []
        for name in ("batch-ensemble", "masksembles"):
            modulator = METHODS[name].modulator(problem, structure, None, ROWS)
            parts = modulator.init(key) if name == "batch-ensemble" else Parts(fixed=masks)

            def one(member, fixed, modulator=modulator):
                here = Member(arrays, Parts((), member, fixed), variables.state)
                own = member_variables(modulator, here, None)
                shared = member_outputs(problem, modulator, here, None, x)[0]
                return shared, problem.outputs(own, x)[0]

            found.append(jax.vmap(one)(parts.members, parts.fixed))
        outputs = lambda p, x: problem.outputs(cx.Variables(p, variables.state), x)[0]  # noqa: E731
        shared = factored(structure, outputs)(
            variables.params, Factors({first: jnp.asarray(r)[None]}, {}), x
        )
        return [*found, (shared[None], outputs(variables.params, x * r.reshape(along))[None])]

    *members, inputs = routes(jax.random.key(0))
    for shared, own in (*members, inputs):
        np.testing.assert_allclose(shared, own, rtol=1e-5, atol=1e-5)
    for shared, _ in members:
        assert np.ptp(shared, axis=0).max() > 1e-3, "members are equal"


@slow
@pytest.mark.parametrize("library", ["equinox", "nnx", "haiku"])
def test_packed_networks_of_other_libraries_need_narrow(library, refused):
    case = CASES[library]
    method = cx.PackedEnsemble(members=2)
    refused(lambda: begun(method, problem_with(case.network), rows(case)), "narrow=")


@slow
def test_packed_networks_of_other_libraries(tmp_path, refused):
    """A folder cannot hold a function: another network would be read back without a word."""

    def narrow(factor):
        return cx.adapters.from_linen(LinenNormed(width=round(factor * 8)))

    case = CASES["linen"]
    data = rows(case)
    method = cx.PackedEnsemble(members=4, alpha=2.0, narrow=narrow)
    training = cx.Training(epochs=1, batch_size=ROWS)
    problem = problem_with(narrow(1.0))
    posterior = cx.fit(
        problem, method, data, key=0, training=training, folder=tmp_path / "run", progress=False
    )
    refused(cx.open_run(tmp_path / "run", problem).posterior, "narrow=.*load")
    again = method.load(tmp_path / "run" / "members.safetensors", problem)
    np.testing.assert_array_equal(again.predict(data.x).members, posterior.predict(data.x).members)
    assert posterior.variables.params["Conv_0"]["kernel"].shape == (4, 3, 3, 2, 4)
    assert np.isfinite(posterior.predict(data.x).members).all()


@slow
@pytest.mark.parametrize("name", ["batch-ensemble", "mimo"])
def test_modes_stand_side_by_side(name):
    """Members of two modes, mode after mode; the first mode is what it is alone."""
    case = CASES["mlp"]
    problem, data = problem_with(case.network), rows(case)
    one = before_training(METHODS[name], problem, data)
    two = before_training(dataclasses.replace(METHODS[name], modes=2), problem, data)
    found = same(two, data.x)
    np.testing.assert_allclose(found[: one.num_members], one.predict(data.x).members, rtol=1e-5)
    assert two.num_members == 2 * one.num_members


@slow
@pytest.mark.parametrize(
    "make",
    [
        lambda around: cx.BatchEnsemble(
            members=2, around=around, initial="normal", initial_std=1e-7
        ),
        lambda around: cx.Masksembles(members=2, around=around, scale=1.0),
    ],
    ids=["batch-ensemble", "masksembles"],
)
def test_around_a_trained_ensemble(make):
    """Factors of one around two networks, hardly trained: their predictions, twice each."""
    case = CASES["mlp"]
    problem, data = problem_with(case.network), rows(case)
    training = cx.Training(epochs=3, batch_size=ROWS)
    ensemble = cx.fit(
        problem, cx.DeepEnsemble(members=2), data, key=0, training=training, progress=False
    )
    still = training.replace(learning_rate=1e-9)
    posterior = cx.fit(problem, make(ensemble), data, key=1, training=still, progress=False)
    found = np.asarray(posterior.predict(data.x).members)
    expected = np.repeat(np.asarray(ensemble.predict(data.x).members), 2, axis=0)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def linear():
    return FunctionNetwork(lambda key, x: {"w": jnp.ones((5, OUTPUTS))}, lambda p, x: x @ p["w"])


def test_networks_on_which_a_method_cannot_work(refused):
    flat = Case(None, (5,))
    nothing = FunctionNetwork(lambda key, x: {"s": jnp.ones(x.shape[-1])}, lambda p, x: x * p["s"])
    for method in METHODS.values():
        refused(
            lambda method=method: begun(method, problem_with(nothing), rows(flat)),
            "multiplies no parameter .* use one with dense or convolution layers",
        )
    refused(
        lambda: begun(METHODS["masksembles"], problem_with(linear()), rows(flat)),
        "no hidden units .* batch-ensemble",
    )
    tokens = Split(np.ones((ROWS, 5), np.int32), np.zeros((ROWS, OUTPUTS), np.float32))
    refused(
        lambda: begun(METHODS["mimo"], problem_with(linear()), tokens), "tokens .* batch-ensemble"
    )


@pytest.mark.parametrize("name", ["batch-ensemble", "masksembles", "rank1-bnn", "lp-bnn"])
def test_grouped_convolutions_with_several_channels_per_group(name, refused):
    network = cx.networks.CNN(OUTPUTS, (4, 4), 4, groups=2)
    data = rows(Case(network, (8, 8, 2)))
    refused(
        lambda: before_training(METHODS[name], problem_with(network), data),
        "2 groups .* outputs .* node-bnn",
    )


@slow
def test_grouped_convolutions_have_outputs_to_multiply():
    network = cx.networks.CNN(OUTPUTS, (4, 4), 4, groups=2)
    data = rows(Case(network, (8, 8, 2)))
    same(before_training(cx.NodeBNN(members=2, samples=2), problem_with(network), data), data.x)


WRONG = [
    (lambda: cx.BatchEnsemble(members=0), "members is 0"),
    (lambda: cx.BatchEnsemble(rank=0), "rank is 0"),
    (lambda: cx.BatchEnsemble(batch="rows"), "unknown batch 'rows'"),
    (lambda: cx.Rank1BNN(log_likelihood="mixture"), "log_likelihood is 'mixture' .* batch='tile'"),
    (lambda: cx.Rank1BNN(annealing=1.5), "annealing is 1.5"),
    (lambda: cx.NodeBNN(samples=0), "samples is 0"),
    (lambda: cx.NodeBNN(entropy=-1.0), "entropy is -1.0"),
    (lambda: cx.LPBNN(latent=0), "latent is 0"),
    (lambda: cx.Masksembles(scale=0.5), "scale is 0.5"),
    (lambda: cx.Masksembles(scale=7), "scale is 7"),
    (lambda: cx.PackedEnsemble(members=0), "members is 0"),
    (lambda: cx.PackedEnsemble(alpha=0.0), "alpha is 0.0"),
    (lambda: cx.MIMO(members=0), "members is 0"),
    (lambda: cx.MIMO(repetition=1.5), "repetition is 1.5"),
    (lambda: cx.MNF(members=2), "members is 2; .* modes"),
    (lambda: cx.MNF(flow_steps=-1), "flow_steps is -1"),
]


@pytest.mark.parametrize(("make", "words"), WRONG)
def test_bad_options(make, words, refused):
    refused(make, words)


@pytest.mark.parametrize("name", ["batch-ensemble", "masksembles", "rank1-bnn", "node-bnn"])
def test_a_batch_smaller_than_the_members(name, refused):
    method = dataclasses.replace(METHODS[name], members=ROWS + 1)
    case = CASES["mlp"]
    refused(
        lambda: begun(method, problem_with(case.network), rows(case)),
        "batch_size is 4 and members is 5; .* batch='tile'",
    )


def test_widths_that_do_not_divide_are_said(refused):
    method = cx.PackedEnsemble(members=4, alpha=2.0)
    with pytest.warns(WidthRounded, match=r"\(5, 6\) times 0.5 are rounded up to \(3, 3\)"):
        narrow = method.trained_problem(problem_with(cx.networks.MLP((5, 6), OUTPUTS)))
    assert narrow.network.hidden == (3, 3)
    grouped = cx.PackedEnsemble(members=4, alpha=2.0, groups=2)
    refused(
        lambda: grouped.trained_problem(problem_with(cx.networks.MLP((4,), OUTPUTS))),
        "groups is 2 and MLP has no grouped convolutions",
    )


def test_a_flat_prior_is_refused(refused):
    case = CASES["mlp"]
    flat = cx.Problem(case.network, cx.Gaussian(1.0))
    refused(lambda: begun(METHODS["mnf"], flat, rows(case)), "prior is flat; .* weight_decay")
