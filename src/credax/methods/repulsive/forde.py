"""First-order repulsive deep ensembles (Trinh, Heinonen, Acerbi, Kaski, ICLR 2024)."""

import dataclasses
import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from credax.data.dataset import Split
from credax.data.pca import Components, principal_components, second_moment
from credax.errors import InputError
from credax.methods.ensemble import Ensemble, Scale, choices, positive, scale_of
from credax.methods.repulsive.embeddings import InputGradients, check_detached
from credax.methods.repulsive.kernels import GradientKernel
from credax.methods.repulsive.lengthscale import (
    Identity,
    InputMetric,
    check_share,
    dense_metric,
    metric_from,
)
from credax.methods.repulsive.repulsive import Repulsive
from credax.methods.repulsive.updates import GradientUpdate
from credax.problem import Problem
from credax.training import Training
from credax.training.engine import count_convolutions

# A metric of one's own is for Python; the command line offers names and numbers.
if TYPE_CHECKING:
    Lengthscale = Literal["pca", "identity"] | float | InputMetric
else:
    Lengthscale = Literal["pca", "identity"] | float


@dataclass(frozen=True)
class FoRDE(Ensemble):
    """Members repel one another's input gradients.

    Each member follows ``mean loss + ρ (1/B) Σ_i log Σ_j k_ij`` through its own (first) argument,
    ``k_ij = mean_b exp(-|q_ib - q_jb|² / h_jb)``, ``q`` its unit input gradient of the true class's
    logit in a metric from the data's principal components. The defaults are the released code's;
    `FoRDE.robust` and `FoRDE.fast` are better behaved. Cost: about twice a deep ensemble's step.
    Where every pixel has a label (`PerPixel`), ``q`` is of the sum of the labels' logits.

    >>> FoRDE(members=3, lengthscale=0.4).lengthscale
    0.4
    """

    name: ClassVar[str] = "forde"
    title: ClassVar[str] = "FoRDE"

    members: int = 10
    """Networks in the ensemble."""
    lengthscale: Lengthscale = "pca"
    """Metric of input directions: data PCA, identity, or a mix from 0 (identity) to 1 (PCA)."""
    mixing: Literal["inverse", "linear"] = "inverse"
    """The mix's form: the paper's appendix, or its web page."""
    centre: bool = False
    """Subtract the mean input before PCA."""
    unit_spectrum: bool = False
    """Divide the eigenvalues by their mean before mixing."""
    rank: int | float | None = None
    """Principal components to keep: how many, or a share of the variance; all by default."""
    residual: Literal["drop", "mean"] = "drop"
    """Directions beyond the rank: weight zero, or their mean weight."""
    pca: str | None = None
    """File made by credax pca; by default the components are computed from the training rows."""
    gradient_of: Literal["logit", "log_prob"] = "logit"
    """Whose input gradient: the true class's logit or log-probability."""
    bandwidth: Literal["per_reference", "per_sample", "heat"] | float = "per_reference"
    """Median rule for each reference and row (the code) or row (the paper), heat, or a number."""
    include_diagonal: bool = True
    """Count a member's zero distance to itself in the median."""
    pooling: Literal["log_of_mean", "mean_of_log"] = "log_of_mean"
    """Average the kernel over the batch before or after the logarithm."""
    estimator: Literal["kde", "blob"] = "kde"
    """Through the first argument only, or the whole gradient (needs per_sample)."""
    repulsion_scale: Scale = "batch"
    """ρ: 1 as published, batch/data for the posterior's own scale, a number, or a schedule."""
    eps: float = 1e-24
    """Added to the squared norm of a gradient."""
    relative_floor: float | None = None
    """Floor of a gradient's norm as a share of the batch's median (1e-3 is safe)."""
    statistics: Literal["batch", "frozen", "detached"] = "batch"
    """Batch norm in the repulsion's pass."""
    embedding: Literal["sphere", "graph"] = "sphere"
    """Unit gradients, or those of the function's graph (for scalar inputs)."""
    fraction: float = 1.0
    """Share of the batch the kernel is averaged over."""
    period: int = 1
    """Repel every so many steps, so many times as strongly."""
    pullback: Literal["auto", "vjp", "jvp", "difference"] = "auto"
    """How the repulsion reaches the parameters: exactly by either mode, or nearly."""

    def files(self) -> tuple[str, ...]:
        """The file of principal components, where one is named."""
        return () if self.pca is None else (self.pca,)

    def __post_init__(self):
        Ensemble.__post_init__(self)
        choices(self)
        positive(self, "bandwidth", "relative_floor")
        if isinstance(self.lengthscale, int | float):
            check_share(self.lengthscale)
        if self.estimator == "blob" and self.bandwidth == "per_reference":
            raise InputError(
                "estimator is 'blob' and bandwidth is 'per_reference'; blob needs a symmetric "
                "kernel: bandwidth='per_sample'"
            )
        if not 0 < self.fraction <= 1:
            raise InputError(f"fraction is {self.fraction}; it lies in (0, 1]")
        if self.period < 1:
            raise InputError(f"period is {self.period}; it must be at least 1")
        if not self.eps >= 0:
            raise InputError(f"eps is {self.eps}; it is not negative")
        if self.gradient_of == "log_prob" and self.relative_floor is None:
            warnings.warn(
                "gradients of the log-probability vanish on fitted rows and the repulsion grows "
                "without bound; set relative_floor=1e-3",
                stacklevel=3,
            )

    @classmethod
    def robust(cls, **options) -> "FoRDE":
        """Symmetric kernel, floored gradients, frozen statistics, centred PCA."""
        return cls(
            **{
                "bandwidth": "per_sample",
                "relative_floor": 1e-3,
                "statistics": "frozen",
                "centre": True,
                **options,
            }
        )

    @classmethod
    def fast(cls, **options) -> "FoRDE":
        """`robust` with 99 % of the variance and half of the batch."""
        return cls.robust(**{"rank": 0.99, "fraction": 0.5, **options})

    def dynamics(self, problem: Problem, data: Split, training: Training) -> Repulsive:
        """Input-gradient space with the kernel-density repulsion."""
        if self.statistics == "detached":
            check_detached(problem, data.x)
        dimension = math.prod(data.x.shape[1:])
        if dimension == 1 and self.embedding == "sphere" and self.members > 1:
            warnings.warn(
                "FoRDE on a scalar input never repels (unit gradients are +1 or -1); pass "
                "embedding='graph' or feature inputs",
                stacklevel=2,
            )
        pullback = self.pullback
        if pullback == "auto" and count_convolutions(problem, data, "gemm"):
            pullback = "jvp"  # the platform's convolution is slow to differentiate twice
        space = InputGradients(self.gradient_of, self.statistics, pullback, self.fraction)
        kernel = GradientKernel(
            self.bandwidth,
            self.pooling,
            self.estimator,
            self.eps,
            self.relative_floor,
            self.embedding,
            self.include_diagonal,
        )
        rows = training.batch_size
        scale = scale_of(self.repulsion_scale, batch=1.0, data=rows / len(data), number=1.0)
        return Repulsive(
            self.descent(problem, data, training),
            space,
            GradientUpdate(self.metric(problem, data), kernel),
            scale if self.members > 1 else 0.0,
            period=self.period,
        )

    def metric(self, problem: Problem, data: Split) -> InputMetric:
        """The metric of this record on un-augmented training inputs in the problem's units."""
        return lengthscale_metric(self, problem, data)


def lengthscale_metric(record, problem: Problem, data: Split) -> InputMetric:
    """The metric that a record's lengthscale fields describe (FoRDE and LIT)."""
    if not isinstance(record.lengthscale, str | int | float):
        return record.lengthscale
    share = 1.0 if record.lengthscale == "pca" else record.lengthscale
    share = 0.0 if share == "identity" else float(share)
    if share == 0:
        return Identity()
    split = dataclasses.replace(data, inputs=problem.inputs)
    if record.pca is not None:
        components = Components.load(record.pca)
        if components.dimension != math.prod(data.x.shape[1:]):
            raise InputError(
                f"pca is {record.pca}, made from inputs of {components.dimension} entries; these "
                f"have {math.prod(data.x.shape[1:])}: make it anew with credax pca"
            )
        components = components.truncate(record.rank)
    elif record.rank is None and not record.unit_spectrum:
        return dense_metric(second_moment(split, record.centre), share, record.mixing)
    else:
        components = principal_components(split, record.rank, record.centre)
    return metric_from(components, share, record.mixing, record.residual, record.unit_spectrum)
