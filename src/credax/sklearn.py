"""scikit-learn estimators: any method and network of credax in pipelines and searches."""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from credax import methods, networks
from credax.calibration import conformalise
from credax.data.dataset import Split
from credax.errors import InputError, MissingExtra
from credax.fitting import fit
from credax.likelihood import Categorical, HeteroscedasticGaussian
from credax.network import Network
from credax.problem import Problem
from credax.standardise import Standardise
from credax.training.config import Training

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin, RegressorMixin
    from sklearn.model_selection import train_test_split
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise MissingExtra("scikit-learn", "sklearn", "credax.sklearn") from error

ROWS = 64
"""Rows predicted at once. Always this many, so that a row's prediction has the same bits alone."""


class _Estimator(BaseEstimator):
    """What both estimators share; the parameters are explained there."""

    def __init__(
        self,
        method: Any = "deep-ensemble",
        *,
        members: int | None = 5,
        network: str | Network | Callable[[int], Network] = "mlp",
        network_options: dict[str, Any] | None = None,
        likelihood: Any = None,
        weight_decay: float = 1e-4,
        epochs: int = 100,
        batch_size: int = 32,
        learning_rate: float = 0.01,
        training: Training | None = None,
        calibration: float = 0.0,
        random_state: Any = None,
        verbose: bool = False,
    ):
        self.method = method
        self.members = members
        self.network = network
        self.network_options = network_options
        self.likelihood = likelihood
        self.weight_decay = weight_decay
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.training = training
        self.calibration = calibration
        self.random_state = random_state
        self.verbose = verbose

    def predict_distribution(self, X) -> Any:
        """The mixture of all members: `credax.Prediction`, with every uncertainty it has."""
        check_is_fitted(self)
        rows: Any = validate_data(self, X, reset=False, dtype=np.float64)
        return _predict(self.posterior_, rows)

    def _fit(self, X, y, targets: int, likelihood: Any, units: Standardise | None, strata: Any):
        """Train on prepared targets; sets ``posterior_`` and what conformal sets need."""
        if not 0 <= self.calibration < 1:
            raise InputError(
                f"calibration is {self.calibration}; give the share of the rows held out, in [0, 1)"
            )
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        held_out = None
        if self.calibration:
            parts: list[Any] = train_test_split(
                X, y, test_size=self.calibration, random_state=seed, stratify=strata
            )
            X, kept, y, labels = parts
            held_out = kept, labels
        network = self._network(likelihood.num_outputs(targets))
        problem = Problem(network, likelihood, weight_decay=self.weight_decay)
        rows = Split(X, y, Standardise.of(X), units)
        self.posterior_ = fit(
            problem,
            self._method(),
            rows,
            key=seed,
            training=self._training(len(X)),
            progress=None if self.verbose else False,
        )
        self.calibration_ = None
        if held_out is not None:
            kept, labels = held_out
            self.calibration_ = _predict(self.posterior_, kept), labels
        return self

    def _method(self) -> Any:
        if not isinstance(self.method, str):
            return self.method
        record = methods.get(self.method)()
        takes = "members" in {f.name for f in dataclasses.fields(record)}
        return (
            dataclasses.replace(record, members=self.members) if takes and self.members else record
        )

    def _network(self, outputs: int) -> Network:
        options = self.network_options or {}
        if isinstance(self.network, str):
            return networks.build(self.network, outputs, **options)
        if isinstance(self.network, Network) and not inspect.isclass(self.network):
            return self.network
        if callable(self.network):
            return self.network(outputs, **options)
        raise InputError(
            f"network is {self.network!r}; give a name (credax list networks), a network, or a "
            "function of the number of outputs"
        )

    def _training(self, rows: int) -> Training:
        if self.training is not None:
            return self.training
        return Training(
            epochs=self.epochs,
            batch_size=min(self.batch_size, rows),
            optimiser="adam",
            learning_rate=self.learning_rate,
            last_batch="pad",
        )


class Classifier(ClassifierMixin, _Estimator):
    """Any credax method as a scikit-learn classifier.

    ``predict_proba`` is the mixture of all members; `predict_distribution` has the rest: members,
    total, aleatoric and epistemic uncertainty.

    Args:
        method: a name (``credax list methods``) or a record, such as ``credax.SWAG(modes=3)``.
        members: members of a method given by name that has them.
        network: a name (``credax list networks``), a network, or a function of the number of
            outputs that makes one; ``network_options`` go to names and functions.
        likelihood: by default `Categorical`; the regressor's is `HeteroscedasticGaussian`.
        weight_decay: of the mean loss: a Gaussian prior.
        epochs, batch_size, learning_rate: of Adam with a cosine schedule; ``training``, a
            `credax.Training`, replaces them all.
        calibration: share of the rows held out, on which sets and intervals are made conformal.
        random_state: seed, as everywhere in scikit-learn.
        verbose: show the progress.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> classifier = Classifier("single", epochs=20, random_state=0).fit(X, y)
    >>> classifier.score(X, y) > 0.9
    True
    """

    def fit(self, X, y) -> "Classifier":
        """Train on rows ``X`` and labels ``y`` of any type."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y has one class only, {self.classes_[0]!r}; a classifier needs at least two"
            )
        codes = codes.astype(np.int32)
        likelihood = Categorical() if self.likelihood is None else self.likelihood
        return self._fit(X, codes, len(self.classes_), likelihood, None, codes)

    def predict_proba(self, X) -> Float[np.ndarray, "rows classes"]:
        """Probability of each of ``classes_``."""
        probs = np.asarray(self.predict_distribution(X).probs, np.float64)
        return probs / probs.sum(axis=1, keepdims=True)

    def predict(self, X) -> np.ndarray:
        """The most probable class."""
        most = np.argmax(self.predict_proba(X), axis=1)
        return self.classes_[most]

    def predict_set(self, X, level: float = 0.9) -> Bool[np.ndarray, "rows classes"]:
        """Which of ``classes_`` are in each row's set of at least the given ``level``.

        With ``calibration`` the sets are conformal (APS): they hold the true class with that
        probability. Without, they are the most probable classes until the stated probabilities add
        up to the level, and are as good as these probabilities.
        """
        _check_level(level)
        prediction = self.predict_distribution(X)
        if self.calibration_ is not None:
            own, labels = self.calibration_
            fitted: Any = conformalise(own, labels, alpha=1 - level, method="aps", key=0)
            return fitted(prediction)
        probs = np.asarray(prediction.probs, np.float64)
        order = np.argsort(-probs, axis=1, kind="stable")
        ranked = np.take_along_axis(probs, order, axis=1)
        before = np.cumsum(ranked, axis=1) - ranked
        inside = np.zeros(probs.shape, bool)
        np.put_along_axis(inside, order, before < level, axis=1)
        return inside


class Regressor(MultiOutputMixin, RegressorMixin, _Estimator):
    """Any credax method as a scikit-learn regressor, for one target or several.

    The parameters are those of `Classifier`.

    >>> X = np.linspace(-1, 1, 80)[:, None]
    >>> regressor = Regressor("single", epochs=200, random_state=0).fit(X, 3 * X[:, 0])
    >>> mean, std = regressor.predict(X, return_std=True)
    >>> bool(abs(mean - 3 * X[:, 0]).max() < 0.5), std.shape
    (True, (80,))
    """

    def fit(self, X, y) -> "Regressor":
        """Train on rows ``X`` and targets ``y`` ``[rows]`` or ``[rows, targets]``."""
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True)
        y = np.asarray(y, np.float64)
        self.single_target_ = y.ndim == 1
        y = y.reshape(len(y), -1)
        likelihood = HeteroscedasticGaussian() if self.likelihood is None else self.likelihood
        return self._fit(X, y, y.shape[1], likelihood, Standardise.of(y), None)

    def predict(self, X, return_std: bool = False):
        """The mean, and with ``return_std`` the predictive standard deviation."""
        prediction = self.predict_distribution(X)
        mean = self._shaped(prediction.mean)
        return (mean, self._shaped(prediction.std)) if return_std else mean

    def predict_interval(self, X, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of central intervals.

        With ``calibration`` they are conformal (residuals over the standard deviation): each target
        lies inside with probability ``level``. Without, they are quantiles of the mixture.
        """
        _check_level(level)
        prediction = self.predict_distribution(X)
        if self.calibration_ is None:
            low, high = prediction.interval(level)
        else:
            own, y = self.calibration_
            fitted: Any = conformalise(own, y, alpha=1 - level, method="normalised")
            low, high = fitted.predict_interval(prediction)
        return self._shaped(low), self._shaped(high)

    def _shaped(self, values: Any) -> np.ndarray:
        values = np.asarray(values, np.float64)
        values = values.reshape(len(values), -1)
        return values[:, 0] if self.single_target_ else values


def _predict(posterior: Any, X: np.ndarray) -> Any:
    """The prediction in batches of one size, so that it does not depend on the other rows."""
    missing = -len(X) % ROWS
    padded = np.concatenate([X, np.repeat(X[-1:], missing, axis=0)])
    return posterior.predict(padded, batch_size=ROWS).select(slice(0, len(X)))


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise InputError(f"level is {level}; it lies strictly between 0 and 1")
