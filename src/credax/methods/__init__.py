"""Methods: how a population is made. One file per method; one line each in the registry."""

from importlib import import_module

from credax.errors import unknown

REGISTRY = {
    "single": ("credax.methods.ensembles.single", "Single", "one network (maximum a posteriori)"),
    "deep-ensemble": (
        "credax.methods.ensembles.deep_ensemble",
        "DeepEnsemble",
        "independent networks, mixed (Lakshminarayanan et al. 2017)",
    ),
    "batch-ensemble": (
        "credax.methods.ensembles.batch_ensemble",
        "BatchEnsemble",
        "one network, rank-one factors per member (Wen et al. 2020)",
    ),
    "rank1-bnn": (
        "credax.methods.ensembles.rank_one_bnn",
        "Rank1BNN",
        "distributions of rank-one factors (Dusenberry et al. 2020)",
    ),
    "node-bnn": (
        "credax.methods.ensembles.node_bnn",
        "NodeBNN",
        "random latents that multiply units (Trinh et al. 2022)",
    ),
    "lp-bnn": (
        "credax.methods.ensembles.lp_bnn",
        "LPBNN",
        "BatchEnsemble with encoded factors (Franchi et al. 2023)",
    ),
    "masksembles": (
        "credax.methods.ensembles.masksembles",
        "Masksembles",
        "fixed masks on hidden units (Durasov et al. 2021)",
    ),
    "packed-ensemble": (
        "credax.methods.ensembles.packed_ensemble",
        "PackedEnsemble",
        "narrow networks of one network's cost (Laurent et al. 2023)",
    ),
    "mimo": (
        "credax.methods.ensembles.mimo",
        "MIMO",
        "several inputs and heads around one trunk (Havasi et al. 2021)",
    ),
    "forde": (
        "credax.methods.repulsive.forde",
        "FoRDE",
        "repulsion of input gradients (Trinh et al. 2024)",
    ),
    "lit": (
        "credax.methods.repulsive.lit",
        "LIT",
        "penalty on cosines of input gradients (Ross et al. 2018)",
    ),
    "weight-wgd": (
        "credax.methods.repulsive.weight_wgd",
        "WeightWGD",
        "repulsion of weights (D'Angelo and Fortuin 2021)",
    ),
    "svgd": (
        "credax.methods.repulsive.svgd",
        "SVGD",
        "Stein variational gradient descent (Liu and Wang 2016)",
    ),
    "function-wgd": (
        "credax.methods.repulsive.function_wgd",
        "FunctionWGD",
        "repulsion of predictions (D'Angelo and Fortuin 2021)",
    ),
    "feature-wgd": (
        "credax.methods.repulsive.feature_wgd",
        "FeatureWGD",
        "repulsion of features under a shared classifier (Yashima et al. 2022)",
    ),
    "function-svgd": (
        "credax.methods.repulsive.function_svgd",
        "FunctionSVGD",
        "Stein direction in function space (Wang et al. 2019)",
    ),
    "swa": (
        "credax.methods.trajectory.swa",
        "SWA",
        "mean of one network's late iterates (Izmailov et al. 2018)",
    ),
    "swag": (
        "credax.methods.trajectory.swag",
        "SWAG",
        "Gaussian from the moments of late iterates (Maddox et al. 2019)",
    ),
    "laplace": (
        "credax.methods.laplace.laplace",
        "Laplace",
        "Gaussian with the curvature at the mode (MacKay 1992, Daxberger et al. 2021)",
    ),
    "snapshot-ensemble": (
        "credax.methods.trajectory.snapshot_ensemble",
        "SnapshotEnsemble",
        "networks at the ends of rate cycles (Huang et al. 2017)",
    ),
    "checkpoint-ensemble": (
        "credax.methods.trajectory.checkpoint_ensemble",
        "CheckpointEnsemble",
        "networks of the last or best epochs (Chen et al. 2017)",
    ),
    "fast-geometric": (
        "credax.methods.trajectory.fast_geometric",
        "FastGeometric",
        "networks at the low points of short cycles (Garipov et al. 2018)",
    ),
    "sgld": (
        "credax.methods.sampling.sgld",
        "SGLD",
        "Langevin dynamics, plain or preconditioned (Welling and Teh 2011)",
    ),
    "sghmc": (
        "credax.methods.sampling.sghmc",
        "SGHMC",
        "Langevin dynamics with momentum (Chen et al. 2014)",
    ),
    "cyclical-sgmcmc": (
        "credax.methods.sampling.cyclical_sgmcmc",
        "CyclicalSGMCMC",
        "cycles of exploration and sampling (Zhang et al. 2020)",
    ),
    "mean-field-vi": (
        "credax.methods.variational.mean_field_vi",
        "MeanFieldVI",
        "an independent Gaussian per weight, Bayes by backprop (Blundell et al. 2015)",
    ),
    "low-rank-vi": (
        "credax.methods.variational.low_rank_vi",
        "LowRankVI",
        "a Gaussian with a factor covariance (Ong et al. 2018)",
    ),
    "full-covariance-vi": (
        "credax.methods.variational.full_covariance_vi",
        "FullCovarianceVI",
        "a Gaussian with any covariance, for small networks",
    ),
    "mnf": (
        "credax.methods.variational.mnf",
        "MNF",
        "normalising flows on multiplied weights (Louizos and Welling 2017)",
    ),
    "mile": (
        "credax.methods.sampling.mile",
        "MILE",
        "microcanonical Langevin chains from an ensemble (Sommer et al. 2025)",
    ),
    "hmc": (
        "credax.methods.sampling.hmc",
        "HMC",
        "Hamiltonian Monte Carlo on all rows (Neal 2011)",
    ),
    "nuts": (
        "credax.methods.sampling.nuts",
        "NUTS",
        "the no-U-turn sampler on all rows (Hoffman and Gelman 2014)",
    ),
    "mc-dropout": (
        "credax.methods.dropout.mc_dropout",
        "MCDropout",
        "dropout that stays on (Gal and Ghahramani 2016)",
    ),
    "mc-batch-norm": (
        "credax.methods.dropout.mc_batch_norm",
        "MCBatchNorm",
        "batch statistics of random minibatches (Teye et al. 2018)",
    ),
    "ntk": (
        "credax.infinite.method",
        "NTK",
        "infinitely wide networks trained on squared errors (Jacot et al. 2018)",
    ),
    "nngp": (
        "credax.infinite.method",
        "NNGP",
        "a Gaussian process: an infinitely wide Bayesian network (Lee et al. 2018)",
    ),
    "gp": (
        "credax.functions.exact",
        "GP",
        "an exact Gaussian process (Rasmussen and Williams 2006)",
    ),
    "svgp": (
        "credax.functions.svgp",
        "SVGP",
        "a Gaussian process through inducing points, by minibatches (Hensman et al. 2013)",
    ),
    "vip": (
        "credax.functions.vip",
        "VIP",
        "combinations of functions drawn from a network's prior (Ma et al. 2019)",
    ),
    "cnp": (
        "credax.functions.cnp",
        "CNP",
        "a new task from the mean of its encoded points (Garnelo et al. 2018)",
    ),
    "np": (
        "credax.functions.neural_process",
        "NP",
        "a latent variable for whole functions (Garnelo et al. 2018)",
    ),
    "anp": (
        "credax.functions.anp",
        "ANP",
        "neural process with attention to the context (Kim et al. 2019)",
    ),
    "convcnp": (
        "credax.functions.convcnp",
        "ConvCNP",
        "convolutions on a grid of the context (Gordon et al. 2020)",
    ),
    "functional-vi": (
        "credax.methods.variational.functional_vi",
        "FunctionalVI",
        "a Gaussian over the weights with a prior on functions (Sun et al. 2019)",
    ),
}


def names() -> list[str]:
    """The methods, as on the command line."""
    return list(REGISTRY)


def get(name: str):
    """The record class of a method, by its name on the command line."""
    if name not in REGISTRY:
        raise unknown("method", name, REGISTRY)
    module, record, _ = REGISTRY[name]
    return getattr(import_module(module), record)


def describe(name: str) -> str:
    """One line about a method."""
    return REGISTRY[name][2]
