"""Gaussian process regression by Cholesky in float64: evidence, posterior, joint draws."""

from dataclasses import dataclass
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from scipy.linalg import solve_triangular

from credax.errors import InputError
from credax.functions.draws import FEATURES, compiled_prior, draw_keys, normal_of
from credax.functions.kernels import Kernel, as_kernel
from credax.functions.solving import LOG_2PI, Factor, factorise
from credax.problem import check_inputs

MOST_ROWS = 5000
"""Rows beyond which the exact path is refused: three matrices of their square in float64."""
MOST_POINTS = 5000
Joint = Literal["auto", "functions", "points"]

_matrix = eqx.filter_jit(lambda kernel, x1, x2: kernel(x1, x2))
_diagonal = eqx.filter_jit(lambda kernel, x: kernel.diagonal(x))


def gram(kernel: Kernel, x1: np.ndarray, x2: np.ndarray) -> Float[np.ndarray, "first second"]:
    """The kernel's matrix of two batches, computed in float64."""
    with jax.enable_x64(True):
        return np.asarray(_matrix(kernel, jnp.asarray(x1), jnp.asarray(x2)))


def variances(kernel: Kernel, x: np.ndarray) -> Float[np.ndarray, " rows"]:
    """The kernel of every row with itself, computed in float64."""
    with jax.enable_x64(True):
        return np.asarray(_diagonal(kernel, jnp.asarray(x)))


@dataclass(frozen=True)
class GaussianProcess:
    """A prior over functions: values at any points are jointly Gaussian.

    ``f ~ GP(mean, k)`` and ``y = f(x) + ε``, ``ε ~ N(0, noise)``; ``noise`` is a variance. Several
    outputs are independent and share the kernel.

    >>> from credax.functions.kernels import RBF
    >>> x, y = np.array([[-1.0], [0.0], [1.0]]), np.array([0.5, -0.3, 0.8])
    >>> posterior = GaussianProcess(RBF(), noise=0.1).condition(x, y)
    >>> round(posterior.log_evidence, 6), posterior.moments(np.array([[0.5]]))[0].round(6).tolist()
    (-3.740329, [[0.182824]])
    """

    kernel: Kernel
    noise: float = 0.0
    mean: float = 0.0

    def __post_init__(self):
        object.__setattr__(self, "kernel", as_kernel(self.kernel))
        if not 0 <= self.noise < np.inf:
            raise InputError(f"noise is {self.noise}; it is a variance: give a number from 0 on")

    def covariance(self, x1: Any, x2: Any = None) -> Float[np.ndarray, "first second"]:
        """The prior covariance of function values."""
        first = check_points(self.kernel, x1, "x1")
        second = first if x2 is None else check_points(self.kernel, x2, "x2")
        return gram(self.kernel, first, second)

    def condition(
        self, x: Any, y: Any, *, noise: Any = None, most_rows: int = MOST_ROWS
    ) -> "ConditionedProcess":
        """The posterior process given rows; ``noise`` is a variance of each row's own."""
        x = check_points(self.kernel, x, "x")
        check_exact(len(x), most_rows)
        y = np.asarray(y, np.float64)
        y = y[:, None] if y.ndim == 1 else y
        rows = np.full(len(x), self.noise) if noise is None else np.asarray(noise, np.float64)
        if y.ndim != 2 or len(y) != len(x) or rows.shape != (len(x),) or not (rows >= 0).all():
            raise InputError(
                f"x has {len(x)} rows, y has shape {y.shape} and noise {rows.shape}; give one "
                "target, and one variance of at least 0, for each row"
            )
        matrix = gram(self.kernel, x, x).copy()
        matrix[np.diag_indices(len(x))] += rows
        remedy = "raise the noise, drop repeated rows, or shorten the length-scale"
        factor = factorise(matrix, "the Gram matrix", remedy)
        whitened = solve_triangular(factor.lower, y - self.mean, lower=True)
        weights = solve_triangular(factor.lower, whitened, lower=True, trans=1)
        log_determinant = np.log(np.diag(factor.lower)).sum()
        constant = y.shape[1] * (log_determinant + 0.5 * len(x) * LOG_2PI)
        evidence = float(-0.5 * np.sum(whitened**2) - constant)
        return ConditionedProcess(self, x, rows, factor, weights, evidence)

    def functions(
        self,
        key: int | Key[Array, ""],
        n: int,
        x: Any,
        *,
        joint: Joint = "auto",
        features: int = FEATURES,
        outputs: int = 1,
    ) -> Float[np.ndarray, "draws points outputs"]:
        """Draws of functions from the prior at points; see `ConditionedProcess.functions`."""
        x = check_points(self.kernel, x, "x")
        keys = draw_keys(key, n)
        if by_features(self.kernel, joint):
            return self.mean + draw_prior(self.kernel, keys, x, outputs, features)
        return draw_at_points(keys, np.full((len(x), outputs), self.mean), gram(self.kernel, x, x))


@dataclass(frozen=True)
class ConditionedProcess:
    """A Gaussian process given rows: means, covariances and draws of function values."""

    process: GaussianProcess
    x: Float[np.ndarray, "rows columns"]
    noise: Float[np.ndarray, " rows"]
    factor: Factor
    weights: Float[np.ndarray, "rows outputs"]
    """``(K + noise)⁻¹ (y - mean)``."""
    log_evidence: float

    @property
    def jitter(self) -> float:
        """What had to be added to the diagonal for the factor to exist."""
        return self.factor.jitter

    def moments(
        self, x: Any
    ) -> tuple[Float[np.ndarray, "points outputs"], Float[np.ndarray, " points"]]:
        """Mean of the function values and their variance, which all outputs share."""
        x = check_points(self.process.kernel, x, "x")
        cross = gram(self.process.kernel, x, self.x)
        explained = solve_triangular(self.factor.lower, cross.T, lower=True)
        variance = variances(self.process.kernel, x) - np.sum(explained**2, axis=0)
        return self.process.mean + cross @ self.weights, np.maximum(variance, 0.0)

    def covariance(self, x1: Any, x2: Any = None) -> Float[np.ndarray, "first second"]:
        """``K** - K*X (K + noise)⁻¹ KX*``."""
        kernel = self.process.kernel
        first = check_points(kernel, x1, "x1")
        second = first if x2 is None else check_points(kernel, x2, "x2")
        one = solve_triangular(self.factor.lower, gram(kernel, self.x, first), lower=True)
        other = one
        if x2 is not None:
            other = solve_triangular(self.factor.lower, gram(kernel, self.x, second), lower=True)
        return gram(kernel, first, second) - one.T @ other

    def functions(
        self,
        key: int | Key[Array, ""],
        n: int,
        x: Any,
        *,
        joint: Joint = "auto",
        features: int = FEATURES,
    ) -> Float[np.ndarray, "draws points outputs"]:
        """Draws of whole functions from the posterior, at points.

        With ``joint="functions"`` a draw is one function of any input: draw ``i`` of a key has the
        same value at a point in every batch, order and call. A draw ``f`` of the prior is corrected
        by the data (Wilson et al. 2020),

            f(x) + k(x, X) (K + noise)⁻¹ (y - f(X) - ε),

        so mean and covariance are exact; ``f`` has random features, and joint values are Gaussian
        up to order ``1/features``. With ``joint="points"`` values are exactly Gaussian, by a
        Cholesky factor, but belong together only within one call. ``"auto"`` takes functions
        wherever the kernel has features (all but those of tinygp and infinite networks).

        Args:
            key: a seed or a key.
            n: how many functions.
            x: points ``[points, columns]``.
            joint: what a draw is.
            features: random features of each draw.
        """
        kernel = self.process.kernel
        x = check_points(kernel, x, "x")
        keys = draw_keys(key, n)
        if not by_features(kernel, joint):
            return draw_at_points(keys, self.moments(x)[0], self.covariance(x))
        outputs = self.weights.shape[1]
        both = draw_prior(kernel, keys, np.concatenate([self.x, x]), outputs, features)
        known, wanted = both[:, : len(self.x)], both[:, len(self.x) :]
        spread = np.sqrt(self.noise + self.jitter)[:, None]
        error = known + spread * normal_of(keys, 1, known.shape[1:])
        flat = np.moveaxis(error, 1, 0).reshape(len(self.x), -1)
        half = solve_triangular(self.factor.lower, flat, lower=True)
        solved = solve_triangular(self.factor.lower, half, lower=True, trans=1)
        change = self.weights[:, None] - solved.reshape(len(self.x), n, outputs)
        cross = gram(kernel, x, self.x)
        return self.process.mean + wanted + np.einsum("px,xno->npo", cross, change)


def by_features(kernel: Kernel, joint: Joint) -> bool:
    """Whether draws are functions of any input, or values at given points."""
    if joint not in ("auto", "functions", "points"):
        raise InputError(f"joint is {joint!r}; give 'auto', 'functions' or 'points'")
    if joint == "functions" and not kernel.has_features:
        raise InputError(
            f"joint is 'functions' and the kernel {type(kernel).__name__} has no random features; "
            "use joint='points' and give all points in one call"
        )
    return kernel.has_features and joint != "points"


def draw_prior(
    kernel: Kernel, keys: Key[Array, " draws"], x: np.ndarray, outputs: int, features: int
) -> Float[np.ndarray, "draws points outputs"]:
    """Functions of the prior of mean zero at points, computed in float64."""
    with jax.enable_x64(True):
        return np.asarray(compiled_prior(kernel, keys, jnp.asarray(x), outputs, features))


def draw_at_points(
    keys: Key[Array, " draws"],
    mean: Float[np.ndarray, "points outputs"],
    covariance: Float[np.ndarray, "points points"],
) -> Float[np.ndarray, "draws points outputs"]:
    """Gaussian values at points, jointly; outputs are independent."""
    if len(mean) > MOST_POINTS:
        raise InputError(
            f"x has {len(mean)} points and a joint draw factorises their covariance; give at most "
            f"{MOST_POINTS}, or draw functions (joint='functions')"
        )
    # A covariance of rank below its size has no Cholesky factor; its square root always exists.
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return mean + np.einsum("pq,nqo->npo", root, normal_of(keys, 2, mean.shape))


def check_points(kernel: Kernel, x: Any, name: str) -> Float[np.ndarray, "rows columns"]:
    """Rows of numbers in float64 that the kernel takes, or an error."""
    x = np.asarray(x)
    if x.ndim != 2 or not len(x):
        raise InputError(f"{name} has shape {x.shape}; give at least one row, [rows, columns]")
    check_inputs(x, name)
    kernel.check(x.shape[1])
    return np.asarray(x, np.float64)


def check_exact(rows: int, most: int) -> None:
    """Refuse more rows than the exact path is for, with what it would cost."""
    if rows > most:
        gigabytes, operations = 3 * 8 * rows**2 / 1e9, rows**3 / 3
        raise InputError(
            f"there are {rows} training rows and most_rows is {most}: the exact Gaussian process "
            f"needs {gigabytes:.1f} GB for matrices of {rows} x {rows} and {operations:.0e} "
            "operations per factorisation; use svgp, give fewer rows (--train-rows), or raise "
            "most_rows"
        )
