"""Small problems, structures and states that tests of ensembles around one network share."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import credax as cx
from credax.data.dataset import Split
from credax.methods.traced import structure_of
from credax.problem import Batch
from credax.training import Training

jitted = eqx.filter_jit
TRAINING = Training(
    epochs=2, batch_size=8, learning_rate=0.1, optimiser="sgd", momentum=0.0, nesterov=False,
    schedule="constant",
)  # fmt: skip


def classification(network, shape=(3,), rows=8, classes=2, **options):
    """A problem and random rows for it."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((rows, *shape)).astype(np.float32)
    problem = cx.Problem(network, cx.Categorical(), **({"weight_decay": 0.01} | options))
    return problem, Split(x, np.arange(rows) % classes)


def traced(problem, data):
    """The structure of a problem's network."""
    return structure_of(problem, jax.ShapeDtypeStruct((1, *data.x.shape[1:]), data.x.dtype))


def start(problem, method, data, key=0, training=TRAINING):
    """The dynamics of a method and its state before the first step."""
    dynamics = method.dynamics(problem, data, training)
    key = jax.random.key(key)
    first = jitted(lambda key: dynamics.init(key, problem.init(key, data.x[:1])))
    return dynamics, first(key)


def batch_of(problem, data):
    """All rows as one batch."""
    return problem.prepare(jnp.asarray(data.x), jnp.asarray(data.y))


def weighted(batch: Batch, weight) -> Batch:
    """The same rows with other weights."""
    return batch._replace(weight=jnp.asarray(weight, jnp.float32))
