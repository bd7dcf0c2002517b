"""One row per method: the record the conformance tests run. A method without a row fails them."""

from dataclasses import dataclass
from typing import Any

from credax.functions.anp import ANP
from credax.functions.cnp import CNP
from credax.functions.convcnp import ConvCNP
from credax.functions.exact import GP
from credax.functions.neural_process import NP
from credax.functions.svgp import SVGP
from credax.functions.vip import VIP
from credax.infinite.method import NNGP, NTK
from credax.methods.dropout.mc_batch_norm import MCBatchNorm
from credax.methods.dropout.mc_dropout import MCDropout
from credax.methods.ensembles.batch_ensemble import BatchEnsemble
from credax.methods.ensembles.deep_ensemble import DeepEnsemble
from credax.methods.ensembles.lp_bnn import LPBNN
from credax.methods.ensembles.masksembles import Masksembles
from credax.methods.ensembles.mimo import MIMO
from credax.methods.ensembles.node_bnn import NodeBNN
from credax.methods.ensembles.packed_ensemble import PackedEnsemble
from credax.methods.ensembles.rank_one_bnn import Rank1BNN
from credax.methods.ensembles.single import Single
from credax.methods.laplace.laplace import Laplace
from credax.methods.repulsive.feature_wgd import FeatureWGD
from credax.methods.repulsive.forde import FoRDE
from credax.methods.repulsive.function_svgd import FunctionSVGD
from credax.methods.repulsive.function_wgd import FunctionWGD
from credax.methods.repulsive.lit import LIT
from credax.methods.repulsive.svgd import SVGD
from credax.methods.repulsive.weight_wgd import WeightWGD
from credax.methods.sampling.cyclical_sgmcmc import CyclicalSGMCMC
from credax.methods.sampling.hmc import HMC
from credax.methods.sampling.mile import MILE
from credax.methods.sampling.nuts import NUTS
from credax.methods.sampling.sghmc import SGHMC
from credax.methods.sampling.sgld import SGLD
from credax.methods.trajectory.checkpoint_ensemble import CheckpointEnsemble
from credax.methods.trajectory.fast_geometric import FastGeometric
from credax.methods.trajectory.snapshot_ensemble import SnapshotEnsemble
from credax.methods.trajectory.swa import SWA
from credax.methods.trajectory.swag import SWAG
from credax.methods.variational.full_covariance_vi import FullCovarianceVI
from credax.methods.variational.functional_vi import FunctionalVI
from credax.methods.variational.low_rank_vi import LowRankVI
from credax.methods.variational.mean_field_vi import MeanFieldVI
from credax.methods.variational.mnf import MNF
from credax.networks import MLP


@dataclass(frozen=True)
class Row:
    """A small record of a method, and what its members promise."""

    record: Any
    larger: Any = None
    """The same method with more members, whose first members must equal the record's own."""
    network: Any = None
    """A network of two inputs and three outputs that has what the method needs."""
    short: Any = None
    """For chaotic chains, which amplify rounding: a run of few transitions, for strategies."""
    replicas: int | None = None
    """How many copies the loop trains, where it is neither the modes nor the members."""
    training: dict[str, Any] | None = None
    """Settings of the training that differ, where a few steps of plain descent teach nothing."""
    slow: bool = False
    """Left to `make test-all`; its dynamics is that of a method that is not."""


ROWS = {
    "single": Row(Single(), DeepEnsemble(members=2)),
    "deep-ensemble": Row(DeepEnsemble(members=4), DeepEnsemble(members=6)),
    "batch-ensemble": Row(
        BatchEnsemble(members=2, modes=2), BatchEnsemble(members=2, modes=3), slow=True
    ),
    "rank1-bnn": Row(Rank1BNN(members=2, modes=2, annealing=0.9), slow=True),
    "node-bnn": Row(NodeBNN(members=2, samples=2, modes=2), slow=True),
    "lp-bnn": Row(LPBNN(members=2, latent=4, modes=2), slow=True),
    "masksembles": Row(Masksembles(members=2, modes=2), Masksembles(members=2, modes=3), slow=True),
    "packed-ensemble": Row(PackedEnsemble(members=4, alpha=4.0), slow=True),
    "mimo": Row(MIMO(members=2, modes=2, batch_repetitions=2), slow=True),
    "mnf": Row(MNF(samples=3, modes=2, flow_steps=1, auxiliary_steps=1, hidden=(4, 4)), slow=True),
    "forde": Row(FoRDE(members=4)),
    "feature-wgd": Row(FeatureWGD(members=4), slow=True),
    "lit": Row(LIT(members=4), slow=True),
    "weight-wgd": Row(WeightWGD(members=4), slow=True),
    "svgd": Row(SVGD(members=4), slow=True),
    "function-wgd": Row(FunctionWGD(members=4), slow=True),
    "function-svgd": Row(FunctionSVGD(members=4), slow=True),
    "swa": Row(SWA(modes=2, start=0.5), SWA(modes=3, start=0.5), slow=True),
    "snapshot-ensemble": Row(SnapshotEnsemble(members=3, modes=2), slow=True),
    "checkpoint-ensemble": Row(
        CheckpointEnsemble(members=2, modes=2), CheckpointEnsemble(members=2, modes=3), slow=True
    ),
    "fast-geometric": Row(FastGeometric(members=2, start=0.4, modes=2), slow=True),
    "sgld": Row(SGLD(samples=3, modes=2), SGLD(samples=3, modes=3), slow=True),
    "sghmc": Row(SGHMC(samples=3, modes=2), SGHMC(samples=3, modes=3), slow=True),
    "cyclical-sgmcmc": Row(
        CyclicalSGMCMC(cycles=2, samples=2, exploration=0.5, modes=2), slow=True
    ),
    "mean-field-vi": Row(
        MeanFieldVI(samples=3, modes=2), MeanFieldVI(samples=3, modes=3), slow=True
    ),
    "low-rank-vi": Row(LowRankVI(rank=2, samples=3, modes=2), slow=True),
    "full-covariance-vi": Row(FullCovarianceVI(samples=3, modes=2), slow=True),
    "hmc": Row(
        HMC(samples=5, warmup=60, leapfrog_steps=5, step_size=0.05, modes=2),
        HMC(samples=5, warmup=60, leapfrog_steps=5, step_size=0.05, modes=3),
        slow=True,
    ),
    "mile": Row(
        MILE(samples=5, warmup=40, thinning=2, modes=2),
        MILE(samples=5, warmup=40, thinning=2, modes=3),
        short=MILE(samples=1, warmup=10, thinning=1, modes=2),
        slow=True,
    ),
    "nuts": Row(
        NUTS(samples=5, warmup=60, depth=4, modes=2),
        short=NUTS(samples=1, warmup=1, depth=4, modes=2, step_size=0.05),
        slow=True,
    ),
    "mc-dropout": Row(
        MCDropout(samples=4, modes=2, mask_groups=2),
        MCDropout(samples=4, modes=3, mask_groups=2),
        slow=True,
    ),
    "mc-batch-norm": Row(
        MCBatchNorm(samples=3, rows=8, modes=2),
        MCBatchNorm(samples=3, rows=8, modes=3),
        MLP((8,), outputs=3, norm="batch"),
        slow=True,
    ),
    "laplace": Row(Laplace(samples=4, modes=2), Laplace(samples=4, modes=3), slow=True),
    "ntk": Row(NTK(members=4), NTK(members=6)),
    "gp": Row(GP(members=4, restarts=1), GP(members=6, restarts=1), slow=True),
    "svgp": Row(
        SVGP(inducing=12, members=4),
        SVGP(inducing=12, members=6),
        replicas=1,
        training={"optimiser": "adam", "learning_rate": 0.2},
        slow=True,
    ),
    "vip": Row(
        VIP(draws=20, members=4, least_steps=1),
        VIP(draws=20, members=6, least_steps=1),
        replicas=1,
        training={"optimiser": "adam", "learning_rate": 0.1, "epochs": 20},
        slow=True,
    ),
    "cnp": Row(
        CNP(hidden=16, encoder_layers=2, least_steps=1),
        replicas=1,
        training={"optimiser": "adam", "learning_rate": 0.02, "epochs": 30},
        slow=True,
    ),
    "np": Row(
        NP(hidden=16, latent=4, encoder_layers=2, members=4, least_steps=1),
        NP(hidden=16, latent=4, encoder_layers=2, members=6, least_steps=1),
        replicas=1,
        training={"optimiser": "adam", "learning_rate": 0.02, "epochs": 30},
        slow=True,
    ),
    "anp": Row(
        ANP(hidden=16, latent=4, heads=2, encoder_layers=2, members=4, least_steps=1),
        replicas=1,
        training={"optimiser": "adam", "learning_rate": 0.02, "epochs": 30},
        slow=True,
    ),
    "convcnp": Row(
        ConvCNP(hidden=16, blocks=1, resolution=8, kernel_size=3, least_steps=1),
        replicas=1,
        training={"optimiser": "adam", "learning_rate": 0.02, "epochs": 30},
        slow=True,
    ),
    "functional-vi": Row(
        FunctionalVI(
            2, points=4, data_points=4, samples=12, members=3, optimise=False, least_steps=1
        ),
        FunctionalVI(
            3, points=4, data_points=4, samples=12, members=3, optimise=False, least_steps=1
        ),
        training={"optimiser": "adam", "learning_rate": 0.1},
        slow=True,
    ),
    "nngp": Row(NNGP(members=4), NNGP(members=6), slow=True),
    "swag": Row(SWAG(modes=2, samples=3), SWAG(modes=3, samples=3), slow=True),
}
