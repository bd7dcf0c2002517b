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
    from credax.quality.exchangeability import Exchangeability as Exchangeability
    from credax.quality.exchangeability import IndexTest as IndexTest
    from credax.quality.exchangeability import RowTest as RowTest
    from credax.quality.exchangeability import compare_units as compare_units
    from credax.quality.exchangeability import effective_draws as effective_draws
    from credax.quality.exchangeability import holm as holm
    from credax.quality.exchangeability import index_test as index_test
    from credax.quality.exchangeability import row_test as row_test
    from credax.quality.exchangeability import unit_rows as unit_rows
    from credax.quality.kendall import KendallTracker as KendallTracker
    from credax.quality.kendall import kendall_tau as kendall_tau
    from credax.quality.kendall import unit_ranks as unit_ranks
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
    "Exchangeability": "exchangeability",
    "IndexTest": "exchangeability",
    "RowTest": "exchangeability",
    "compare_units": "exchangeability",
    "index_test": "exchangeability",
    "row_test": "exchangeability",
    "holm": "exchangeability",
    "unit_rows": "exchangeability",
    "effective_draws": "exchangeability",
    "KendallTracker": "kendall",
    "kendall_tau": "kendall",
    "unit_ranks": "kendall",
}
__getattr__, __all__ = lazy_names(__name__, _WHERE)  # pyright: ignore[reportUnsupportedDunderAll]
