"""Infinitely wide networks: NNGP and NTK kernels, and ensembles of them trained to any time."""

from typing import TYPE_CHECKING

from credax.lazy import lazy_package

if TYPE_CHECKING:
    from credax.infinite.activations import GELU as GELU
    from credax.infinite.activations import Abs as Abs
    from credax.infinite.activations import Activation as Activation
    from credax.infinite.activations import Cosine as Cosine
    from credax.infinite.activations import Erf as Erf
    from credax.infinite.activations import Exponential as Exponential
    from credax.infinite.activations import Gaussian as Gaussian
    from credax.infinite.activations import Identity as Identity
    from credax.infinite.activations import LeakyReLU as LeakyReLU
    from credax.infinite.activations import Monomial as Monomial
    from credax.infinite.activations import RadialBasis as RadialBasis
    from credax.infinite.activations import ReLU as ReLU
    from credax.infinite.activations import Sign as Sign
    from credax.infinite.activations import Sine as Sine
    from credax.infinite.dynamics import EnsembleDynamics as EnsembleDynamics
    from credax.infinite.empirical import EmpiricalKernel as EmpiricalKernel
    from credax.infinite.empirical import empirical_ntk as empirical_ntk
    from credax.infinite.empirical import linearise as linearise
    from credax.infinite.empirical import monte_carlo_kernel as monte_carlo_kernel
    from credax.infinite.empirical import ntk_vector_product as ntk_vector_product
    from credax.infinite.empirical import taylor as taylor
    from credax.infinite.kernel import KernelFunction as KernelFunction
    from credax.infinite.kernel import Kernels as Kernels
    from credax.infinite.kernel import QuadratureInaccurate as QuadratureInaccurate
    from credax.infinite.layers import Flatten as Flatten
    from credax.infinite.layers import InfiniteDense as InfiniteDense
    from credax.infinite.layers import LayerNorm as LayerNorm
    from credax.infinite.method import NNGP as NNGP
    from credax.infinite.method import NTK as NTK
    from credax.infinite.net import parallel_sum as parallel_sum
    from credax.infinite.net import repeat as repeat
    from credax.infinite.net import residual as residual
    from credax.infinite.net import serial as serial
    from credax.infinite.net import zero_output as zero_output
    from credax.infinite.orbit_deviation import OrbitDeviation as OrbitDeviation
    from credax.infinite.orbit_deviation import tail_bound as tail_bound
    from credax.infinite.prior import ProcessPrior as ProcessPrior
    from credax.infinite.rotations import GridAsymmetry as GridAsymmetry
    from credax.infinite.rotations import GroupConvolutional as GroupConvolutional
    from credax.infinite.rotations import grid_asymmetry as grid_asymmetry
    from credax.infinite.spatial import AveragePool as AveragePool
    from credax.infinite.spatial import GlobalAveragePool as GlobalAveragePool
    from credax.infinite.spatial import InfiniteConv as InfiniteConv
    from credax.infinite.spectrum import Ridge as Ridge

__getattr__, __dir__, __all__ = lazy_package(__name__, __file__)  # pyright: ignore[reportUnsupportedDunderAll]
