"""A kernel as a prior over functions: an infinitely wide network before training."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Array, Float, Key

from credax.errors import InputError
from credax.infinite.kernel import KernelFunction
from credax.infinite.spectrum import Spectrum
from credax.keys import numpy_generator


@dataclass(frozen=True)
class ProcessPrior:
    """A Gaussian process of mean zero whose covariance is a kernel's NNGP plus a jitter.

    >>> from credax import infinite
    >>> net = infinite.serial(infinite.InfiniteDense(8), infinite.ReLU(), infinite.InfiniteDense(1))
    >>> ProcessPrior(net).covariance([[1.0, 0.0]]).tolist()
    [[0.25]]
    """

    kernel: KernelFunction
    jitter: float = 0.0
    """Added to the variance of every point."""

    def __post_init__(self):
        if not self.jitter >= 0:
            raise InputError(f"jitter is {self.jitter}; give a number of at least 0")

    def covariance(self, x1: Any, x2: Any = None) -> Float[np.ndarray, "first second"]:
        """The covariance between points; the jitter is on the diagonal of a batch with itself."""
        nngp = self.kernel.kernels(np.asarray(x1), None if x2 is None else np.asarray(x2)).nngp
        return nngp + self.jitter * np.eye(len(nngp)) if x2 is None else nngp

    def sample(
        self, key: int | Key[Array, ""], x: Any, functions: int
    ) -> Float[np.ndarray, "functions points"]:
        """Values of random functions at points, jointly."""
        if functions < 1:
            raise InputError(f"functions is {functions}; draw at least 1")
        factor = Spectrum.of(self.covariance(x), "the prior covariance").factor()
        return numpy_generator(key).standard_normal((functions, factor.shape[1])) @ factor.T

    def log_prob(self, values: Float[np.ndarray, "*functions points"], x: Any) -> np.ndarray:
        """Log-density of function values at points; needs a covariance of full rank."""
        covariance = self.covariance(x)
        spectrum = Spectrum.of(covariance, "the prior covariance")
        if spectrum.rank < len(covariance):
            raise InputError(
                f"the prior covariance of {len(covariance)} points has rank {spectrum.rank}, so "
                "values have no density; set jitter to a small positive number"
            )
        along = np.asarray(values, np.float64) @ spectrum.vectors
        size = np.sum(np.square(along) / spectrum.values, axis=-1)
        constant = len(covariance) * np.log(2 * np.pi) + np.sum(np.log(spectrum.values))
        return -0.5 * (size + constant)
