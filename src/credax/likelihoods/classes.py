"""Likelihoods of classes: a softmax of several logits, or the sigmoid of one."""

from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Integer
from scipy.special import logsumexp

from credax.errors import InputError
from credax.likelihoods.base import Likelihood
from credax.likelihoods.checks import check_labels
from credax.prediction import ClassPrediction

SCALES = np.geomspace(1.0, 200.0, 80)
"""Factors from regressed outputs to logits that are tried."""


class Softmax(Likelihood):
    """Abstract: likelihoods and objectives whose outputs are the logits of a softmax."""

    task: ClassVar[Literal["classification", "regression"]] = "classification"
    has_logits: ClassVar[bool] = True

    def predict(self, outputs: Float[Array, "members batch *grid classes"]) -> ClassPrediction:
        """Mixture of the members' softmax probabilities."""
        return ClassPrediction.from_logits(outputs)

    def check(self, y: np.ndarray, outputs: int) -> None:
        """Labels must be integers in ``0 .. outputs - 1``, one per row."""
        check_labels(y, outputs)

    def compared(self, outputs, *, raw):
        """Probabilities, or logits."""
        return outputs if raw else jax.nn.softmax(outputs, axis=-1)

    def centres(self, outputs, y):
        """The logit of the label."""
        return jnp.take_along_axis(outputs, y[:, None], axis=-1)

    def logit_difference(self, outputs):
        """The second logit minus the first; None where there are more classes."""
        return outputs[:, 1] - outputs[:, 0] if outputs.shape[-1] == 2 else None


class Categorical(Softmax):
    """Classes by softmax: ``log p(y) = outputs_y - logsumexp(outputs)``.

    >>> float(Categorical().log_prob(jnp.zeros((1, 4)), jnp.array([2]))[0])
    -1.3862943649291992
    """

    has_squared_error: ClassVar[bool] = True

    def log_prob(
        self, outputs: Float[Array, "batch classes"], y: Integer[Array, " batch"]
    ) -> Array:
        """Log-probability of each label."""
        return jnp.take_along_axis(jax.nn.log_softmax(outputs), y[:, None], axis=-1)[:, 0]

    def curvature_root(self, params, outputs, y):
        """``diag(√p) - p √pᵀ``."""
        root = jnp.sqrt(jax.nn.softmax(outputs))
        return jnp.diag(root) - jnp.outer(root**2, root)

    def regressed(self, y, outputs):
        """Centred one-hot labels."""
        return np.eye(outputs)[np.asarray(y)] - 1 / outputs

    def best_scale(self, found, targets):
        """The factor to logits with the best leave-one-out likelihood."""
        label = np.argmax(targets, axis=1)
        right = found[np.arange(len(found)), label]
        loss = [np.mean(logsumexp(s * found, axis=1) - s * right) for s in SCALES]
        return float(SCALES[np.argmin(loss)])

    def from_regressed(self, outputs, scale):
        """Logits."""
        return scale * outputs


class Bernoulli(Likelihood):
    """Two classes by one logit: ``p(1) = sigmoid(output)``; the prediction has both classes."""

    task: ClassVar[Literal["classification", "regression"]] = "classification"
    has_squared_error: ClassVar[bool] = True
    has_logits: ClassVar[bool] = True

    def num_outputs(self, targets: int) -> int:
        """One logit, whatever is asked; more than two classes are refused by `check`."""
        return 1

    def log_prob(self, outputs: Float[Array, "batch 1"], y: Integer[Array, " batch"]) -> Array:
        """Log-probability of each label, 0 or 1."""
        logit = outputs[..., 0]
        return jnp.where(y == 1, jax.nn.log_sigmoid(logit), jax.nn.log_sigmoid(-logit))

    def predict(self, outputs: Float[Array, "members batch *grid 1"]) -> ClassPrediction:
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
        check_labels(y, 2)

    def curvature_root(self, params, outputs, y):
        """``√(p (1 - p))``."""
        return jnp.diag(jnp.sqrt(jax.nn.sigmoid(outputs) * jax.nn.sigmoid(-outputs)))

    def compared(self, outputs, *, raw):
        """The probability of class 1, or its logit."""
        return outputs if raw else jax.nn.sigmoid(outputs)

    def logit_difference(self, outputs):
        """The logit."""
        return outputs[:, 0]

    def regressed(self, y, outputs):
        """``±1/2``."""
        return np.asarray(y, np.float64)[:, None] - 0.5

    def best_scale(self, found, targets):
        """The factor to the logit with the best leave-one-out likelihood."""
        margin = np.sign(targets[:, 0]) * found[:, 0]
        loss = [np.mean(np.logaddexp(0, -s * margin)) for s in SCALES]
        return float(SCALES[np.argmin(loss)])

    def from_regressed(self, outputs, scale):
        """Logits."""
        return scale * outputs
