"""Priors over functions: Gaussian processes, implicit processes, neural processes."""

from typing import TYPE_CHECKING

from credax.lazy import lazy_package

if TYPE_CHECKING:
    from credax.functions import kernels as kernels
    from credax.functions import tasks as tasks
    from credax.functions.anp import ANP as ANP
    from credax.functions.classification import LaplaceProcess as LaplaceProcess
    from credax.functions.cnp import CNP as CNP
    from credax.functions.convcnp import ConvCNP as ConvCNP
    from credax.functions.exact import GP as GP
    from credax.functions.exact import ExactPosterior as ExactPosterior
    from credax.functions.gp import ConditionedProcess as ConditionedProcess
    from credax.functions.gp import GaussianProcess as GaussianProcess
    from credax.functions.implicit import ImplicitProcess as ImplicitProcess
    from credax.functions.implicit import NeuralSampler as NeuralSampler
    from credax.functions.implicit import ProcessDraws as ProcessDraws
    from credax.functions.implicit import Simulator as Simulator
    from credax.functions.implicit import WeightProcess as WeightProcess
    from credax.functions.implicit import standard_weights as standard_weights
    from credax.functions.neural_process import NP as NP
    from credax.functions.piecewise import PiecewiseConstant as PiecewiseConstant
    from credax.functions.piecewise import PiecewiseLinear as PiecewiseLinear
    from credax.functions.process_posterior import ProcessPosterior as ProcessPosterior
    from credax.functions.ssge import SpectralScore as SpectralScore
    from credax.functions.ssge import spectral_score as spectral_score
    from credax.functions.svgp import SVGP as SVGP
    from credax.functions.svgp import SparsePosterior as SparsePosterior
    from credax.functions.task_scores import Measured as Measured
    from credax.functions.task_scores import measure as measure
    from credax.functions.vip import VIP as VIP
    from credax.functions.vip import ImplicitPosterior as ImplicitPosterior

__getattr__, __dir__, __all__ = lazy_package(__name__, __file__)  # pyright: ignore[reportUnsupportedDunderAll]
