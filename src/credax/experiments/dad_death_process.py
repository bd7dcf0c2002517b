"""When to count a population that dies: deep adaptive design (Foster et al. 2021)."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from credax.design import models
from credax.design.baselines import greedy_policy
from credax.design.policy_files import load_policy
from credax.experiments.design_policies import LABELS, Policies, arms, run
from credax.experiments.experiment import Experiment
from credax.experiments.study import StudyBench, StudyScale
from credax.report.figure import Figure, Panel, Sheet
from credax.report.layers import Line
from credax.report.svg import Axis, Frame


def second_time(bench: StudyBench) -> Figure:
    """When each policy looks the second time, given how many were dead the first time."""
    settings: Policies = bench.scale.settings
    model = models.get(settings.model, **settings.options)
    outcomes, lines, names = np.asarray(model.outcomes), [], []
    policies = {
        trial.arm.name: load_policy(trial.folder / "policy.safetensors", model).policy
        for trial in bench.trials
        if trial.arm.name in ("static", "dad") and trial.seed == 0
    }
    policies |= {"greedy": greedy_policy(model)}
    for number, (name, policy) in enumerate(policies.items()):
        state, key = policy.start(), jax.random.key(0)
        first = policy.choose(state, jnp.int32(0), key)

        def second(y, policy=policy, state=state, first=first, key=key):
            return policy.choose(policy.update(state, first, y), jnp.int32(1), key)

        times = jax.jit(jax.vmap(second))(jnp.asarray(outcomes))
        lines.append(Line(outcomes, np.asarray(times, float).ravel(), number, markers=False))
        names.append(f"{LABELS[name]} (first time {float(np.ravel(first)[0]):.2f})")
    top = max(float(np.max(line.y)) for line in lines)
    frame = Frame(Axis(0, float(outcomes[-1]), "dead at the first time"), Axis(0, top, "time"))
    caption = "When to look the second time, against what was seen the first time."
    return Sheet("second-time", caption, [Panel("", frame, lines)], 1, series=names)


_scale = partial(StudyScale, about="death process, 50 individuals, four looks")
TEST = _scale(
    arms("random", "static", "greedy", "dad"),
    seeds=1,
    settings=Policies(
        "death-process", 2, {"individuals": 4, "nodes": 40},
        training={"steps": 3, "batch": 8, "inner": 8}, static={"steps": 3, "batch": 8, "inner": 8},
        hidden=8, encoding=4, outer=16, inner=50, exact=("static", "dad"),
    ),
    note="four individuals, two looks and three steps: shows that the program runs",
)  # fmt: skip
CPU = _scale(
    arms("random", "static", "myopic", "greedy", "dad"),
    seeds=1,
    settings=Policies(
        "death-process", 4, {"nodes": 400},
        training={"steps": 3000, "batch": 1024, "inner": 256, "learning_rate": 2e-3,
                  "final_rate": 2e-5},
        static={"steps": 1000, "batch": 1024, "inner": 256, "learning_rate": 0.05,
                "final_rate": 5e-4},
        hidden=64, outer=8192, inner=20_000, exact=("static", "dad"),
    ),
    note=(
        "the published model and number of looks; 3000 steps, 1024 rollouts with the score "
        "function; times up to 3; no published figures are at hand to set beside these"
    ),
)  # fmt: skip
FULL = _scale(
    arms("random", "static", "myopic", "greedy", "dad"),
    seeds=4,
    settings=Policies(
        "death-process", 4, {"nodes": 400},
        training={"steps": 100_000, "batch": 200, "inner": 100, "learning_rate": 1e-3,
                  "final_rate": 6e-6},
        static={"steps": 20_000, "batch": 200, "inner": 100, "learning_rate": 0.01,
                "final_rate": 1e-4},
        hidden=128, outer=20_000, inner=100_000, exact=("static", "dad"),
    ),
    note=(
        "network, rate and draws of the authors' program (200 rollouts, 100 contrastive draws, "
        "rate 0.001 times 0.95 every 1000 steps); times up to 3, where theirs have no bound"
    ),
)  # fmt: skip

EXPERIMENT = Experiment(
    name="dad-death-process",
    title="When to count a population that dies",
    description=(
        "The rate at which individuals die is unknown; four times to count the dead are chosen, "
        "each after the outcomes before it. The claim: adapting is worth more than any fixed plan."
    ),
    scales={"test": TEST, "cpu": CPU, "paper": FULL},
    run=run(figure=second_time),
)
