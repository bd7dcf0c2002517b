"""The least mass: closed forms, recorded values, a convex solver, the certificate."""

import itertools
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from structure_cases import TABLE, plain, relu, struct

from credax import Variables, networks
from credax.errors import InputError
from credax.structure import (
    DegenerateMass,
    apply,
    excess,
    imbalance,
    minimum_mass,
    random,
    trace,
)
from credax.structure.mass_solver import MassProblem, Term, solve
from credax.structure.verify import draw_variables

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).parent.parent / "golden" / "min_mass.npz"


def chain(weights, biases=()):
    """Dense ReLU layers with matrices [outputs, inputs]."""
    count = len(weights)

    def function(p, x):
        for k in range(count):
            x = x @ p[f"w{k}"].T + p.get(f"b{k}", 0.0)
            x = relu(x) if k < count - 1 else x
        return x

    arrays = {f"w{k}": np.array(w, float) for k, w in enumerate(weights)}
    arrays |= {f"b{k}": np.array(b, float) for k, b in enumerate(biases)}
    variables = Variables(arrays, {})
    x = np.zeros((4, arrays["w0"].shape[1]))
    return trace(plain({}, function), variables, x, verify=False), variables


W1, W2, W3 = [[1, 2], [-1, 1], [0, 3]], [[1, -1, 2], [2, 1, 0]], [[1, -2]]


def test_closed_forms():
    structure, variables = chain([[[3, 4], [0, 2]], [[1, 2], [2, 0]]])
    least = minimum_mass(structure, variables)
    assert least.mass == 38
    assert least.value == pytest.approx(30.360679774997898, rel=1e-13)
    np.testing.assert_allclose(least.element.scales[0, 0], [0.6687403050, 1], rtol=1e-9)
    assert excess(least) == pytest.approx(38 / 30.360679774997898 - 1, rel=1e-12)


def test_a_chain_of_numbers():
    """2, 3, 0.5: three times the geometric mean of the squares. By the solver itself, since the
    trace gives axes of size 1 no group."""
    first, second = (0, 0), (1, 0)
    terms = [
        Term(np.array([[4.0]]), [(first, 1.0, (0,))]),
        Term(np.array([[[9.0]]]), [(second, 1.0, (0,)), (first, -1.0, (1,))]),
        Term(np.array([[0.25]]), [(second, -1.0, (0,))]),
    ]
    found = solve(MassProblem(1, {first: (1,), second: (1,)}, terms), 1e-12, 100)
    assert found.value[0] == pytest.approx(6.240251469155712, rel=1e-13)


def test_three_layers_with_and_without_biases():
    structure, variables = chain([W1, W2, W3])
    least = minimum_mass(structure, variables)
    assert least.mass == 32
    assert least.value == pytest.approx(26.19429630258007, rel=1e-12)
    first, second = (least.element.scales[k, 0] for k in (0, 1))
    np.testing.assert_allclose(first, [0.91404639, 0.85553505, 0.58596053], atol=1e-8)
    np.testing.assert_allclose(second, [0.51502461, 0.89789901], atol=1e-8)
    moved = apply(structure, variables, least.element)
    layers = [float((moved.params[f"w{k}"] ** 2).sum()) for k in range(3)]
    np.testing.assert_allclose(layers, 8.73143210, atol=1e-7)
    assert sum(layers) == pytest.approx(float(least.value), rel=1e-12)
    structure, variables = chain([W1, W2, W3], [[1, 0, -1], [0.5, 2]])
    least = minimum_mass(structure, variables, biases=True)
    assert least.mass == 38.25
    assert least.value == pytest.approx(30.03334711231796, rel=1e-12)
    np.testing.assert_allclose(
        least.element.scales[0, 0], [0.81107622, 0.80428543, 0.56253266], atol=1e-8
    )


@pytest.mark.parametrize(("case", "layers"), [("mlp_5_7_6_3", 3), ("mlp_4_8_2", 2)])
def test_recorded_values(case, layers):
    with np.load(GOLDEN) as file:
        record = {name.split("/")[1]: file[name] for name in file if name.startswith(case)}
    structure, variables = chain(
        [record[f"W{k}"] for k in range(layers)], [record[f"b{k}"] for k in range(layers)]
    )
    least = minimum_mass(structure, variables)
    assert least.value == pytest.approx(float(record["mass_optimal"]), rel=1e-9)
    for k in range(layers - 1):
        np.testing.assert_allclose(
            least.element.log_scales[k, 0], record[f"log_lambda{k}"], atol=2e-6
        )
    moved = apply(structure, variables, least.element)
    np.testing.assert_allclose(moved.params["w0"], record["W0_rescaled"], atol=1e-5)


def residual(rng):
    """A stream that a block reads and adds to: a graph with a cycle."""
    shapes = {"w": (4, 3), "a": (5, 4), "b": (4, 5), "o": (2, 4)}

    def function(p, x):
        h = relu(x @ p["w"].T)
        return (h + relu(h @ p["a"].T) @ p["b"].T) @ p["o"].T

    variables = Variables({name: rng.standard_normal(s) for name, s in shapes.items()}, {})
    return trace(plain({}, function), variables, np.zeros((4, 3)), verify=False), variables


def convex(structure, variables, biases):
    """The same least mass by cvxpy: a log-sum-exp over entries, exponents from the structure."""
    cvxpy = pytest.importorskip("cvxpy")
    logs = {
        (g.id, k): cvxpy.Variable(g.size) for g in structure.groups for k in range(len(g.scalings))
    }
    terms = []
    for name, array in variables.params.items():
        path = f"params/{name}"
        if structure.is_bias(path) and not biases:
            continue
        for index in np.ndindex(array.shape):
            if array[index] == 0:
                continue
            power = 2 * np.log(abs(array[index]))
            for axis, at in zip(structure.axes[path], index, strict=True):
                leaf = axis.label
                group = structure.by_atom.get(leaf.atom)
                for k, e in structure.exponents(group, _place(leaf)) if group else ():
                    power = power + 2 * float(e) * logs[group.id, k][at]
            terms.append(power)
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.log_sum_exp(cvxpy.hstack(terms))))
    problem.solve(solver="CLARABEL")
    return float(np.exp(problem.value))


def _place(leaf):
    from credax.structure.groups import place_of

    return place_of(leaf)


@pytest.mark.parametrize("seed", range(20))
def test_agrees_with_a_convex_solver(seed):
    rng = np.random.default_rng(seed)
    biases = seed % 4 == 1
    if seed % 2:
        sizes = [3, 4, 5, 2] if seed % 4 == 1 else [2, 6, 3]
        weights = [rng.standard_normal((b, a)) for a, b in itertools.pairwise(sizes)]
        structure, variables = chain(weights, [rng.standard_normal(n) for n in sizes[1:]])
    else:
        structure, variables = residual(rng)
    least = minimum_mass(structure, variables, biases=biases)
    assert least.value == pytest.approx(convex(structure, variables, biases), rel=1e-6)


@pytest.mark.parametrize(
    "name", ["mlp", "cnn", "residual-flatten", "grouped", "stacked", "concatenations"]
)
def test_certificate_invariance_and_balance(name):
    network, shape, _ = TABLE[name]
    x = struct(*shape)
    shapes = jax.eval_shape(network.init, jax.random.key(0), x)
    structure = trace(network, shapes, x, verify=False, statistics="held")
    variables = draw_variables(structure, shapes, seed=1)
    least = minimum_mass(structure, variables)
    assert 0 <= least.value - least.lower_bound <= 1e-12 * least.value
    assert least.imbalance < 1e-6
    moved = apply(structure, variables, least.element)
    again = minimum_mass(structure, moved)
    assert again.mass == pytest.approx(float(least.value), rel=1e-12)
    assert imbalance(structure, moved) < 1e-6 < imbalance(structure, variables)
    other = apply(structure, variables, random(structure, 2))
    assert minimum_mass(structure, other).value == pytest.approx(float(least.value), rel=1e-10)
    assert minimum_mass(structure, other).mass >= least.value


def test_squared_units_have_other_exponents():
    """ReLU²: λ in, λ⁻² out; at the optimum in-mass is twice the out-mass."""
    rng = np.random.default_rng(0)
    network = plain({}, lambda p, x: relu(x @ p["a"]) ** 2 @ p["b"])
    variables = Variables({"a": rng.standard_normal((3, 4)), "b": rng.standard_normal((4, 2))}, {})
    structure = trace(network, variables, np.zeros((4, 3)))
    moved = apply(structure, variables, minimum_mass(structure, variables).element).params
    np.testing.assert_allclose((moved["a"] ** 2).sum(0), 2 * (moved["b"] ** 2).sum(1), rtol=1e-10)


def test_dead_units_are_left_out():
    structure, variables = chain([[[3, 4], [0, 0]], [[1, 2], [2, 0]]])
    least = minimum_mass(structure, variables)
    assert least.dead == 1
    assert least.value == pytest.approx(2 * 5 * np.sqrt(5), rel=1e-12)
    with pytest.raises(InputError, match="dead='exclude'"):
        minimum_mass(structure, variables, dead="raise")


def test_batch_norm_is_degenerate_unless_statistics_are_held():
    network, x = networks.MLP((5, 4), 3, norm="batch"), struct(4, 3)
    shapes = jax.eval_shape(network.init, jax.random.key(0), x)
    for statistics in ("consistent", "free"):
        structure = trace(network, shapes, x, statistics=statistics, verify=False)
        with pytest.raises(DegenerateMass, match=r"group \d"):
            minimum_mass(structure, draw_variables(structure, shapes))
    structure = trace(network, shapes, x, statistics="held", verify=False)
    least = minimum_mass(structure, draw_variables(structure, shapes))
    assert 0 <= least.value - least.lower_bound <= 1e-12 * least.value


@pytest.mark.parametrize("layers", [3, 20, 50])
def test_deep_chains_need_few_sweeps(layers):
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((4, 4)) for _ in range(layers)]
    least = minimum_mass(*chain(weights))
    assert least.sweeps <= 20  # over 500 without the step over layers


def test_thousands_at_once():
    """8192 networks of widths 1-2-10-3-10 in seconds, each the same as alone."""
    rng = np.random.default_rng(0)
    sizes = [1, 2, 10, 3, 10]
    pairs = list(itertools.pairwise(sizes))
    structure, _ = chain([rng.standard_normal((b, a)) for a, b in pairs])
    many = Variables(
        {f"w{k}": rng.standard_normal((8192, b, a)) for k, (a, b) in enumerate(pairs)}, {}
    )
    start = time.process_time()
    least = minimum_mass(structure, many)
    seconds = time.process_time() - start
    assert least.value.shape == (8192,)
    assert (least.value - least.lower_bound <= 1e-12 * least.value).all()
    assert seconds < 10
    for index in (0, 4000):
        alone = minimum_mass(structure, jax.tree.map(lambda a, i=index: a[i], many))
        assert alone.value == pytest.approx(float(least.value[index]), rel=1e-12)
