"""Money now or later: deep adaptive design of a questionnaire (Foster et al. 2021)."""

from functools import partial

from credax.experiments.design_policies import Policies, arms, run
from credax.experiments.experiment import Experiment
from credax.experiments.study import StudyScale

LOG_DELAY = {"log_delay": True}

_scale = partial(StudyScale, about="hyperbolic discounting, 100 later against less now")
TEST = _scale(
    arms("random", "static", "myopic", "dad"),
    seeds=1,
    settings=Policies(
        "hyperbolic-discounting", 2, LOG_DELAY, training={"steps": 3, "batch": 8, "inner": 8},
        static={"steps": 3, "batch": 8, "inner": 8}, hidden=8, encoding=4, outer=16, inner=50,
        myopic={"particles": 20, "moves": 1},
    ),
    note="two questions and three steps: shows that the program runs",
)  # fmt: skip
CPU = _scale(
    arms("random", "static", "myopic", "dad"),
    seeds=1,
    settings=Policies(
        "hyperbolic-discounting", 10, LOG_DELAY,
        training={"steps": 5000, "batch": 512, "inner": 128, "learning_rate": 1e-3,
                  "final_rate": 1e-5},
        static={"steps": 2000, "batch": 512, "inner": 128, "learning_rate": 0.05,
                "final_rate": 5e-4},
        hidden=128, outer=2048, inner=20_000,
    ),
    note=(
        "ten questions in place of 20 and 5000 steps in place of 100 000; delays up to 10 000 "
        "days, chosen by their logarithm; no published figures are at hand to set beside these"
    ),
)  # fmt: skip
FULL = _scale(
    arms("random", "static", "myopic", "dad"),
    seeds=1,
    settings=Policies(
        "hyperbolic-discounting", 20, LOG_DELAY,
        training={"steps": 100_000, "batch": 500, "inner": 500, "learning_rate": 1e-4,
                  "final_rate": 1.7e-6},
        static={"steps": 20_000, "batch": 500, "inner": 500, "learning_rate": 0.05,
                "final_rate": 5e-4},
        hidden=256, outer=2048, inner=500_000,
    ),
    note=(
        "20 questions, 100 000 steps and 500 contrastive draws as published; the probit has the "
        "argument of the paper, where the authors' program has an error function of it"
    ),
)  # fmt: skip

EXPERIMENT = Experiment(
    name="dad-hyperbolic",
    title="Which question about money now or later",
    description=(
        "How steeply a person discounts the future, by choices between 100 after some days and "
        "less now. The claim: a policy that adapts to answers learns more than a fixed list of "
        "questions."
    ),
    scales={"test": TEST, "cpu": CPU, "paper": FULL},
    run=run(),
)
