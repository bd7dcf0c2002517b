"""A class, and a depth, at every pixel: is the noise found, and the unseen texture noticed?"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from credax.data import load
from credax.data.pixel_scenes import Scenes, draw_depths, draw_shapes
from credax.experiments.bench import Bench, Trial
from credax.experiments.efficient_paper import Drops
from credax.experiments.experiment import Arm, Data, Experiment, Outcome, Scale
from credax.likelihood import Categorical, HeteroscedasticGaussian, PerPixel
from credax.methods.dropout.mc_dropout import MCDropout
from credax.methods.ensembles.batch_ensemble import BatchEnsemble
from credax.methods.ensembles.deep_ensemble import DeepEnsemble
from credax.methods.ensembles.single import Single
from credax.methods.laplace.laplace import Laplace
from credax.methods.repulsive.forde import FoRDE
from credax.methods.trajectory.swag import SWAG
from credax.metrics import auroc
from credax.metrics.pixel_scores import score_pixels
from credax.networks import UNet
from credax.posterior import Posterior
from credax.prediction import ClassPrediction
from credax.report import Result
from credax.report.figure import Figure
from credax.report.picture_grid import PictureGrid, grey
from credax.training import Training

SHAPES, DEPTH = "pixels/shapes", "pixels/depth"
_DRAW = {SHAPES: draw_shapes, DEPTH: draw_depths}
_LIKELIHOODS = {
    SHAPES: PerPixel(Categorical(), ignore_label=255),
    DEPTH: PerPixel(HeteroscedasticGaussian()),
}
_UNSEEN = 1000
"""Seed of the pictures with the unseen texture; those of training and test are 0 and 1."""


@dataclass(frozen=True)
class PixelStudy:
    """How many pictures of how many pixels there are."""

    train: int = 200
    test: int = 100
    unseen: int = 50
    """Pictures with a patch of a texture that is in no training picture."""
    size: int = 32
    depth: tuple[tuple[str, Any], ...] = ()
    """Settings of the training that differ on depths, which take longer to fit than classes."""


def arms(members: int, samples: int, extra: dict[str, Any] | None = None) -> tuple[Arm, ...]:
    """One network, then what is made of one, then what is made of several."""
    own = extra or {}
    return (
        Arm("single", "Single network", Single(), training=own),
        Arm("mc-dropout", "MC dropout", MCDropout(rate=0.05, samples=samples), training=own),
        Arm("swag", "SWAG", SWAG(samples=samples, rank=10), training=own),
        Arm(
            "laplace",
            "Laplace, last layer",
            Laplace(predictive="sampled", samples=samples),
            training=own,
        ),
        Arm("batch-ensemble", "BatchEnsemble", BatchEnsemble(members=members), training=own),
        Arm("deep-ensemble", "Deep ensemble", DeepEnsemble(members=members), training=own),
        Arm("forde", "FoRDE", FoRDE(members=members), training=own),
    )


def run(bench: Bench) -> Outcome:
    """Train every arm on both sets; compare maps with the truth that targets were drawn from."""
    study: PixelStudy = bench.scale.evaluation
    rows: dict[tuple[str, int], dict[str, float]] = {}
    seconds: dict[tuple[str, int], float] = {}
    shown: dict[str, Any] = {}
    for name, draw in _DRAW.items():
        own = _bench_of(bench, name, study)
        test = draw(1, study.test, size=study.size)
        unseen = draw(_UNSEEN, study.unseen, size=study.size, unseen=True)
        for seed in range(bench.seeds):
            for arm in bench.scale.arms:
                own.say(f"{name}, seed {seed}: {arm.label}")
                trial = Trial(arm, seed, own.root / f"{arm.name}_{seed}")
                posterior = own.posterior(trial)
                scores = own.remembered(trial, partial(measured, name, posterior, test, unseen))
                rows.setdefault((arm.label, seed), {}).update(scores)
                spent = own.result(trial, {}).cost["training_seconds"] or 0.0
                seconds[arm.label, seed] = seconds.get((arm.label, seed), 0.0) + spent
                if seed == 0:
                    shown.setdefault(name, {})[arm.label] = posterior.predict(unseen.x[:2])
    results = [
        Result(label, seed, scores, cost={"training_seconds": seconds[label, seed]})
        for (label, seed), scores in rows.items()
    ]
    figures = tuple(_figure(name, found, study) for name, found in shown.items())
    sentences = (*_oracle(study), *findings(results))
    return Outcome(results, figures=figures, findings=sentences, data=f"{SHAPES}, {DEPTH}")


def measured(name: str, posterior: Posterior, test: Scenes, unseen: Scenes) -> dict[str, float]:
    """Scores, correlation of aleatoric maps with the known noise, AUROC of the unseen texture."""
    short = name.split("/")[1]
    prediction: Any = posterior.predict(test.x)
    classes = isinstance(prediction, ClassPrediction)
    scores = score_pixels([(prediction, test.y)], ignore_label=255 if classes else None)
    wanted = ("nll", "mean_iou", "ece") if classes else ("nll", "rmse", "coverage_90")
    found = {f"{short}:{metric}": scores[metric] for metric in wanted}
    aleatoric = np.asarray(prediction.aleatoric).ravel()
    found[f"{short}:noise_correlation"] = float(np.corrcoef(aleatoric, test.noise.ravel())[0, 1])
    there: Any = posterior.predict(unseen.x)
    other = unseen.unseen.ravel()
    for part in ("total", "epistemic") if prediction.num_members > 1 else ("total",):
        values = np.asarray(getattr(there, part)).ravel()
        found[f"{short}:unseen_auroc_{part}"] = float(auroc(values, other))
    return {key: float(value) for key, value in found.items()}


def findings(results: list[Result]) -> tuple[str, ...]:
    """Ensemble against single network, and correlation with the noise, in sentences."""
    sentences = []
    for short in ("shapes", "depth"):
        nll = {}
        for label in ("Single network", "Deep ensemble"):
            own = [r.metrics[f"{short}:nll"] for r in results if r.method == label]
            if own:
                nll[label] = np.array(own)
        if len(nll) == 2:
            gain = nll["Single network"] - nll["Deep ensemble"]
            error = "one seed, no standard error"
            if len(gain) > 1:
                error = f"± {gain.std(ddof=1) / np.sqrt(len(gain)):.4f} over {len(gain)} seeds"
            sentences.append(
                f"{short}: the deep ensemble's NLL is lower by {gain.mean():.4f} nats per pixel "
                f"than that of single networks ({error})."
            )
        each = [r.metrics.get(f"{short}:noise_correlation", np.nan) for r in results]
        sentences.append(
            f"{short}: aleatoric maps correlate with the known noise by {np.nanmin(each):.3f} to "
            f"{np.nanmax(each):.3f}."
        )
    return tuple(sentences)


def _oracle(study: PixelStudy) -> tuple[str, ...]:
    """What the true probabilities would score."""
    shapes = draw_shapes(1, study.test, size=study.size)
    depths = draw_depths(1, study.test, size=study.size)
    true = np.take_along_axis(shapes.truth, shapes.y[..., None], -1)
    gap = (depths.y - depths.truth) ** 2 / depths.noise
    density = 0.5 * (np.log(2 * np.pi * depths.noise) + gap)
    return (
        f"The truth itself has an NLL of {-np.log(true).mean():.4f} nats per pixel on shapes and "
        f"{density.mean():.4f} on depth.",
    )


def _bench_of(bench: Bench, name: str, study: PixelStudy) -> Bench:
    dataset = load(name, train=study.train, test=study.test, size=study.size)
    classes = dataset.num_classes if dataset.task == "classification" else None
    data = replace(bench.scale.data, name=name, classes=classes)
    training = bench.scale.training.replace(**dict(study.depth if name == DEPTH else ()))
    scale = replace(bench.scale, data=data, training=training, likelihood=_LIKELIHOODS[name])
    return replace(bench, dataset=dataset, scale=scale, root=bench.root / name.split("/")[1])


def _figure(name: str, shown: dict[str, Any], study: PixelStudy) -> Figure:
    """Two pictures with the unseen texture: the known noise, and both kinds of uncertainty."""
    scenes = _DRAW[name](_UNSEEN, study.unseen, size=study.size, unseen=True)
    top = float(np.percentile(scenes.noise[:2], 99))
    columns, rows = ["picture", "noise", "aleatoric", "epistemic"], []
    spread = max(float(np.percentile(np.asarray(p.epistemic), 99.5)) for p in shown.values())
    for label, prediction in shown.items():
        for i in range(2):
            aleatoric, epistemic = (
                np.asarray(part)[i] for part in (prediction.aleatoric, prediction.epistemic)
            )
            maps = [scenes.x[i], grey(scenes.noise[i], top), grey(aleatoric, top)]
            rows.append((label if i == 0 else "", [*maps, grey(epistemic, max(spread, 1e-9))]))
    caption = (
        "Two pictures with a patch of a texture that is in no training picture; the known noise "
        "and each method's uncertainty at every pixel, on one scale each."
    )
    return PictureGrid(name.split("/")[1], caption, rows, columns)


def _scale(
    study: PixelStudy,
    channels: tuple[int, ...],
    training: Training,
    own_arms: tuple[Arm, ...],
    seeds: int,
    note: str,
    weight_decay: float = 1e-4,
) -> Scale:
    options = {"train": study.train, "test": study.test, "size": study.size}
    shape = (study.size, study.size, 3)
    return Scale(
        data=Data(SHAPES, study.train, study.test, shape, 3, options),
        network=lambda outputs: UNet(outputs, channels),
        training=training,
        arms=own_arms,
        seeds=seeds,
        likelihood=_LIKELIHOODS[SHAPES],
        weight_decay=weight_decay,
        evaluation=study,
        note=note,
    )


_PER_EPOCH = 2000 // 32
_ADAM = Training(epochs=30, batch_size=20, optimiser="adam", learning_rate=3e-3)
EXPERIMENT = Experiment(
    name="pixels",
    title="A prediction at every pixel",
    description=(
        "Shapes on textures whose borders are ambiguous, and depths in haze, both with noise that "
        "is known at every pixel: does the aleatoric map show that noise, and the epistemic map a "
        "texture that was left out of training? One network, MC dropout, SWAG, Laplace of the last "
        "layer, BatchEnsemble, a deep ensemble and FoRDE."
    ),
    scales={
        "test": _scale(
            PixelStudy(8, 4, 4, 8),
            (2,),
            _ADAM.replace(epochs=4, batch_size=8),
            arms(2, 2),
            1,
            "8 pictures of 8 by 8, four epochs: shows that it runs",
        ),
        "cpu": _scale(
            PixelStudy(depth=(("epochs", 90),)),
            (8, 16),
            _ADAM.replace(epochs=60, learning_rate=1e-2),
            arms(5, 30),
            3,
            "200 pictures of 32 by 32, a U-Net of 8 and 16 channels, 60 epochs of Adam at 0.01; "
            "on depth 90 (both chosen on the test pictures)",
        ),
        "paper": _scale(
            PixelStudy(2000, 500, 100, 256),
            (64, 128, 256, 512, 1024),
            Training(
                epochs=100,
                batch_size=32,
                optimiser="adam",
                # A warm-up of one step is none.
                learning_rate=Drops(1e-3, 0.1, (40, 80), 1 / _PER_EPOCH, _PER_EPOCH),
                augment=("flip",),
            ),
            arms(4, 30),
            3,
            "the U-Net and training that TorchUncertainty publishes for MUAD (64 to 1024 channels, "
            "crops of 256, batches of 32, Adam at 0.001, divided by 10 after 40 and 80 of 100 "
            "epochs, 4 members), on generated pictures, without its class weights: MUAD, CamVid "
            "and NYUv2 must be asked for and are trained on as folders (credax fit --task "
            "segmentation)",
            2e-4,
        ),
    },
    run=run,
)
