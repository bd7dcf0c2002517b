"""The rows of the comparison: the eight efficient ensembles, and what they are compared with."""

from collections.abc import Mapping
from typing import Any

from credax.experiments.experiment import Arm
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
from credax.methods.trajectory.swag import SWAG
from credax.methods.variational.mnf import MNF

MEMBERS = 4
SHORT = "Deep ensemble, same cost"
"""As many members, each trained for a quarter of the epochs: the training cost of one network."""


def baselines(members: int, draws: int, shortened: Mapping[str, Any]) -> tuple[Arm, ...]:
    """One network, deep ensembles of the same size and of the same cost, MC dropout and SWAG.

    ``shortened`` are the changes of the training that divide its epochs by ``members``.
    """
    return (
        Arm("single", "Single network", Single()),
        Arm("deep-ensemble", "Deep ensemble", DeepEnsemble(members)),
        Arm("short-ensemble", SHORT, DeepEnsemble(members), training=shortened),
        Arm("mc-dropout", "MC dropout", MCDropout(samples=draws)),
        Arm("swag", "SWAG", SWAG(samples=draws)),
    )


def efficient(members: int, draws: int, flows: Mapping[str, Any]) -> tuple[Arm, ...]:
    """The eight, each at about the training cost of one network.

    Methods that are mixtures draw ``draws`` networks in all for a prediction. Batches are split
    among members and no row is repeated. ``flows`` are the changes of the training for MNF.
    """
    return (
        Arm("batch-ensemble", "BatchEnsemble", BatchEnsemble(members=members)),
        Arm("rank1-bnn", "Rank-1 BNN", Rank1BNN(members=members)),
        Arm(
            "node-bnn",
            "Node BNN",
            NodeBNN(members=members, samples=max(1, draws // members)),
            training=CLIPPED,
        ),
        Arm("lp-bnn", "LP-BNN", LPBNN(members=members), training=CLIPPED),
        Arm("masksembles", "Masksembles", Masksembles(members=members)),
        Arm("packed-ensemble", "Packed-Ensemble", PackedEnsemble(members=members)),
        Arm("mimo", "MIMO", MIMO(batch_repetitions=1)),
        Arm("mnf", "MNF", MNF(samples=draws), training=flows),
    )


CLIPPED = {"clip_norm": 1.0}
"""For node-BNN and LP-BNN, some runs of which diverge at the rate of the others."""
ADAM = {"optimiser": "adam", "learning_rate": 1e-3}
"""What MNF was published with."""
