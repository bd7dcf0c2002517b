"""Platt scaling and beta calibration: smooth maps of one probability, for two classes."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from credax.calibration.inputs import (
    calibrated,
    chosen_logs,
    class_arrays,
    member_shares,
    require_two_classes,
)
from credax.calibration.mixture_nll import minimise, mixture_nll, warn_if_undetermined
from credax.calibration.protocol import ApplyTo, as_apply_to
from credax.prediction import ClassPrediction


class FittedBinary(eqx.Module):
    """``p(1) = σ(a log p - b log(1-p) + c)`` with ``p`` the probability of class 1."""

    a: float
    b: float
    c: float
    apply_to: ApplyTo = "members"

    def __call__(self, prediction: ClassPrediction) -> ClassPrediction:
        """The calibrated prediction; jit-able."""
        require_two_classes(prediction, "this calibrator")
        logs = chosen_logs(prediction, self.apply_to)
        return calibrated(prediction, self.apply_to, _two_classes(logs, self.a, self.b, self.c))


@jax.jit
def _two_classes(logs, a, b, c):
    odds = a * logs[..., 1] - b * logs[..., 0] + c
    return jnp.stack([jax.nn.log_sigmoid(-odds), jax.nn.log_sigmoid(odds)], axis=-1)


class Beta(eqx.Module):
    """``σ(a log p - b log(1-p) + c)`` with ``a, b >= 0``: exact if the scores are beta distributed.

    Contains the identity (``a = b = 1, c = 0``), unlike Platt's map of probabilities. Minimises the
    mixture's NLL by L-BFGS-B from the identity, float64 on the host.
    Reference: M. Kull, T. Silva Filho and P. Flach, Beta calibration, AISTATS 2017.
    """

    apply_to: ApplyTo = eqx.field(default="members", converter=as_apply_to)

    def fit(self, prediction: ClassPrediction, y: Any, *, key: Any = None) -> FittedBinary:
        """The three numbers for labels ``y`` ``[batch]`` of 0 and 1; ``key`` is not needed."""
        del key
        return _fit_binary("'beta'", prediction, y, np.eye(3), self.apply_to)


class Platt(eqx.Module):
    """``σ(a z + b)`` of the log-odds ``z = log p - log(1-p)``, with ``a >= 0``.

    The likelihood of the labels themselves is maximised, without Platt's smoothed targets. Beta
    calibration with ``a = b``. Reference: J. Platt, Advances in Large Margin Classifiers, 1999.
    """

    apply_to: ApplyTo = eqx.field(default="members", converter=as_apply_to)

    def fit(self, prediction: ClassPrediction, y: Any, *, key: Any = None) -> FittedBinary:
        """Slope and offset for labels ``y`` ``[batch]`` of 0 and 1; ``key`` is not needed."""
        del key
        tied = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
        return _fit_binary("'platt'", prediction, y, tied, self.apply_to)


def _fit_binary(name, prediction, y, free, apply_to) -> FittedBinary:
    """Fit ``(a, b, c) = parameters @ free``; the last parameter is the offset."""
    require_two_classes(prediction, name)
    logs, y = class_arrays(prediction, y, apply_to, name)
    shares = member_shares(prediction, apply_to)
    features = np.stack([logs[1], -logs[0], np.ones_like(logs[0])])
    features = np.einsum("pf,fmn->pmn", free, features)

    def objective(parameters):
        odds = np.einsum("p,pmn->mn", parameters, features)
        value, gradient = mixture_nll(np.stack([np.zeros_like(odds), odds]), y, shares)
        return value, np.einsum("pmn,mn->p", features, gradient[1])

    start = np.append(np.ones(len(free) - 1), 0.0)
    bounds = [(0.0, None)] * (len(free) - 1) + [(None, None)]
    best, loss = minimise(objective, start, 1e-10, bounds)
    warn_if_undetermined(name, y, 2, loss)
    a, b, c = (best @ free).tolist()
    return FittedBinary(a, b, c, apply_to)
