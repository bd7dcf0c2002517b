"""credax: how far the predictions of a neural network can be trusted.

Names are loaded when first used, so that the command line answers before jax is imported.
"""

from typing import TYPE_CHECKING

from credax.lazy import lazy_package

if TYPE_CHECKING:
    from credax import active as active
    from credax import adapters as adapters
    from credax import calibration as calibration
    from credax import data as data
    from credax import design as design
    from credax import functions as functions
    from credax import groups as groups
    from credax import hub as hub
    from credax import infinite as infinite
    from credax import methods as methods
    from credax import metrics as metrics
    from credax import networks as networks
    from credax import plot as plot
    from credax import quality as quality
    from credax import report as report
    from credax import sklearn as sklearn
    from credax import structure as structure
    from credax import training as training
    from credax import zoo as zoo
    from credax.adoption import adopt as adopt
    from credax.data import Dataset as Dataset
    from credax.data import Split as Split
    from credax.distributions import Distribution as Distribution
    from credax.errors import InputError as InputError
    from credax.exporting import export as export
    from credax.fitting import fit as fit
    from credax.functions.anp import ANP as ANP
    from credax.functions.cnp import CNP as CNP
    from credax.functions.convcnp import ConvCNP as ConvCNP
    from credax.functions.exact import GP as GP
    from credax.functions.neural_process import NP as NP
    from credax.functions.svgp import SVGP as SVGP
    from credax.functions.vip import VIP as VIP
    from credax.gaussian_posterior import GaussianPosterior as GaussianPosterior
    from credax.infinite.method import NNGP as NNGP
    from credax.infinite.method import NTK as NTK
    from credax.likelihood import Bernoulli as Bernoulli
    from credax.likelihood import BetaNLL as BetaNLL
    from credax.likelihood import Categorical as Categorical
    from credax.likelihood import DeviationGaussian as DeviationGaussian
    from credax.likelihood import EvidentialDirichlet as EvidentialDirichlet
    from credax.likelihood import EvidentialNormal as EvidentialNormal
    from credax.likelihood import Focal as Focal
    from credax.likelihood import Gaussian as Gaussian
    from credax.likelihood import HeteroscedasticGaussian as HeteroscedasticGaussian
    from credax.likelihood import LabelSmoothing as LabelSmoothing
    from credax.likelihood import LaplaceNoise as LaplaceNoise
    from credax.likelihood import Likelihood as Likelihood
    from credax.likelihood import NegativeBinomial as NegativeBinomial
    from credax.likelihood import PerPixel as PerPixel
    from credax.likelihood import Poisson as Poisson
    from credax.likelihood import Quantile as Quantile
    from credax.likelihood import StudentT as StudentT
    from credax.methods.dropout.mc_batch_norm import MCBatchNorm as MCBatchNorm
    from credax.methods.dropout.mc_dropout import MCDropout as MCDropout
    from credax.methods.ensembles.batch_ensemble import BatchEnsemble as BatchEnsemble
    from credax.methods.ensembles.deep_ensemble import DeepEnsemble as DeepEnsemble
    from credax.methods.ensembles.lp_bnn import LPBNN as LPBNN
    from credax.methods.ensembles.masksembles import Masksembles as Masksembles
    from credax.methods.ensembles.mimo import MIMO as MIMO
    from credax.methods.ensembles.node_bnn import NodeBNN as NodeBNN
    from credax.methods.ensembles.packed_ensemble import PackedEnsemble as PackedEnsemble
    from credax.methods.ensembles.rank_one_bnn import Rank1BNN as Rank1BNN
    from credax.methods.ensembles.single import Single as Single
    from credax.methods.laplace.laplace import Laplace as Laplace
    from credax.methods.laplace.posterior import LaplacePosterior as LaplacePosterior
    from credax.methods.repulsive.feature_wgd import FeatureWGD as FeatureWGD
    from credax.methods.repulsive.forde import FoRDE as FoRDE
    from credax.methods.repulsive.function_svgd import FunctionSVGD as FunctionSVGD
    from credax.methods.repulsive.function_wgd import FunctionWGD as FunctionWGD
    from credax.methods.repulsive.lit import LIT as LIT
    from credax.methods.repulsive.svgd import SVGD as SVGD
    from credax.methods.repulsive.weight_wgd import WeightWGD as WeightWGD
    from credax.methods.sampling.cyclical_sgmcmc import CyclicalSGMCMC as CyclicalSGMCMC
    from credax.methods.sampling.hmc import HMC as HMC
    from credax.methods.sampling.mile import MILE as MILE
    from credax.methods.sampling.nuts import NUTS as NUTS
    from credax.methods.sampling.sghmc import SGHMC as SGHMC
    from credax.methods.sampling.sgld import SGLD as SGLD
    from credax.methods.trajectory.checkpoint_ensemble import (
        CheckpointEnsemble as CheckpointEnsemble,
    )
    from credax.methods.trajectory.fast_geometric import FastGeometric as FastGeometric
    from credax.methods.trajectory.snapshot_ensemble import SnapshotEnsemble as SnapshotEnsemble
    from credax.methods.trajectory.swa import SWA as SWA
    from credax.methods.trajectory.swag import SWAG as SWAG
    from credax.methods.variational.full_covariance_vi import FullCovarianceVI as FullCovarianceVI
    from credax.methods.variational.functional_vi import FunctionalVI as FunctionalVI
    from credax.methods.variational.low_rank_vi import LowRankVI as LowRankVI
    from credax.methods.variational.mean_field_vi import MeanFieldVI as MeanFieldVI
    from credax.methods.variational.mnf import MNF as MNF
    from credax.metrics import evaluate as evaluate
    from credax.mixture_prediction import MixturePrediction as MixturePrediction
    from credax.mixture_prediction import QuantilePrediction as QuantilePrediction
    from credax.network import FunctionNetwork as FunctionNetwork
    from credax.network import Network as Network
    from credax.network import Variables as Variables
    from credax.partly_trained import freeze as freeze
    from credax.posterior import Population as Population
    from credax.posterior import Posterior as Posterior
    from credax.posterior import combine as combine
    from credax.prediction import ClassPrediction as ClassPrediction
    from credax.prediction import GaussianPrediction as GaussianPrediction
    from credax.prediction import Prediction as Prediction
    from credax.prediction import RegressionPrediction as RegressionPrediction
    from credax.prior import GaussianPrior as GaussianPrior
    from credax.prior import ScaleMixturePrior as ScaleMixturePrior
    from credax.problem import Batch as Batch
    from credax.problem import Problem as Problem
    from credax.runs import SavedRun as SavedRun
    from credax.runs import load as load
    from credax.runs import open_run as open_run
    from credax.standardise import Standardise as Standardise
    from credax.structure.frozen_features import cache_features as cache_features
    from credax.tiling import PixelMaps as PixelMaps
    from credax.tiling import predict_tiled as predict_tiled
    from credax.training.config import Training as Training
    from credax.training.loop import MemberDiverged as MemberDiverged

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_package(__name__, __file__)  # pyright: ignore[reportUnsupportedDunderAll]
