"""How good is a posterior: its weights against a reference, its symmetry, its diversity.

Names are loaded when first used.
"""

from typing import TYPE_CHECKING

from credax.lazy import lazy_names

if TYPE_CHECKING:
    from credax.quality.blocks import ArrayBlocks as ArrayBlocks
    from credax.quality.blocks import Blocks as Blocks
    from credax.quality.blocks import as_blocks as as_blocks
    from credax.quality.distances import Distances as Distances
    from credax.quality.distances import distances_by_array as distances_by_array
    from credax.quality.kernels import KERNELS as KERNELS
    from credax.quality.kernels import bandwidth_grid as bandwidth_grid
    from credax.quality.mmd import Discrepancy as Discrepancy
    from credax.quality.mmd import maximum_mean_discrepancy as maximum_mean_discrepancy
    from credax.quality.mmd import statistic as statistic
    from credax.quality.resampling import Bootstrap as Bootstrap
    from credax.quality.resampling import EqualSizes as EqualSizes

_WHERE = {
    "Blocks": "blocks",
    "ArrayBlocks": "blocks",
    "as_blocks": "blocks",
    "Distances": "distances",
    "distances_by_array": "distances",
    "KERNELS": "kernels",
    "bandwidth_grid": "kernels",
    "Discrepancy": "mmd",
    "maximum_mean_discrepancy": "mmd",
    "statistic": "mmd",
    "Bootstrap": "resampling",
    "EqualSizes": "resampling",
}
__getattr__, __all__ = lazy_names(__name__, _WHERE)  # pyright: ignore[reportUnsupportedDunderAll]
