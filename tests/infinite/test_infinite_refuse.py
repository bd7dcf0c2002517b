"""One sentence for everything that cannot be: which argument, what came, what to do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from credax import infinite

NET = infinite.serial(infinite.InfiniteDense(4), infinite.Erf(), infinite.InfiniteDense(1))
X, Y = np.arange(6.0).reshape(3, 2), np.arange(3.0)
START = NET.init(jax.random.key(0), jnp.ones((1, 2)))


def dynamics(x=X, y=Y, kernel=NET, **options):
    return infinite.EnsembleDynamics(kernel, x, y, **options)


class Lopsided:
    """Not a kernel."""

    def kernels(self, x1, x2=None):
        bad = np.diag([1.0, -1.0, 1.0])
        return infinite.Kernels(bad, bad)


CASES = {
    "no layers": (lambda: infinite.serial(), "no layers"),
    "no branches": (lambda: infinite.parallel_sum(), "no branches"),
    "repeat": (lambda: infinite.repeat(NET, 0), "times is 0"),
    "features": (lambda: infinite.InfiniteDense(0), "features is 0"),
    "scale": (lambda: infinite.InfiniteDense(2, weight_std=-1.0), "weight_std is -1.0"),
    "parameterisation": (
        lambda: infinite.InfiniteDense(2, parameterisation="mup"),
        "parameterisation",
    ),
    "padding": (lambda: infinite.InfiniteConv(2, padding="same"), "padding"),
    "window": (lambda: infinite.InfiniteConv(2, (0, 3)), "window is"),
    "stride": (lambda: infinite.AveragePool((2, 2), 0), "stride 0"),
    "support": (lambda: infinite.InfiniteConv(2, support=((True,),)), "support has shape"),
    "over": (lambda: infinite.LayerNorm(over="rows"), "over"),
    "epsilon": (lambda: infinite.LayerNorm(-1.0), "epsilon is -1.0"),
    "nodes": (lambda: infinite.Activation(jnp.tanh, 1), "nodes is 1"),
    "power": (lambda: infinite.Monomial(6), "power is 6"),
    "a vector": (lambda: NET.kernels(np.ones(3)), "x1 has shape"),
    "no rows": (lambda: NET.kernels(np.ones((0, 3))), "x1 has shape"),
    "two widths": (lambda: NET.kernels(np.ones((2, 3)), np.ones((2, 4))), "must agree"),
    "NaN": (lambda: NET.kernels([[1.0, np.nan]]), "row 0"),
    "words": (lambda: NET.kernels(np.array([["a"]])), "has type"),
    "pool of vectors": (
        lambda: infinite.serial(infinite.InfiniteDense(2), infinite.AveragePool(), NET).kernels(X),
        "AveragePool needs pictures",
    ),
    "conv of vectors": (
        lambda: infinite.serial(infinite.InfiniteConv(2), NET).kernels(X),
        "Conv needs",
    ),
    "loss": (lambda: dynamics(loss="sum"), "loss"),
    "evolution": (lambda: dynamics(evolution="adam"), "evolution"),
    "train": (lambda: dynamics(train="first"), "train"),
    "rows": (lambda: dynamics(y=np.ones(2)), "one target per row"),
    "targets": (lambda: dynamics(y=np.array([0, np.inf, 1])), "y holds NaN or infinity in row 1"),
    "rate": (lambda: dynamics(learning_rate=0.0), "learning_rate is 0.0"),
    "noise": (lambda: dynamics(loss="per_example", noise=-1.0), "noise is -1.0"),
    "ridge": (lambda: dynamics(ridge=-0.1), "ridge is -0.1"),
    "indefinite": (lambda: dynamics(kernel=Lopsided()), "eigenvalue -1"),
    "before": (lambda: dynamics().mean(X, -1.0), "time starts at 0"),
    "half a step": (lambda: dynamics(evolution="steps").mean(X, 0.5), "counts steps"),
    "members": (lambda: dynamics().sample(0, X, members=0, t=1.0), "members is 0"),
    "orbits": (lambda: dynamics().orbit_deviation(X, t=1.0), "orbits has shape"),
    "sizes": (lambda: dynamics().orbit_deviation(X[None], (0, 1), t=1.0), "at least 1"),
    "tail": (lambda: infinite.tail_bound(1.0, 0, 0.1), "at least 1 member"),
    "method": (lambda: infinite.empirical_ntk(NET, START, X, method="magic"), "method"),
    "outputs": (lambda: infinite.empirical_ntk(NET, START, X, outputs="all"), "outputs"),
    "vector": (lambda: infinite.ntk_vector_product(NET, START, X, np.ones(3)), "vector has shape"),
    "order": (lambda: infinite.taylor(NET, START, 3), "order is 3"),
    "draws": (lambda: infinite.monte_carlo_kernel(NET, X, 1, jax.random.key(0)), "draws is 1"),
    "jitter": (lambda: infinite.ProcessPrior(NET, -1.0), "jitter is -1.0"),
    "functions": (lambda: infinite.ProcessPrior(NET).sample(0, X, 0), "functions is 0"),
    "method members": (lambda: infinite.NTK(members=0), "members is 0"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_cannot_be_is_refused_in_a_sentence(name, refused):
    refused(*CASES[name])
