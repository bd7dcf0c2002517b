"""What the image experiments share: the published settings, the arms, a network for a processor.

Settings of the released commands (README of AaltoPML/FoRDE): ten members, batches of 128, SGD with
Nesterov momentum 0.9 at rate 0.1 that falls linearly to a ratio between half and nine tenths of the
training, weight decay 5e-4 on every parameter, eps 1e-24, flips and crops drawn once for all
members, a head that starts at zero, no warm-up, no validation rows.
"""

from functools import partial

from credax.data.corruptions import names as corruption_names
from credax.experiments.bench import Bench
from credax.experiments.experiment import Arm, Data, Outcome, Scale
from credax.experiments.forde_digits import TRAINING, baselines, ensemble, saliency
from credax.experiments.published import Measure, Published
from credax.experiments.shift import Shift, corruption_outcome, study
from credax.methods.ensembles.single import Single
from credax.methods.repulsive.forde import FoRDE
from credax.network import Network
from credax.networks import CNN, MLP, AvgPool, Sequential, build
from credax.training import Training

SOURCE = (
    "Trinh, Heinonen, Acerbi, Kaski: Input-gradient space particle inference for neural network "
    "ensembles, ICLR 2024"
)
MEASURES = (
    Measure("nll", "NLL"),
    Measure("accuracy", "acc %", 100, 2),
    Measure("ece", "ECE"),
    Measure("corrupted_accuracy", "cA %", 100, 2),
    Measure("corrupted_nll", "cNLL"),
    Measure("corrupted_ece", "cECE"),
)
EPS = 1e-24
MEMBERS = 10


def paper_training(epochs: int, final_ratio: float) -> Training:
    """The README's training."""
    return Training(
        epochs=epochs,
        batch_size=128,
        optimiser="sgd",
        learning_rate=0.1,
        momentum=0.9,
        nesterov=True,
        schedule="piecewise-linear",
        final_ratio=final_ratio,
        milestones=(0.5, 0.9),
        warmup_epochs=0.0,
        last_batch="drop",
        augment=("flip", "crop"),
        shared_augment=True,
    )


def paper_network(name: str, outputs: int) -> Network:
    """A registered network whose head starts at zero."""
    return build(name, outputs, zero_head=True)


def paper_scale(
    data: Data, network: str, training: Training, tuned: float, feature_scale: float, suite: str
) -> Scale:
    """The README's settings on all rows, every arm, five seeds."""
    kinds = len(corruption_names(suite))
    return Scale(
        data=data,
        network=partial(paper_network, network),
        training=training,
        arms=all_arms(MEMBERS, tuned, feature_scale, partial(build, network)),
        seeds=5,
        evaluation=Shift(suite),
        note=f"the README's settings; corrupted rows are generated corruptions of {kinds} kinds, "
        "not the published files",
    )


def small_network(outputs: int, zero_head: bool = True) -> Network:
    """For a processor: pixels averaged two by two, then convolutions of 16 and 32 channels."""
    return Sequential((AvgPool(2), CNN(outputs, (16, 32), dense=64, zero_head=zero_head)))


def all_arms(
    members: int, tuned: float, feature_scale: float, started, rank: int | None = None
) -> tuple[Arm, ...]:
    """The rows of the tables that are implemented here; the tuned mix is the paper's best."""
    return (
        *baselines(members, started, prior_scale=feature_scale),
        *forde_arms(members, rank),
        Arm(
            "forde-tuned",
            "FoRDE-Tuned",
            FoRDE(members, lengthscale=tuned, rank=rank, residual="mean", eps=EPS),
        ),
    )


def forde_arms(members: int, rank: int | None = None) -> tuple[Arm, ...]:
    """FoRDE in the metric of all components (or the leading ones), and in the identity metric."""
    return (
        Arm("forde-pca", "FoRDE-PCA", FoRDE(members, rank=rank, eps=EPS)),
        Arm("forde-identity", "FoRDE-Identity", FoRDE(members, lengthscale="identity", eps=EPS)),
    )


def cpu_scale(data: Data, seeds: int = 3, arms: tuple[Arm, ...] | None = None) -> Scale:
    """Ten minutes on two cores: a small network, few rows, 10 epochs, nine corruptions."""
    chosen = (Arm("single", "Single network", Single()), ensemble(5), *forde_arms(5, 256))
    return Scale(
        data=data,
        network=small_network,
        training=TRAINING.replace(
            epochs=10,
            augment=("flip",),
            # Measured on two cores: the loop's convolutions are several times slower.
            strategy="unroll",
            stepping="dispatch",
        ),
        arms=chosen if arms is None else arms,
        seeds=seeds,
        evaluation=Shift("fast", rows=500),
        note=(
            f"{data.train_rows} training rows, {data.test_rows} test rows, a network of two "
            "convolutions on pixels averaged two by two, five members, ten epochs, 256 components, "
            "nine generated corruptions of 500 test rows"
        ),
    )


def test_scale(shape: tuple[int, ...], classes: int, name: str) -> Scale:
    """Generated images in the shape of the set, a few steps."""
    data = Data(name, 128, 64, shape, classes, synthetic=True)
    arms = (Arm("single", "Single network", Single()), ensemble(2), *forde_arms(2, 16))
    small = Training(epochs=2, batch_size=32, learning_rate=0.05, shared_augment=True)
    return Scale(
        data=data,
        network=lambda outputs: Sequential((AvgPool(4), MLP((8,), outputs))),
        training=small,
        arms=arms,
        seeds=1,
        evaluation=Shift(("gaussian_noise", "contrast"), (1, 5), rows=32, gradient_rows=16),
        note="generated images, not the published ones, 8 steps: shows that the program runs",
    )


def run(*published: Published):
    """The experiment's function: clean and corrupted scores beside the published tables."""

    def measure(bench: Bench) -> Outcome:
        return corruption_outcome(study(bench), published, saliency(bench))

    return measure
