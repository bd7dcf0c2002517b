"""Infinitely wide networks: NNGP and NTK kernels, and ensembles of them trained to any time."""

from typing import TYPE_CHECKING

from credax.lazy import lazy_names

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
    from credax.infinite.kernel import Kernel as Kernel
    from credax.infinite.kernel import Kernels as Kernels
    from credax.infinite.kernel import QuadratureInaccurate as QuadratureInaccurate
    from credax.infinite.lattice import LatticeDefect as LatticeDefect
    from credax.infinite.lattice import lattice_defect as lattice_defect
    from credax.infinite.layers import Dense as Dense
    from credax.infinite.layers import Flatten as Flatten
    from credax.infinite.layers import LayerNorm as LayerNorm
    from credax.infinite.method import NNGP as NNGP
    from credax.infinite.method import NTK as NTK
    from credax.infinite.net import parallel_sum as parallel_sum
    from credax.infinite.net import repeat as repeat
    from credax.infinite.net import residual as residual
    from credax.infinite.net import serial as serial
    from credax.infinite.net import zero_output as zero_output
    from credax.infinite.prior import ProcessPrior as ProcessPrior
    from credax.infinite.spatial import AveragePool as AveragePool
    from credax.infinite.spatial import Conv as Conv
    from credax.infinite.spatial import GlobalAveragePool as GlobalAveragePool
    from credax.infinite.spectrum import Ridge as Ridge
    from credax.infinite.spread import SpreadCurve as SpreadCurve
    from credax.infinite.spread import tail_bound as tail_bound
    from credax.infinite.turning import GroupConvolutional as GroupConvolutional

__getattr__, __all__ = lazy_names(  # pyright: ignore[reportUnsupportedDunderAll]
    __name__,
    {
        "serial": "net",
        "residual": "net",
        "parallel_sum": "net",
        "repeat": "net",
        "zero_output": "net",
        "Dense": "layers",
        "Flatten": "layers",
        "LayerNorm": "layers",
        "Conv": "spatial",
        "AveragePool": "spatial",
        "GlobalAveragePool": "spatial",
        "GroupConvolutional": "turning",
        "lattice_defect": "lattice",
        "LatticeDefect": "lattice",
        "ReLU": "activations",
        "LeakyReLU": "activations",
        "Abs": "activations",
        "Identity": "activations",
        "Sign": "activations",
        "Erf": "activations",
        "GELU": "activations",
        "Sine": "activations",
        "Cosine": "activations",
        "RadialBasis": "activations",
        "Exponential": "activations",
        "Gaussian": "activations",
        "Monomial": "activations",
        "Activation": "activations",
        "EnsembleDynamics": "dynamics",
        "Ridge": "spectrum",
        "NTK": "method",
        "NNGP": "method",
        "ProcessPrior": "prior",
        "empirical_ntk": "empirical",
        "ntk_vector_product": "empirical",
        "linearise": "empirical",
        "taylor": "empirical",
        "EmpiricalKernel": "empirical",
        "monte_carlo_kernel": "empirical",
        "SpreadCurve": "spread",
        "tail_bound": "spread",
        "Kernel": "kernel",
        "Kernels": "kernel",
        "QuadratureInaccurate": "kernel",
    },
)
