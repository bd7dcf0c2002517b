"""Everything that credax asks of a likelihood, with a default wherever there is one.

Targets and outputs are in standard units here (see `credax.standardise`); `Problem` converts.
"""

import abc
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from credax.errors import InputError
from credax.likelihoods.checks import check_targets
from credax.network import Network
from credax.prediction import Prediction


class Likelihood(eqx.Module):
    """Log-density of ``y`` given a network's outputs, and the prediction they stand for.

    A likelihood of one's own is a subclass with `task`, `log_prob` and `predict`; the rest has
    defaults. Methods, metrics, reports and files then work as with those of credax::

        class Exponential(cx.Likelihood):
            task = "regression"
            raw_targets = True

            def log_prob(self, outputs, y):
                return jnp.sum(-outputs - y.reshape(outputs.shape) * jnp.exp(-outputs), -1)

            def predict(self, outputs):
                return cx.MixturePrediction(MyDistribution(jnp.exp(outputs)))
    """

    if TYPE_CHECKING:
        task: ClassVar[Literal["classification", "regression"]]
    else:
        task: eqx.AbstractClassVar[Literal["classification", "regression"]]
    raw_targets: ClassVar[bool] = False
    """Whether targets must stay as they are, such as counts, instead of being standardised."""
    no_posterior: ClassVar[str | None] = None
    """Why no posterior is defined, if it is only an objective; Laplace and samplers refuse it."""
    has_logits: ClassVar[bool] = False
    """Whether outputs are logits: of a softmax, or one of a sigmoid."""
    has_one_noise: ClassVar[bool] = False
    """Whether the noise is Gaussian with one level per target, which the evidence can tune."""

    has_squared_error: ClassVar[bool] = False
    """Whether `regressed`, `best_scale` and `from_regressed` are there (infinite width)."""

    # What a model is.

    @abc.abstractmethod
    def log_prob(self, outputs: Array, y: Array) -> Float[Array, " batch"]:
        """Log-density of each row's target; of an objective, minus its loss."""

    @abc.abstractmethod
    def predict(self, outputs: Float[Array, "members batch *grid outputs"]) -> Prediction:
        """The mixture prediction of a population's outputs."""

    def num_outputs(self, targets: int) -> int:
        """Outputs the network must have for so many classes or targets; by default as many."""
        return targets

    def num_targets(self, outputs: int) -> int:
        """Targets of so many outputs, the inverse of `num_outputs`; by default as many."""
        return outputs

    def check(self, y: np.ndarray, outputs: int) -> None:
        """Raise an error if targets do not fit; by default they are finite, one per output."""
        check_targets(y, self.num_targets(outputs))

    @property
    def grid_axes(self) -> int:
        """A hook: axes of outputs between rows and channels; 0 where a row has one vector."""
        return 0

    @property
    def outside(self) -> float | None:
        """A hook: the target of a pixel that does not count; None where rows have one vector."""
        return None

    def check_shapes(self, y: np.ndarray, shape: tuple[int, ...]) -> None:
        """A hook: raise an error if outputs of one row, or targets, have the wrong axes."""
        if len(shape) != 2 or shape[0] != 1:
            raise InputError(
                f"the network gives outputs of shape {shape} for one row; it must give "
                "[rows, outputs], or the likelihood must be PerPixel(...) of that of one pixel"
            )
        self.check(y, shape[-1])

    def counted(self, y: np.ndarray) -> np.ndarray:
        """A hook: the targets that count; by default all."""
        return y

    def traced(self) -> "Likelihood":
        """A hook: the same with arrays for its numbers, so that programs do not depend on them."""
        return self

    # Parameters of its own.

    @property
    def learns(self) -> bool:
        """Whether parameters of its own are learned; `adapt` then gives a `LearnedNoise`."""
        return False

    def adapt(self, network: Network) -> Network:
        """The network with whatever parameters the likelihood itself learns."""
        return network

    def weights(self, params: PyTree) -> PyTree:
        """The parameters that the prior covers: all but those of the likelihood itself."""
        return params["network"] if self.learns else params

    def own(self, params: PyTree) -> PyTree:
        """The parameters of the likelihood itself, outside the prior."""
        return params["noise"] if self.learns else {}

    def join(self, weights: PyTree, own: PyTree) -> PyTree:
        """All parameters, from `weights` and `own`."""
        return {"network": weights, "noise": own} if self.learns else weights

    def network_outputs(self, outputs: Float[Array, "*batch all"]) -> Float[Array, "*batch some"]:
        """The outputs that depend on the input, without what the likelihood learns."""
        return outputs[..., : outputs.shape[-1] // 2] if self.learns else outputs

    def all_outputs(self, params: PyTree, outputs: Array) -> Array:
        """What `log_prob` takes, from `network_outputs`: followed by what the likelihood learns."""
        if not self.learns:
            return outputs
        noise = jnp.broadcast_to(params["noise"], outputs.shape)
        return jnp.concatenate([outputs, noise.astype(outputs.dtype)], axis=-1)

    def with_floor(
        self, outputs: Float[Array, "*batch outputs"], floor: float
    ) -> Float[Array, "*batch outputs"]:
        """Raw outputs of a decoder as those of this likelihood, no deviation below ``floor``.

        Where an output is a raw variance: ``σ = floor + (1 - floor) softplus(raw)``. By default
        outputs stay as they are.
        """
        return outputs

    def with_least_noise(self, deviation: float) -> "Likelihood":
        """A hook: no noise below a standard deviation, in standard units; by default as it is."""
        return self

    # Curvature, for Laplace.

    def curvature_root(
        self, params: PyTree, outputs: Float[Array, " outputs"], y: Array | None
    ) -> Float[Array, "outputs columns"]:
        """``S`` with ``S Sᵀ`` the curvature of ``-log p`` in one row's `network_outputs`.

        By default the matrix of second derivatives at ``y``, by automatic differentiation, with
        negative eigenvalues set to zero; likelihoods of credax give the Fisher information.
        """

        def loss(outputs):
            whole = self.all_outputs(params, outputs)
            return -self.log_prob(whole[None], jnp.asarray(y)[None])[0]

        values, vectors = jnp.linalg.eigh(jax.hessian(loss)(outputs))
        return vectors * jnp.sqrt(jnp.maximum(values, 0))

    def noise_variance(self, params: PyTree, outputs: Array) -> Array:
        """The variance of each output's noise, where `has_one_noise`."""
        return jnp.ones_like(outputs)

    # Functions, for methods that compare members.

    def compared(self, outputs: Float[Array, "*batch outputs"], *, raw: bool) -> Array:
        """What function-space methods compare; by default the network's outputs.

        ``raw`` asks for outputs before any link, such as logits instead of probabilities.
        """
        return self.network_outputs(outputs)

    def centres(
        self, outputs: Float[Array, "batch outputs"], y: Array
    ) -> Float[Array, "batch targets"]:
        """The outputs of each row whose input gradients are compared (FoRDE, LIT)."""
        return self.network_outputs(outputs)

    def logit_difference(self, outputs: Float[Array, "batch outputs"]) -> Array | None:
        """The logit of the second of two classes over the first; None where there are not two."""
        return None

    # Squared error, for infinitely wide networks.

    def regressed(self, y: np.ndarray, outputs: int) -> Float[np.ndarray, "rows outputs"] | None:
        """Raw labels as targets of a squared error; None: the targets in standard units."""
        return None

    def best_scale(self, found: np.ndarray, targets: np.ndarray) -> float:
        """What turns regressed outputs into outputs of this likelihood, by leave-one-out."""
        return 1.0

    def from_regressed(self, outputs: np.ndarray, scale: float) -> np.ndarray:
        """Outputs of this likelihood from regressed ones and `best_scale`."""
        return outputs


def require_posterior(likelihood: Any, title: str) -> None:
    """Raise an error if a method that needs a posterior is given a mere objective."""
    if likelihood.no_posterior is not None:
        raise InputError(
            f"likelihood is {type(likelihood).__name__}, which defines no posterior "
            f"({likelihood.no_posterior}); {title} needs one: use a likelihood such as Categorical "
            "or Gaussian, or an ensemble"
        )
