"""Local independence training: a penalty on the cosines of members' input gradients."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import jax

from credax.data.dataset import Split
from credax.errors import InputError
from credax.methods.ensemble import Ensemble, choices, positive
from credax.methods.repulsive.embeddings import InputGradients
from credax.methods.repulsive.forde import Lengthscale, lengthscale_metric
from credax.methods.repulsive.lengthscale import check_share
from credax.methods.repulsive.repulsive import Repulsive
from credax.methods.repulsive.updates import CosineUpdate
from credax.network import output_struct
from credax.problem import Problem
from credax.training import Training


@dataclass(frozen=True)
class LIT(Ensemble):
    """``mean loss + strength Σ_{i<j} Σ_b cos²(g_ib, g_jb)`` (Ross, Pan, Celi, Doshi-Velez 2018/20).

    ``cos² = a² / (n_i² n_j² + eps)``, ``a = g_i . g_j``; both members are repelled.

    >>> LIT(members=2).strength
    0.01
    """

    name: ClassVar[str] = "lit"
    title: ClassVar[str] = "LIT"

    members: int = 5
    """Networks in the ensemble."""
    strength: float = 0.01
    """Weight of the penalty."""
    reduction: Literal["sum", "mean"] = "sum"
    """Penalty summed or averaged over the batch."""
    gradient_of: Literal["auto", "logit_difference", "loss", "logit", "log_prob"] = "auto"
    """Whose input gradient; auto: with two classes their logits' difference, else the loss."""
    eps: float = 1e-6
    """Added to the product of squared norms."""
    lengthscale: Lengthscale = "identity"
    """Metric of input directions, as in FoRDE."""
    mixing: Literal["inverse", "linear"] = "inverse"
    """Form of a mixed lengthscale."""
    centre: bool = False
    """Subtract the mean input before PCA."""
    unit_spectrum: bool = False
    """Divide the eigenvalues by their mean before mixing."""
    rank: int | float | None = None
    """Principal components to keep."""
    residual: Literal["drop", "mean"] = "drop"
    """Directions beyond the rank."""
    pca: str | None = None
    """File made by credax pca."""

    def files(self) -> tuple[str, ...]:
        """The file of principal components, where one is named."""
        return () if self.pca is None else (self.pca,)

    def __post_init__(self):
        Ensemble.__post_init__(self)
        choices(self)
        positive(self, "eps")
        if isinstance(self.lengthscale, int | float):
            check_share(self.lengthscale)
        if not self.strength >= 0:
            raise InputError(f"strength is {self.strength}; it is not negative")

    def dynamics(self, problem: Problem, data: Split, training: Training) -> Repulsive:
        """Input-gradient space with the squared-cosine penalty."""
        chosen, two = self.gradient_of, _two_classes(problem, data)
        if chosen == "auto":
            chosen = "logit_difference" if two else "loss"
        elif chosen == "logit_difference" and not two:
            raise InputError(
                "gradient_of is 'logit_difference' and the problem has not two classes; give "
                "'loss', 'logit' or 'log_prob'"
            )
        return Repulsive(
            self.descent(problem, data, training),
            InputGradients(chosen),
            CosineUpdate(lengthscale_metric(self, problem, data), self.eps, self.reduction),
            self.strength if self.members > 1 else 0.0,
        )


def _two_classes(problem: Problem, data: Split) -> bool:
    example = jax.ShapeDtypeStruct((1, *data.x.shape[1:]), data.x.dtype)
    variables = jax.eval_shape(problem.init, jax.random.key(0), example)
    prepared = jax.eval_shape(problem.prepare_inputs, example)
    outputs = output_struct(problem.network, variables, prepared)
    difference = jax.eval_shape(problem.likelihood.logit_difference, outputs)
    return difference is not None
