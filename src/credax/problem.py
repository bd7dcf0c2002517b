"""Network, likelihood and prior together: what is to be learned, independent of how."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from credax.errors import InputError
from credax.likelihood import Likelihood
from credax.network import Network, Variables, output_struct
from credax.partly_trained import Filter, freeze
from credax.precision import check_digits, check_range, check_scale
from credax.prediction import Prediction, RegressionPrediction
from credax.prior import GaussianPrior, Prior, TracedPrior
from credax.standardise import Standardise


class Batch(NamedTuple):
    """Rows in standard units; ``weight`` is 1 for a real row and 0 for padding."""

    x: Array
    y: Array
    weight: Float[Array, " batch"]


class Problem(eqx.Module):
    """Network, likelihood and prior.

    The mean loss on a minibatch is ``Σ w (-log p(y|x,θ)) / Σ w - log p(θ) / N``, so its minimum
    over the whole data is the posterior's mode; ``N`` (``num_data``) is always an argument.

    ``trainable`` names the parameters that are trained, by path, pattern or function (see
    `credax.freeze`); all others keep the values they have in ``frozen``: `Variables`, or a
    population of one member, such as `credax.adopt` gives.

    ``inputs`` and ``targets`` are the units of raw data. Users pass and receive raw units
    (`predict`, `log_joint`); methods see batches in standard units (`prepare`, `loss`).
    """

    network: Network
    likelihood: Likelihood
    prior: Prior
    inputs: Standardise | None = None
    targets: Standardise | None = None

    def __init__(
        self,
        network: Network,
        likelihood: Likelihood,
        *,
        prior: Prior | None = None,
        weight_decay: float | None = None,
        inputs: Standardise | None = None,
        targets: Standardise | None = None,
        trainable: Filter | None = None,
        frozen: Any = None,
    ):
        if not isinstance(network, Network):
            raise InputError(
                f"network is a {type(network).__name__}; it must have init(key, x) and "
                "apply(variables, x): see credax.networks, or credax.adapters for other libraries"
            )
        if not isinstance(likelihood, Likelihood):
            raise InputError(
                f"likelihood is {likelihood!r}; use Categorical(), Bernoulli(), Gaussian(), "
                "HeteroscedasticGaussian() or another of credax.likelihood, or an object of a "
                "class of your own that derives from credax.Likelihood"
            )
        if prior is not None and weight_decay is not None:
            raise InputError(
                "prior and weight_decay are both given; weight decay is a prior: drop one"
            )
        if (trainable is None) != (frozen is None):
            raise InputError(
                "trainable and frozen go together: which parameters are trained, and the values "
                "of all others (Variables, or a population such as credax.adopt gives)"
            )
        if trainable is not None:
            network = freeze(network, _one_member(frozen), trainable)
        if targets is not None and likelihood.raw_targets:
            raise InputError(
                f"targets is given and {type(likelihood).__name__} takes targets as they are; "
                "leave targets out"
            )
        self.network = likelihood.adapt(network)
        self.likelihood = likelihood
        self.prior = prior if prior is not None else GaussianPrior(weight_decay=weight_decay or 0.0)
        self.inputs = inputs
        self.targets = targets

    def with_units(self, inputs: Standardise | None, targets: Standardise | None) -> "Problem":
        """The same problem in the data's units, unless it already has units of its own.

        A likelihood of counts takes targets as they are: units of targets are left out.
        """
        targets = None if self.likelihood.raw_targets else targets
        fill = lambda mine, theirs: theirs if mine is None else mine  # noqa: E731
        return eqx.tree_at(
            lambda p: (p.inputs, p.targets),
            self,
            (fill(self.inputs, inputs), fill(self.targets, targets)),
            is_leaf=lambda leaf: leaf is None,
        )

    def with_network(self, change: Callable[[Network], Network]) -> "Problem":
        """The same problem with another network, made of the one it was given."""
        inner: Any = self.network
        inner = inner.network if self.likelihood.learns else inner
        return eqx.tree_at(lambda p: p.network, self, self.likelihood.adapt(change(inner)))

    def traced(self) -> "Problem":
        """The same problem with arrays for the prior's strength and the noise level.

        Compiled programs take arrays as arguments, so that a sweep over them compiles once.
        """
        prior: Any = self.prior.traced() if isinstance(self.prior, TracedPrior) else self.prior
        return eqx.tree_at(
            lambda p: (p.likelihood, p.prior), self, (self.likelihood.traced(), prior)
        )

    def with_stored_units(self, **units: dict[str, Any] | None) -> "Problem":
        """The problem in the units of a file; units of its own must be the same ones."""
        stored = {name: None if u is None else Standardise(**u) for name, u in units.items()}
        for name, unit in stored.items():
            own = getattr(self, name)
            if own is not None and not (unit is not None and own.same_as(unit)):
                raise InputError(
                    f"{name} of the problem standardise otherwise than the file says, so the "
                    "network would see other numbers than in training; leave the problem's "
                    f"{name} out: the file's are used"
                )
        return self.with_units(**stored)

    def init(self, key: Key[Array, ""], x: Any) -> Variables:
        """Variables of one member for raw inputs shaped like ``x``."""
        return self.network.init(key, jax.eval_shape(self.prepare_inputs, x))

    def prepare_inputs(self, x) -> Array:
        """Raw inputs in the units the network sees."""
        if self.inputs is not None:
            return self.inputs(x)
        x = jnp.asarray(x)
        return x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(jnp.float32)

    def prepare(self, x, y, weight=None) -> Batch:
        """Raw rows as a batch in standard units."""
        weight = jnp.ones(len(y), jnp.float32) if weight is None else weight
        y = y if self.targets is None else self.targets(y)
        return Batch(self.prepare_inputs(x), y, weight)

    def outputs(self, variables: Variables, x, *, key=None, train=False) -> tuple[Array, PyTree]:
        """The network's outputs for inputs in standard units, and the new state."""
        return self.network.apply(variables, x, key=key, train=train)

    def negative_log_likelihood(self, outputs: Array, batch: Batch) -> Float[Array, ""]:
        """Weighted mean of ``-log p(y)`` over the batch."""
        log_prob = self.likelihood.log_prob(outputs, batch.y)
        return -jnp.sum(batch.weight * log_prob) / jnp.sum(batch.weight)

    def weights(self, params: PyTree) -> PyTree:
        """The parameters that the prior covers: all but a learned noise level."""
        return self.likelihood.weights(params)

    def loss(
        self, variables: Variables, batch: Batch, *, num_data: int, key=None, train: bool = True
    ) -> tuple[Float[Array, ""], PyTree]:
        """Mean loss on a batch in standard units, and the network's new state."""
        outputs, state = self.outputs(variables, batch.x, key=key, train=train)
        penalty = self.prior.penalty(self.weights(variables.params), num_data=num_data)
        return self.negative_log_likelihood(outputs, batch) + penalty, state

    def log_joint(self, variables: Variables, x, y, *, num_data: int) -> Float[Array, ""]:
        """``log p(θ) + N/B Σ log p(y|x,θ)`` for raw rows: an unbiased minibatch estimate.

        Targets are measured in standard units, as in training; in evaluation mode.
        """
        batch = self.prepare(x, y)
        outputs, _ = self.outputs(variables, batch.x)
        log_likelihood = -num_data * self.negative_log_likelihood(outputs, batch)
        prior = self.prior.log_prob(self.weights(variables.params), num_data=num_data)
        return log_likelihood + prior

    def predict(self, outputs: Float[Array, "members batch *grid outputs"]) -> Prediction:
        """The prediction of a population's outputs, in raw units."""
        prediction = self.likelihood.predict(outputs)
        if self.targets is None or not isinstance(prediction, RegressionPrediction):
            return prediction
        return prediction.in_units(
            jnp.atleast_1d(self.targets.mean), jnp.atleast_1d(self.targets.scale)
        )

    def check(self, x: np.ndarray, y: np.ndarray) -> None:
        """Raise an error if rows cannot be used: empty, NaN, labels out of range, bad shape."""
        if len(x) == 0:
            raise InputError("x has no rows; training needs at least one")
        if len(x) != len(y):
            raise InputError(f"x has {len(x)} rows and y has {len(y)}; give one target per row")
        check_inputs(x)
        check_digits(x, "x")
        example = jax.ShapeDtypeStruct((1, *x.shape[1:]), np.asarray(x[:1]).dtype)
        try:
            variables = jax.eval_shape(self.init, jax.random.key(0), example)
            prepared = jax.eval_shape(self.prepare_inputs, example)
            outputs = output_struct(self.network, variables, prepared)
        except (TypeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            reason = str(error).strip().splitlines()[0]
            raise InputError(
                f"the network cannot take inputs of shape {tuple(x.shape[1:])}: {reason}"
            ) from error
        self.likelihood.check_shapes(np.asarray(y), tuple(outputs.shape))
        if self.likelihood.task == "regression":
            counted = self.likelihood.counted(np.asarray(y))
            check_range(counted, "y")
            check_digits(counted, "y")
        if self.targets is not None:
            check_scale(self.targets)


def _one_member(frozen: Any) -> Any:
    """Variables of one network: as given, or of a population with one member."""
    if isinstance(frozen, Variables):
        return frozen
    variables: Any = getattr(frozen, "variables", None)
    if not isinstance(variables, Variables):
        raise InputError(
            f"frozen is a {type(frozen).__name__}; give Variables, or a population of one member"
        )
    if frozen.num_members != 1:
        raise InputError(
            f"frozen has {frozen.num_members} members; take one of them: population.take([0])"
        )
    one = jax.tree.map(lambda leaf: leaf[0], variables)
    learned = frozen.problem.likelihood
    return Variables(learned.weights(one.params), one.state)


def check_inputs(x: np.ndarray, name: str = "x", block: int = 4096) -> None:
    """Raise an error that names the first row of ``x`` that is not finite."""
    x = np.asarray(x) if not isinstance(x, np.ndarray) else x
    if x.dtype.kind in "iub":
        return
    if x.dtype.kind != "f":
        raise InputError(f"{name} has type {x.dtype}; inputs are numbers (floats or integers)")
    for start in range(0, len(x), block):
        finite = (
            np.isfinite(x[start : start + block]).reshape(len(x[start : start + block]), -1).all(1)
        )
        if not finite.all():
            row = start + int(np.argmin(finite))
            raise InputError(f"{name} holds NaN or infinity in row {row}; clean or drop that row")
    check_range(x, name)
