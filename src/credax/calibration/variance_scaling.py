"""Variance scaling: one factor per target of a regression's standard deviation."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from credax.calibration.inputs import as_columns, require_numbers
from credax.calibration.protocol import ApplyTo, as_apply_to
from credax.errors import InputError
from credax.metrics.checks import check
from credax.mixing import member_mean, member_variance
from credax.prediction import GaussianPrediction


class VarianceScaling(eqx.Module):
    """``σ → s σ`` with ``s² = mean (y - μ)² / variance``, closed form, for each target.

    ``μ`` and the variance are those of the mixture, and ``s`` is the maximum of the likelihood of
    one Gaussian with them. ``apply_to="members"`` stretches the mixture about its mean (the
    members' distances to the mean and their standard deviations, all by ``s``), so the epistemic
    share stays; ``"mixture"`` returns that one Gaussian. Float64 on the host.
    Reference: M. Laves et al., MIDL 2020.

    >>> p = GaussianPrediction(np.zeros((1, 2, 1)), np.ones((1, 2, 1)))
    >>> VarianceScaling().fit(p, np.array([1.0, 7.0])).scale.tolist()
    [5.0]
    """

    apply_to: ApplyTo = eqx.field(default="members", converter=as_apply_to)

    def fit(self, prediction: GaussianPrediction, y: Any, *, key: Any = None) -> "VarianceScale":
        """The factors for targets ``y`` ``[batch]`` or ``[batch, targets]``; no ``key`` needed."""
        del key
        require_numbers(prediction, "'variance-scaling'")
        y = np.asarray(y)
        check(prediction, y)
        means = np.asarray(prediction.means, np.float64)
        variances = np.asarray(prediction.variances, np.float64)
        if prediction.weights is None:
            mean, variance = means.mean(axis=0), np.mean(variances, axis=0) + means.var(axis=0)
        else:
            mean = np.average(means, axis=0, weights=prediction.weights)
            second = np.square(means - mean) + variances
            variance = np.average(second, axis=0, weights=prediction.weights)
        squares = np.square(as_columns(y, prediction) - mean) / variance
        scale = np.sqrt(squares.mean(axis=0))
        if not scale.all():
            raise InputError(
                "every calibration row is predicted without any error, so its variance would be "
                "scaled to zero; give rows that the network was not trained on"
            )
        return VarianceScale(scale, self.apply_to)


class VarianceScale(eqx.Module):
    """The fitted factor of each target's standard deviation."""

    scale: Float[np.ndarray, " targets"]
    apply_to: ApplyTo = "members"

    def __call__(self, prediction: GaussianPrediction) -> GaussianPrediction:
        """The prediction with its standard deviation scaled; jit-able."""
        require_numbers(prediction, "'variance-scaling'", len(self.scale))
        means, variances = jnp.asarray(prediction.means), jnp.asarray(prediction.variances)
        scale = jnp.asarray(self.scale, means.dtype)
        weights = prediction.weights
        centre = member_mean(means, weights)[None]
        if self.apply_to == "members":
            own = prediction.function_variances
            scaled = None if own is None else scale**2 * jnp.asarray(own)
            return GaussianPrediction(
                centre + scale * (means - centre), scale**2 * variances, scaled, weights=weights
            )
        total = member_mean(variances, weights) + member_variance(means, weights)
        return GaussianPrediction(centre, scale**2 * total[None])
