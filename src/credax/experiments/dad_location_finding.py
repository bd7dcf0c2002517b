"""Two hidden sources in the plane: deep adaptive design (Foster et al. 2021)."""

from functools import partial

import jax
import numpy as np

from credax.design import models
from credax.design.deep_adaptive import roll_out
from credax.design.policy_files import load_policy
from credax.experiments.design_policies import Policies, arms, run
from credax.experiments.experiment import Experiment
from credax.experiments.published import Measure, Published
from credax.experiments.study import StudyBench, StudyScale
from credax.report.figure import Figure, Panel, Sheet
from credax.report.layers import Line
from credax.report.named_points import NamedPoints
from credax.report.svg import Axis, Frame

PAPER = Published(
    "Foster et al. 2021: 30 experiments, two sources",
    "Deep adaptive design, ICML 2021, location finding; these figures were written down from "
    "memory and not checked against the paper; there designs are unbounded and random ones are "
    "normal; its variational row refits the posterior as our myopic one does",
    (Measure("lower_bound", "lower bound"), Measure("upper_bound", "upper bound")),
    """
    Random | 8.30  | -
    Static | 8.84  | -
    Myopic | 8.78  | -
    DAD    | 10.93 | 12.38
    """,
)
SHOWN = 4


def paths(bench: StudyBench) -> Figure:
    """Where the network listens for sources that it does not know, in four simulations."""
    settings: Policies = bench.scale.settings
    model = models.get(settings.model, **settings.options)
    panels = []
    kept = [trial for trial in bench.trials if trial.arm.name == "dad"][:1]
    for trial in kept:
        policy = load_policy(trial.folder / "policy.safetensors", model).policy
        for number in range(SHOWN):
            first, second = jax.random.split(jax.random.key(number))
            theta = model.prior_sample(first)
            found = roll_out(model, policy, theta, second, settings.rounds)
            designs, sources = np.asarray(found.designs), np.asarray(theta)
            frame = Frame(Axis(-4, 4, ""), Axis(-4, 4, ""))
            names = [f"source {place + 1}" for place in range(len(sources))]
            layers = [
                Line(designs[:, 0], designs[:, 1]),
                NamedPoints(sources[:, 0], sources[:, 1], names),
            ]
            panels.append(Panel(f"Simulation {number + 1}", frame, layers))
    caption = (
        "Designs of the trained policy in order, joined by a line, and the hidden sources, in "
        "simulations that it was not trained on."
    )
    return Sheet("paths", caption, panels, 2)


_scale = partial(StudyScale, about="location finding, two sources in the plane, noise 0.5")
TEST = _scale(
    arms("random", "static", "myopic", "dad"),
    seeds=1,
    settings=Policies(
        "location-finding", 2, training={"steps": 3, "batch": 8, "inner": 8},
        static={"steps": 3, "batch": 8, "inner": 8}, hidden=8, encoding=4, outer=16, inner=50,
        normal_designs=True, myopic={"particles": 20, "outer": 4, "inner": 8, "moves": 1},
    ),
    note="two experiments and three steps: shows that the program runs",
)  # fmt: skip
CPU = _scale(
    arms("random", "static", "myopic", "dad"),
    seeds=1,
    settings=Policies(
        "location-finding", 10,
        training={"steps": 4000, "batch": 256, "inner": 512, "learning_rate": 1e-3,
                  "final_rate": 1e-5},
        static={"steps": 2000, "batch": 256, "inner": 512, "learning_rate": 0.05,
                "final_rate": 5e-4},
        hidden=128, outer=2048, inner=50_000, normal_designs=True,
    ),
    note=(
        "ten experiments in place of 30, designs within 4 of the origin in every coordinate, 4000 "
        "steps in place of 50 000, with fewer rollouts and contrastive draws"
    ),
)  # fmt: skip
FULL = _scale(
    arms("random", "static", "myopic", "dad"),
    seeds=1,
    settings=Policies(
        "location-finding", 30,
        training={"steps": 50_000, "batch": 2000, "inner": 2000, "learning_rate": 5e-5,
                  "final_rate": 1.8e-5},
        static={"steps": 50_000, "batch": 2000, "inner": 2000, "learning_rate": 5e-3,
                "final_rate": 1.8e-3},
        hidden=256, outer=2048, inner=500_000, normal_designs=True,
        options={"widest": 8.0},
    ),
    note=(
        "the published sizes: 30 experiments, 50 000 steps with 2000 rollouts and 2000 contrastive "
        "draws, the rate times 0.98 every 1000 steps, 500 000 contrastive draws to evaluate; "
        "designs within 8 of the origin, where the paper has no bounds"
    ),
)  # fmt: skip

EXPERIMENT = Experiment(
    name="dad-location-finding",
    title="Where to listen for two hidden sources",
    description=(
        "A policy that chooses where to measure next, trained by the information of the whole "
        "sequence, beside random, fixed and one-step-ahead plans. The claim: it learns more from "
        "the same number of experiments, and needs no inference between them."
    ),
    scales={"test": TEST, "cpu": CPU, "paper": FULL},
    run=run(PAPER, figure=paths),
)
