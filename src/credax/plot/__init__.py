"""Figures by matplotlib: each function takes a prediction or results and an Axes, and returns it.

Without an Axes the current one is drawn into, as in seaborn. Needs the extra ``plot``.
"""

from typing import TYPE_CHECKING

from credax.lazy import lazy_package

if TYPE_CHECKING:
    from credax.plot.calibration import interval_calibration as interval_calibration
    from credax.plot.calibration import reliability as reliability
    from credax.plot.chain_plots import ranks as ranks
    from credax.plot.chain_plots import trace as trace
    from credax.plot.comparison import save_figures as save_figures
    from credax.plot.detection import ood_histogram as ood_histogram
    from credax.plot.detection import ood_roc as ood_roc
    from credax.plot.experiment import experiment_figure as experiment_figure
    from credax.plot.experiment import save_experiment_figures as save_experiment_figures
    from credax.plot.functions import predictive_band as predictive_band
    from credax.plot.functions import uncertainty_map as uncertainty_map
    from credax.plot.saliency import member_saliency as member_saliency
    from credax.plot.selective import risk_coverage as risk_coverage
    from credax.plot.training import learning_curves as learning_curves

__getattr__, __dir__, __all__ = lazy_package(__name__, __file__)  # pyright: ignore[reportUnsupportedDunderAll]
