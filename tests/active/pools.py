"""Pools whose predictions are given: a posterior that looks rows up."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from credax.active import Candidates
from credax.prediction import ClassPrediction


class Table:
    """A posterior of given log-probabilities ``[members, rows, classes]``; x is a row's number."""

    def __init__(self, log_probs):
        self.log_probs = np.asarray(log_probs)

    def predict(self, x, *, key=None, batch_size=None):
        """The members' predictions of rows by number."""
        return ClassPrediction(jnp.asarray(self.log_probs[:, np.asarray(x)[:, 0].astype(int)]))


def table(probs, **options) -> Candidates:
    """Candidates of given probabilities ``[members, rows, classes]``."""
    with np.errstate(divide="ignore"):
        return of_logs(np.log(np.asarray(probs)), **options)


def of_logs(log_probs, **options) -> Candidates:
    """Candidates of given log-probabilities."""
    posterior: Any = Table(log_probs)
    return Candidates(posterior, np.arange(log_probs.shape[1])[:, None], **options)
