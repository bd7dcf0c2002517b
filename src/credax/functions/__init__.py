"""Priors over functions: Gaussian processes, and whatever can be drawn as whole functions."""

from typing import TYPE_CHECKING

from credax.lazy import lazy_package

if TYPE_CHECKING:
    from credax.functions import kernels as kernels
    from credax.functions.classification import LaplaceProcess as LaplaceProcess
    from credax.functions.exact import GP as GP
    from credax.functions.exact import ExactPosterior as ExactPosterior
    from credax.functions.gp import ConditionedProcess as ConditionedProcess
    from credax.functions.gp import GaussianProcess as GaussianProcess
    from credax.functions.svgp import SVGP as SVGP
    from credax.functions.svgp import SparsePosterior as SparsePosterior

__getattr__, __dir__, __all__ = lazy_package(__name__, __file__)  # pyright: ignore[reportUnsupportedDunderAll]
