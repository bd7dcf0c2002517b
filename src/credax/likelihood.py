"""How outputs become a density of the target, and what a prediction is.

Targets and outputs are in standard units here (see `credax.standardise`); `Problem` converts.
"""

from typing import Any, Literal, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Integer

from credax.errors import InputError
from credax.network import Network, Variables
from credax.prediction import ClassPrediction, GaussianPrediction, Prediction

VARIANCE_FLOOR = 1e-6
_LOG_2PI = float(np.log(2 * np.pi))


@runtime_checkable
class Likelihood(Protocol):
    """Log-density of ``y`` given a network's outputs, and the prediction they stand for."""

    task: Literal["classification", "regression"]

    def num_outputs(self, targets: int) -> int:
        """Outputs the network must have for so many classes or regression targets."""
        ...

    def adapt(self, network: Network) -> Network:
        """The network with whatever parameters the likelihood itself learns."""
        ...

    def log_prob(self, outputs: Array, y: Array) -> Float[Array, " batch"]:
        """Log-density of each row's target."""
        ...

    def predict(self, outputs: Float[Array, "members batch outputs"]) -> Prediction:
        """The mixture prediction of a population's outputs."""
        ...

    def check(self, y: np.ndarray, outputs: int) -> None:
        """Raise an error if targets do not fit this likelihood and this many outputs."""
        ...


class Categorical(eqx.Module):
    """Classes by softmax: ``log p(y) = outputs_y - logsumexp(outputs)``.

    >>> float(Categorical().log_prob(jnp.zeros((1, 4)), jnp.array([2]))[0])
    -1.3862943649291992
    """

    task = "classification"

    def num_outputs(self, targets: int) -> int:
        """One output per class."""
        return targets

    def adapt(self, network: Network) -> Network:
        """Unchanged: nothing of its own is learned."""
        return network

    def log_prob(
        self, outputs: Float[Array, "batch classes"], y: Integer[Array, " batch"]
    ) -> Array:
        """Log-probability of each label."""
        return jnp.take_along_axis(jax.nn.log_softmax(outputs), y[:, None], axis=-1)[:, 0]

    def predict(self, outputs: Float[Array, "members batch classes"]) -> ClassPrediction:
        """Mixture of the members' softmax probabilities."""
        return ClassPrediction.from_logits(outputs)

    def check(self, y: np.ndarray, outputs: int) -> None:
        """Labels must be integers in ``0 .. outputs - 1``, one per row."""
        _check_labels(y, outputs)


class Bernoulli(eqx.Module):
    """Two classes by one logit: ``p(1) = sigmoid(output)``; the prediction has both classes."""

    task = "classification"

    def num_outputs(self, targets: int) -> int:
        """One logit, whatever is asked; more than two classes are refused by `check`."""
        return 1

    def adapt(self, network: Network) -> Network:
        """Unchanged: nothing of its own is learned."""
        return network

    def log_prob(self, outputs: Float[Array, "batch 1"], y: Integer[Array, " batch"]) -> Array:
        """Log-probability of each label, 0 or 1."""
        logit = outputs[..., 0]
        return jnp.where(y == 1, jax.nn.log_sigmoid(logit), jax.nn.log_sigmoid(-logit))

    def predict(self, outputs: Float[Array, "members batch 1"]) -> ClassPrediction:
        """Mixture over members, classes 0 and 1."""
        return ClassPrediction(
            jnp.concatenate([jax.nn.log_sigmoid(-outputs), jax.nn.log_sigmoid(outputs)], axis=-1)
        )

    def check(self, y: np.ndarray, outputs: int) -> None:
        """Labels must be 0 or 1 and the network must have one output."""
        if outputs != 1:
            raise InputError(
                f"the network has {outputs} outputs; Bernoulli needs one logit: "
                "give it one output, or use Categorical"
            )
        _check_labels(y, 2)


class Gaussian(eqx.Module):
    """Regression with one noise level: ``y ~ N(outputs, noise²)``, noise in standard units.

    ``noise`` is a standard deviation, or ``"learned"``: then one number per target is learned with
    the network, starting at ``initial``, outside the prior.

    >>> round(float(Gaussian(0.5).log_prob(jnp.zeros((1, 1)), jnp.array([1.0]))[0]), 6)
    -2.225791
    """

    noise: float | Literal["learned"] = "learned"
    initial: float = 1.0

    task = "regression"

    def __check_init__(self):
        if self.noise != "learned" and not float(self.noise) > 0:
            raise InputError(f"noise is {self.noise}; give a positive number or 'learned'")
        if not self.initial**2 > VARIANCE_FLOOR:
            raise InputError(f"initial is {self.initial}; give a positive standard deviation")

    def num_outputs(self, targets: int) -> int:
        """One output per target."""
        return targets

    def adapt(self, network: Network) -> Network:
        """With learned noise: the network and the noise, learned together."""
        return LearnedNoise(network, self.initial) if self.noise == "learned" else network

    def log_prob(self, outputs: Array, y: Float[Array, "batch *targets"]) -> Array:
        """Log-density of each row, summed over targets."""
        mean, variance = self._moments(outputs)
        return _log_normal(mean, variance, y)

    def predict(self, outputs: Float[Array, "members batch outputs"]) -> GaussianPrediction:
        """Mixture of Gaussians, the noise as aleatoric variance."""
        return GaussianPrediction(*self._moments(outputs))

    def check(self, y: np.ndarray, outputs: int) -> None:
        """One output per target, all targets finite."""
        _check_targets(y, outputs // 2 if self.noise == "learned" else outputs)

    def _moments(self, outputs):
        if self.noise == "learned":
            return _mean_and_variance(outputs)
        return outputs, jnp.full_like(outputs, float(self.noise) ** 2)


class HeteroscedasticGaussian(eqx.Module):
    """Regression whose noise depends on the input; the network has two outputs per target.

    The first half of the outputs is the mean, the second half ``raw`` with variance
    ``softplus(raw) + 1e-6`` (Lakshminarayanan et al. 2017).
    """

    task = "regression"

    def num_outputs(self, targets: int) -> int:
        """A mean and a raw variance for each target."""
        return 2 * targets

    def adapt(self, network: Network) -> Network:
        """Unchanged: nothing of its own is learned."""
        return network

    def log_prob(self, outputs: Array, y: Float[Array, "batch *targets"]) -> Array:
        """Log-density of each row, summed over targets."""
        return _log_normal(*_mean_and_variance(outputs), y)

    def predict(self, outputs: Float[Array, "members batch outputs"]) -> GaussianPrediction:
        """Mixture of the members' Gaussians."""
        return GaussianPrediction(*_mean_and_variance(outputs))

    def check(self, y: np.ndarray, outputs: int) -> None:
        """Two outputs per target, all targets finite."""
        if outputs % 2:
            raise InputError(
                f"the network has {outputs} outputs; HeteroscedasticGaussian needs two per target "
                "(mean and raw variance)"
            )
        _check_targets(y, outputs // 2)


class LearnedNoise(eqx.Module):
    """A network and one learned raw variance per target, appended to its outputs."""

    network: Network
    initial: float = 1.0

    def init(self, key, x) -> Variables:
        """The network's variables under ``network`` and the raw variances under ``noise``."""
        variables = self.network.init(key, x)
        outputs = jax.eval_shape(lambda v, a: self.network.apply(v, a)[0], variables, x)
        raw = np.log(np.expm1(self.initial**2 - VARIANCE_FLOOR))
        noise = jnp.full(outputs.shape[-1:], raw, outputs.dtype)
        return Variables({"network": variables.params, "noise": noise}, variables.state)

    def apply(self, variables, x, *, key=None, train=False) -> tuple[Array, Any]:
        """The network's outputs followed by the raw variances."""
        inner = Variables(variables.params["network"], variables.state)
        outputs, state = self.network.apply(inner, x, key=key, train=train)
        noise = jnp.broadcast_to(variables.params["noise"], outputs.shape)
        return jnp.concatenate([outputs, noise], axis=-1), state


def _mean_and_variance(outputs):
    mean, raw = jnp.split(outputs, 2, axis=-1)
    return mean, jax.nn.softplus(raw) + VARIANCE_FLOOR


def _log_normal(mean, variance, y):
    y = y.reshape(mean.shape)
    terms = _LOG_2PI + jnp.log(variance) + jnp.square(y - mean) / variance
    return -0.5 * jnp.sum(terms, axis=-1)


def _check_labels(y: np.ndarray, classes: int) -> None:
    y = np.asarray(y)
    if y.ndim != 1 or not np.issubdtype(y.dtype, np.integer):
        raise InputError(
            f"y has shape {y.shape} and type {y.dtype}; labels are integers, one per row"
        )
    if len(y) and (y.min() < 0 or y.max() >= classes):
        raise InputError(
            f"y holds labels from {y.min()} to {y.max()}; with {classes} classes they must lie in "
            f"0 to {classes - 1}"
        )


def _check_targets(y: np.ndarray, targets: int) -> None:
    y = np.asarray(y)
    width = int(np.prod(y.shape[1:], dtype=int))
    if y.ndim > 2 or width != targets:
        raise InputError(
            f"y has shape {y.shape}; {targets} target(s) per row are predicted, so y must be "
            f"[rows, {targets}]" + (" or [rows]" if targets == 1 else "")
        )
    if not np.issubdtype(y.dtype, np.number) or not np.all(np.isfinite(y)):
        row = (
            int(np.argmin(np.isfinite(y.reshape(len(y), -1)).all(1))) if y.dtype.kind == "f" else 0
        )
        raise InputError(f"y is not a finite number in row {row}; clean or drop that row")
