"""Wasserstein gradient descent in feature space (Yashima et al. 2022)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from credax.data.dataset import Split
from credax.errors import InputError
from credax.methods.ensemble import Ensemble, choices, scale_of
from credax.methods.repulsive.embeddings import Features
from credax.methods.repulsive.function_prior import FunctionPrior
from credax.methods.repulsive.repulsive import Repulsive
from credax.methods.repulsive.updates import ProjectedUpdate
from credax.networks.sequential import Body, Sequential
from credax.problem import Problem
from credax.training import Training


@dataclass(frozen=True)
class FeatureWGD(Ensemble):
    """Members repel one another's penultimate features; one classifier reads all of them.

    ``∇_z [cross-entropy + Σ log(1 + c z²)] + KDE repulsion``, the latter in a few directions of the
    members' likelihood gradients, pulled back through each encoder; the classifier follows the mean
    gradient. The defaults are the released code's, also where they look unintended (``axes``,
    ``bandwidth``).

    >>> FeatureWGD(members=3).projection
    5
    """

    name: ClassVar[str] = "feature-wgd"
    title: ClassVar[str] = "Feature WGD"

    members: int = 5
    """Networks in the ensemble."""
    prior: Literal["cauchy", "gauss", "none"] = "cauchy"
    """Prior over features."""
    prior_scale: float = 5e-3
    """Its scale c."""
    projection: int = 5
    """Directions along which members repel."""
    axes: Literal["trailing", "leading"] = "trailing"
    """Least (the released code) or greatest eigenvalues of the likelihood gradients' Gram."""
    bandwidth: Literal["squared_median", "median"] = "squared_median"
    """Median of squared distances over ln M, squared once more (the released code) or not."""
    repulsion_scale: Literal["batch", "data"] | float = "batch"
    """1/B, 1/N, or a number times 1/B."""

    def __post_init__(self):
        Ensemble.__post_init__(self)
        choices(self)
        if self.projection < 1:
            raise InputError(f"projection is {self.projection}; give at least 1 direction")

    def dynamics(self, problem: Problem, data: Split, training: Training) -> Repulsive:
        """Feature space with the projected density repulsion."""
        layers = getattr(problem.network, "layers", None)
        if not isinstance(layers, Sequential):
            raise InputError(
                f"the network is a {type(problem.network).__name__}, whose last layer is not "
                "known; feature-wgd needs one of credax.networks"
            )
        head = layers.names[-1]
        space = Features(Body(layers), layers.layers[-1], _Split(head))
        prior = None if self.prior == "none" else FunctionPrior(self.prior, self.prior_scale)
        count, rows = len(data), training.batch_size
        return Repulsive(
            self.descent(problem, data, training),
            space,
            ProjectedUpdate(self.projection, self.axes, self.bandwidth, prior),
            scale_of(self.repulsion_scale, batch=1 / rows, data=1 / count, number=1 / rows),
            shared=head,
        )


@dataclass(frozen=True)
class _Split:
    """Parameters into those of the body and those of the head; equal records compile once."""

    head: str

    def __call__(self, params):
        """``(body, head)``."""
        body = {name: value for name, value in params.items() if name != self.head}
        return body, params[self.head]
