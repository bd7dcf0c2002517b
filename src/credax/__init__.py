"""credax: how far to believe a neural network.

Names are loaded when first used, so that the command line answers before jax is imported.
"""

from typing import TYPE_CHECKING

from credax.lazy import lazy_names

if TYPE_CHECKING:
    from credax import adapters as adapters
    from credax import calibration as calibration
    from credax import data as data
    from credax import groups as groups
    from credax import infinite as infinite
    from credax import methods as methods
    from credax import metrics as metrics
    from credax import networks as networks
    from credax import quality as quality
    from credax import report as report
    from credax import structure as structure
    from credax import training as training
    from credax import zoo as zoo
    from credax.data import Dataset as Dataset
    from credax.data import Split as Split
    from credax.errors import InputError as InputError
    from credax.fitting import fit as fit
    from credax.gaussian_posterior import GaussianPosterior as GaussianPosterior
    from credax.infinite.method import NNGP as NNGP
    from credax.infinite.method import NTK as NTK
    from credax.likelihood import Bernoulli as Bernoulli
    from credax.likelihood import Categorical as Categorical
    from credax.likelihood import Gaussian as Gaussian
    from credax.likelihood import HeteroscedasticGaussian as HeteroscedasticGaussian
    from credax.methods.checkpoint_ensemble import CheckpointEnsemble as CheckpointEnsemble
    from credax.methods.cyclical_sgmcmc import CyclicalSGMCMC as CyclicalSGMCMC
    from credax.methods.deep_ensemble import DeepEnsemble as DeepEnsemble
    from credax.methods.fast_geometric import FastGeometric as FastGeometric
    from credax.methods.feature_wgd import FeatureWGD as FeatureWGD
    from credax.methods.forde import FoRDE as FoRDE
    from credax.methods.full_covariance_vi import FullCovarianceVI as FullCovarianceVI
    from credax.methods.function_svgd import FunctionSVGD as FunctionSVGD
    from credax.methods.function_wgd import FunctionWGD as FunctionWGD
    from credax.methods.hmc import HMC as HMC
    from credax.methods.laplace import Laplace as Laplace
    from credax.methods.laplace_posterior import LaplacePosterior as LaplacePosterior
    from credax.methods.lit import LIT as LIT
    from credax.methods.low_rank_vi import LowRankVI as LowRankVI
    from credax.methods.mc_batch_norm import MCBatchNorm as MCBatchNorm
    from credax.methods.mc_dropout import MCDropout as MCDropout
    from credax.methods.mean_field_vi import MeanFieldVI as MeanFieldVI
    from credax.methods.nuts import NUTS as NUTS
    from credax.methods.sghmc import SGHMC as SGHMC
    from credax.methods.sgld import SGLD as SGLD
    from credax.methods.single import Single as Single
    from credax.methods.snapshot_ensemble import SnapshotEnsemble as SnapshotEnsemble
    from credax.methods.svgd import SVGD as SVGD
    from credax.methods.swa import SWA as SWA
    from credax.methods.swag import SWAG as SWAG
    from credax.methods.weight_wgd import WeightWGD as WeightWGD
    from credax.metrics import evaluate as evaluate
    from credax.network import FunctionNetwork as FunctionNetwork
    from credax.network import Network as Network
    from credax.network import Variables as Variables
    from credax.posterior import Population as Population
    from credax.posterior import Posterior as Posterior
    from credax.posterior import combine as combine
    from credax.prediction import ClassPrediction as ClassPrediction
    from credax.prediction import GaussianPrediction as GaussianPrediction
    from credax.prediction import Prediction as Prediction
    from credax.prior import GaussianPrior as GaussianPrior
    from credax.prior import ScaleMixturePrior as ScaleMixturePrior
    from credax.problem import Batch as Batch
    from credax.problem import Problem as Problem
    from credax.runs import SavedRun as SavedRun
    from credax.runs import open_run as open_run
    from credax.standardise import Standardise as Standardise
    from credax.training.config import Training as Training
    from credax.training.loop import MemberDiverged as MemberDiverged

__version__ = "0.1.0"

__getattr__, __all__ = lazy_names(  # pyright: ignore[reportUnsupportedDunderAll]
    __name__,
    {
        "Dataset": "data",
        "Split": "data",
        "Network": "network",
        "FunctionNetwork": "network",
        "Variables": "network",
        "Categorical": "likelihood",
        "Bernoulli": "likelihood",
        "Gaussian": "likelihood",
        "HeteroscedasticGaussian": "likelihood",
        "GaussianPrior": "prior",
        "ScaleMixturePrior": "prior",
        "Problem": "problem",
        "Batch": "problem",
        "Standardise": "standardise",
        "Single": "methods.single",
        "DeepEnsemble": "methods.deep_ensemble",
        "FoRDE": "methods.forde",
        "FeatureWGD": "methods.feature_wgd",
        "LIT": "methods.lit",
        "WeightWGD": "methods.weight_wgd",
        "SVGD": "methods.svgd",
        "FunctionWGD": "methods.function_wgd",
        "FunctionSVGD": "methods.function_svgd",
        "SWA": "methods.swa",
        "SWAG": "methods.swag",
        "Laplace": "methods.laplace",
        "LaplacePosterior": "methods.laplace_posterior",
        "MCDropout": "methods.mc_dropout",
        "MCBatchNorm": "methods.mc_batch_norm",
        "NUTS": "methods.nuts",
        "HMC": "methods.hmc",
        "FullCovarianceVI": "methods.full_covariance_vi",
        "LowRankVI": "methods.low_rank_vi",
        "MeanFieldVI": "methods.mean_field_vi",
        "SnapshotEnsemble": "methods.snapshot_ensemble",
        "SGLD": "methods.sgld",
        "SGHMC": "methods.sghmc",
        "FastGeometric": "methods.fast_geometric",
        "CyclicalSGMCMC": "methods.cyclical_sgmcmc",
        "CheckpointEnsemble": "methods.checkpoint_ensemble",
        "NTK": "infinite.method",
        "NNGP": "infinite.method",
        "Training": "training.config",
        "fit": "fitting",
        "MemberDiverged": "training.loop",
        "open_run": "runs",
        "SavedRun": "runs",
        "Posterior": "posterior",
        "Population": "posterior",
        "GaussianPosterior": "gaussian_posterior",
        "combine": "posterior",
        "Prediction": "prediction",
        "ClassPrediction": "prediction",
        "GaussianPrediction": "prediction",
        "evaluate": "metrics",
        "InputError": "errors",
        "data": "data",
        "networks": "networks",
        "adapters": "adapters",
        "structure": "structure",
        "training": "training",
        "methods": "methods",
        "groups": "groups",
        "infinite": "infinite",
        "metrics": "metrics",
        "calibration": "calibration",
        "quality": "quality",
        "zoo": "zoo",
        "report": "report",
    },
)
