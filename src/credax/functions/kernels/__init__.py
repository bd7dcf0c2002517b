"""Covariance functions: closed forms, sums and products of them, and kernels of other libraries."""

from credax.functions.kernels.adapted import InfiniteKernel as InfiniteKernel
from credax.functions.kernels.adapted import TinygpKernel as TinygpKernel
from credax.functions.kernels.adapted import as_kernel as as_kernel
from credax.functions.kernels.base import Kernel as Kernel
from credax.functions.kernels.base import Product as Product
from credax.functions.kernels.base import Sum as Sum
from credax.functions.kernels.closed import RBF as RBF
from credax.functions.kernels.closed import Constant as Constant
from credax.functions.kernels.closed import Linear as Linear
from credax.functions.kernels.closed import Matern12 as Matern12
from credax.functions.kernels.closed import Matern32 as Matern32
from credax.functions.kernels.closed import Matern52 as Matern52
from credax.functions.kernels.closed import Periodic as Periodic
from credax.functions.kernels.closed import RationalQuadratic as RationalQuadratic
from credax.functions.kernels.closed import White as White
from credax.functions.kernels.storage import from_data as from_data
from credax.functions.kernels.storage import named_kernel as named_kernel
from credax.functions.kernels.storage import to_data as to_data
