"""Saliency: the input gradient of each member, its diversity, and a figure of it."""

from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from credax.errors import InputError
from credax.methods.repulsive.embeddings import chosen_output
from credax.methods.repulsive.kernels import gradient_diversity
from credax.posterior import Population
from credax.problem import Batch
from credax.report.saliency_sheet import SaliencySheet


def input_gradients(
    posterior: Population, x: np.ndarray, y: np.ndarray, batch_size: int = 256
) -> Float[np.ndarray, "members rows inputs"]:
    """Each member's gradient of the true class's logit (regression: of its mean) by the input.

    ``x`` are raw inputs ``[rows, ...]`` and ``y`` their labels; the gradient is by the inputs in
    the network's units, flattened, in evaluation mode.
    """
    if not isinstance(posterior, Population):
        raise InputError(
            f"posterior is a {type(posterior).__name__}; input gradients need a population"
        )
    parts = []
    for start in range(0, len(x), batch_size):
        rows = slice(start, start + batch_size)
        parts.append(np.asarray(_gradients(posterior, np.asarray(x[rows]), np.asarray(y[rows]))))
    return np.concatenate(parts, axis=1)


@eqx.filter_jit
def _gradients(posterior: Population, x, y):
    problem = posterior.problem
    batch = problem.prepare(x, y)

    def target(variables, inputs):
        outputs, _ = problem.outputs(variables, inputs)
        rows = Batch(inputs, batch.y, batch.weight)
        return jnp.sum(chosen_output(problem, outputs, rows, "logit", jax.random.key(0)))

    each = jax.vmap(lambda own: jax.grad(target, argnums=1)(own, batch.x))(posterior.variables)
    return each.reshape(*each.shape[:2], -1)


def mean_cosine(gradients: Float[np.ndarray, "members rows inputs"]) -> float:
    """Mean over pairs of members and over rows of the cosine of their input gradients.

    A gradient that vanished counts as cosine zero.

    >>> round(mean_cosine(np.array([[[1.0, 0.0]], [[1.0, 1.0]]])), 4)
    0.7071
    """
    return _diversity(gradients)[0]


def median_distance(gradients: Float[np.ndarray, "members rows inputs"]) -> float:
    """Mean over pairs of the median over rows of the squared distance of unit gradients, 0 to 4."""
    return _diversity(gradients)[1]


def _diversity(gradients: np.ndarray) -> tuple[float, float]:
    if len(gradients) < 2:
        raise InputError("gradients has one member; diversity is between two")
    each = gradient_diversity(jnp.asarray(gradients), jnp.ones(len(gradients), bool))
    cosine, distance = (float(jnp.mean(values)) for values in each)
    return cosine, distance


def saliency_figure(
    name: str,
    inputs: np.ndarray,
    gradients: Mapping[str, Float[np.ndarray, "members rows inputs"]],
    members: int = 5,
) -> SaliencySheet:
    """A row for each input: the image, then some members' gradients of every method.

    Red raises the true class's logit, blue lowers it; every gradient is scaled by its own largest
    entry, for only directions are compared.
    """
    caption = (
        "Input gradients of the true class's logit at a few test inputs, one column per member: "
        "red raises it, blue lowers it, each scaled by its own largest entry."
    )
    shown = {label: values[:members] for label, values in gradients.items()}
    return SaliencySheet(name, caption, inputs, shown)
