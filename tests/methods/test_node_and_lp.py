"""Node-based networks (entropy bounds) and LP-BNN (encoded factors)."""

import dataclasses
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from modulated_cases import TRAINING, batch_of, classification, jitted, start, weighted

import credax as cx
from credax.data.dataset import Split
from credax.methods.ensembles.lp_bnn import LPBNN, encode, latent_kl
from credax.methods.ensembles.node_bnn import (
    NodeBNN,
    cross_entropy,
    mixture_entropy_bound,
    normal_entropy,
)
from credax.methods.ensembles.rank_one_bnn import normal_kl

# Small programs, many of them: compiling takes longer than a few seconds.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def problem_and_rows():
    return classification(cx.networks.MLP((4,), outputs=2))


def test_entropy_of_a_mixture_lies_between_its_bounds(float64):
    """Of two normals at ±1: by a grid, and by the bounds in closed form."""
    mean, std = jnp.array([[-1.0], [1.0]]), jnp.ones((2, 1))
    grid = np.linspace(-12, 12, 24_001)
    density = np.exp(-0.5 * (grid[:, None] - [-1, 1]) ** 2).mean(1) / math.sqrt(2 * math.pi)
    exact = -(density * np.log(density)).sum() * (grid[1] - grid[0])
    assert exact == pytest.approx(1.755769354, abs=1e-8)
    conditional = float(normal_entropy(std).mean())
    bound = float(mixture_entropy_bound(mean, std))
    assert conditional == pytest.approx(1.418938533, abs=1e-8)
    assert bound == pytest.approx(1.638008730, abs=1e-8)
    assert conditional < bound < exact < conditional + math.log(2)


def test_the_bound_of_one_component_is_its_entropy(float64):
    mean, std = jnp.array([[0.3, -2.0]]), jnp.array([[0.5, 2.0]])
    exact = sum(0.5 * math.log(2 * math.pi * math.e * s**2) for s in (0.5, 2.0))
    assert float(mixture_entropy_bound(mean, std)) == pytest.approx(exact, abs=1e-12)


def test_both_bounds_of_the_divergence_agree_for_one_component(float64):
    """KL = cross-entropy minus entropy; so without extra entropy the loss is the evidence bound."""
    rng = np.random.default_rng(0)
    mean, std = jnp.asarray(rng.normal(1, 1, (1, 5))), jnp.asarray(rng.uniform(0.1, 1, (1, 5)))
    exact = float(normal_kl(mean, std, 1.0, 0.3).sum())
    other = float(cross_entropy(mean, std, 0.3) - mixture_entropy_bound(mean, std))
    assert other == pytest.approx(exact, rel=1e-10)


def penalty_of(problem, data, **options):
    dynamics, _ = start(problem, NodeBNN(members=2, annealing=0, **options), data)
    modulator = dynamics.modulator
    parts = modulator.init(jax.random.key(4))
    return modulator, parts, float(modulator.penalty({}, parts, None, 0)) * len(data)


@pytest.mark.parametrize(
    ("kl", "entropy"), [*itertools.product(("mean", "bound"), ("bound", "conditional"))]
)
def test_every_pair_of_bounds_gives_its_number(problem_and_rows, kl, entropy):
    """Without weight the entropy does not matter; with it the loss is KL minus γ H."""
    options = {"kl_type": kl, "entropy_type": entropy}
    _, parts, plain = penalty_of(*problem_and_rows, **options)
    _, _, more = penalty_of(*problem_and_rows, **options, entropy=2.0)
    leaves = lambda name: jnp.concatenate(  # noqa: E731
        [leaf.reshape(2, -1) for leaf in jax.tree.leaves(parts.members[name])], axis=1
    )
    mean, std = leaves("mean"), jax.nn.softplus(leaves("rho"))
    bound = float(mixture_entropy_bound(mean, std))
    expected = {
        "mean": float(normal_kl(mean, std, 1.0, 0.3).sum(1).mean()),
        "bound": float(cross_entropy(mean, std, 0.3)) - bound,
    }[kl]
    assert plain == pytest.approx(expected, rel=1e-4)
    wanted = {"bound": bound, "conditional": float(normal_entropy(std).mean())}[entropy]
    assert plain - more == pytest.approx(2 * wanted, rel=1e-4)
    # The bound through the entropy is the tighter one: components differ.
    if kl == "bound":
        assert expected < float(normal_kl(mean, std, 1.0, 0.3).sum(1).mean())


def test_the_divergence_is_over_all_rows_and_not_those_of_a_batch(problem_and_rows):
    """A short last batch has the same weight of the KL: N counts, not the rows at hand."""
    problem, data = problem_and_rows
    dynamics, state = start(problem, NodeBNN(members=2, annealing=0), data)
    batch = batch_of(problem, data)
    gaps = []
    for weight in (np.ones(8), np.r_[np.ones(3), np.zeros(5)]):
        here = weighted(batch, weight)
        loss, (_, info) = jitted(dynamics.loss)(state.trained, (), {}, 0, jax.random.key(1), here)
        rows = jnp.where(info["loss"] - info["nll"] != 0, info["loss"] - info["nll"], 0)
        gaps.append(np.asarray(rows))
        assert np.isfinite(loss)
    np.testing.assert_allclose(gaps[0], gaps[1], rtol=1e-5)


def test_latents_stand_where_they_are_asked_for(problem_and_rows):
    problem, data = problem_and_rows
    for latents, sides in (("inputs", (2, 0)), ("outputs", (0, 2)), ("both", (2, 2))):
        _, state = start(problem, NodeBNN(members=2, latents=latents), data)
        mean = state.trained.members["mean"]
        assert (len(mean.inputs), len(mean.outputs)) == sides


@pytest.fixture(scope="module")
def encoded(problem_and_rows):
    """An LP-BNN of two whose autoencoders reproduce what they are given."""
    problem, data = problem_and_rows
    dynamics, state = start(problem, LPBNN(members=2, latent=4, noise=0.0), data)
    common = {
        path: perfect(coder, len(coder["output_bias"]))
        for path, coder in state.trained.common.items()
    }
    return dynamics, state._replace(trained=state.trained._replace(common=common))


def perfect(coder, size):
    """An autoencoder that is the identity: hidden units far from the kink, biases undone."""
    eye = jnp.eye(size, 4)
    shift = jnp.where(jnp.arange(4) < size, 10.0, 0.0)
    return {
        "hidden": eye,
        "hidden_bias": shift,
        "mean": jnp.eye(4),
        "mean_bias": -shift,
        "log_variance": jnp.zeros((4, 4)),
        "log_variance_bias": jnp.zeros(4),
        "output": eye.T,
        "output_bias": jnp.zeros(size),
    }


def test_with_a_perfect_autoencoder_it_is_batch_ensemble(problem_and_rows, encoded):
    problem, data = problem_and_rows
    dynamics, state = encoded
    plain, other = start(problem, cx.BatchEnsemble(members=2), data)
    other = other._replace(trained=other.trained._replace(members=state.trained.members))
    found = jitted(dynamics.members)(state).params
    expected = jitted(plain.members)(other).params
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rows", [2, 4, 5])
def test_copies_of_a_row_meet_different_members(problem_and_rows, rows):
    """For batches of the number of members, twice that, and one more."""
    problem, _ = problem_and_rows
    data = Split(np.ones((rows, 3), np.float32), np.zeros(rows, int))
    training = TRAINING.replace(batch_size=rows)
    dynamics, state = start(problem, LPBNN(members=2, batch="tile"), data, 0, training)
    batch = batch_of(problem, data)
    _, (_, info) = jitted(dynamics.loss)(state.trained, (), {}, 0, jax.random.key(1), batch)
    assert abs(float(info["nll"][0] - info["nll"][1])) > 1e-3


def test_the_divergence_is_that_of_the_latent_drawn():
    """By draws: the noise factor is in the KL as it is in the sample."""
    rng, count = np.random.default_rng(0), 100_000
    mean, std = np.array([0.5, -1.0]), 0.1 * np.array([0.8, 2.0])
    noise = rng.standard_normal((count, 2))
    drawn = mean + std * noise
    ratio = (-0.5 * noise**2 - np.log(std) + 0.5 * drawn**2).sum(1)
    error = ratio.std() / math.sqrt(count)
    found = float(latent_kl(jnp.asarray(mean), jnp.asarray(std)))
    assert abs(ratio.mean() - found) < 4 * error
    without = float(latent_kl(jnp.asarray(mean), jnp.asarray(std) / 0.1))
    assert abs(without - found) > 1


def test_the_penalty_counts_the_noise_that_is_drawn(problem_and_rows):
    """What the loss gains from N = 1e9 to N = 1 is the KL, with the noise factor in it."""
    problem, data = problem_and_rows
    dynamics, _ = start(problem, LPBNN(members=2, latent=4, noise=0.3), data)
    parts = dynamics.modulator.init(jax.random.key(0))
    many, one = (
        dataclasses.replace(dynamics.modulator, num_data=n).penalty({}, parts, jax.random.key(1), 0)
        for n in (10**9, 1)
    )
    gain = one - many
    expected = []
    for member in range(2):
        for path, coder in parts.common.items():
            mean, std = encode(coder, parts.members.inputs[path][member].reshape(-1))
            mean, std = np.asarray(mean, float), 0.3 * np.asarray(std, float)
            expected.append((0.5 * (std**2 + mean**2 - 1) - np.log(std)).sum())
    assert float(gain) == pytest.approx(sum(expected) / 2, rel=1e-4)


def test_the_sample_has_the_noise_that_the_divergence_counts(problem_and_rows):
    """Draws of the decoded factor, through a decoder that shows the latent."""
    problem, data = problem_and_rows
    dynamics, state = start(problem, LPBNN(members=2, latent=4, noise=0.3), data)
    path, coder = next(iter(state.trained.common.items()))
    shown = coder | {"output": jnp.eye(4, len(coder["output_bias"]))}
    common = state.trained.common | {path: shown}
    member = jax.tree.map(lambda leaf: leaf[0], state.trained.members)
    draw = lambda key: dynamics.modulator.factors(common, member, (), key).inputs[path]  # noqa: E731
    drawn = jax.vmap(draw)(jax.random.split(jax.random.key(0), 4000)).reshape(4000, -1)
    _, std = encode(coder, member.inputs[path].reshape(-1))
    found, wanted = np.asarray(drawn).std(0), 0.3 * np.asarray(std)[: drawn.shape[1]]
    # The standard error of a standard deviation is about σ / sqrt(2 n).
    np.testing.assert_allclose(found, wanted, rtol=4 / math.sqrt(2 * 4000))


def test_bad_input(refused):
    refused(lambda: NodeBNN(entropy=-1.0), "entropy is -1.0")
    refused(lambda: NodeBNN(latents="weights"), "latents")
    refused(lambda: NodeBNN(annealing=-0.1), "annealing is -0.1")
    refused(lambda: LPBNN(latent=0), "latent is 0")
    refused(lambda: LPBNN(noise=-1.0), "noise is -1.0")
