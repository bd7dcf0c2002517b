"""Runs and calibrators: small valid files, and their public readers."""

import os
import shutil
import warnings
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "before"


def golden(name, folder):
    shutil.copytree(GOLDEN / name, folder / name)
    for file in ("flowers.csv", "numbers.csv"):
        shutil.copy(GOLDEN / file, folder)


class Saved(NamedTuple):
    method: Any
    problem: Any
    data: Any
    about: Any


@cache
def saved(name):
    """A golden run as it should be."""
    from credax.cli.saved import original_rows, saved_run

    here = os.getcwd()
    os.chdir(GOLDEN)
    try:
        run = saved_run(name)
        return Saved(run.method, run.problem, original_rows(run), run.about)
    finally:
        os.chdir(here)


def numbers(prediction):
    from credax.prediction import ClassPrediction

    classes = isinstance(prediction, ClassPrediction)
    names = ("probs", "total", "epistemic") if classes else ("mean", "std", "epistemic")
    return [np.asarray(getattr(prediction, name)) for name in names]


def members(name, folder):
    method, problem, data, _ = saved(name)
    posterior = method.load(folder / name / "members.safetensors", problem)
    return numbers(posterior.predict(data.test.x[:3]))


def make_infinite(folder):
    method, problem, data = infinite()
    import credax as cx

    fitted = cx.fit(problem, method, data.train[slice(0, 8)], training=cx.Training(1, 8))
    fitted.save(folder / "members.safetensors")


@cache
def infinite():
    import credax as cx
    from credax import methods

    _, problem, data, _ = saved("deep-ensemble")
    plain = cx.Problem(problem.network, problem.likelihood)
    return methods.get("ntk")(members=3), plain, data


def read_infinite(folder):
    method, problem, data = infinite()
    posterior = method.load(folder / "members.safetensors", problem)
    return numbers(posterior.predict(data.test.x[:3]))


def read_state(folder):
    from credax.files import load_arrays
    from credax.training.run import RunFolder

    template, _ = load_arrays(GOLDEN / "unfinished" / "state.safetensors", finite=False)
    found = RunFolder(folder / "unfinished").load_state(template)
    return None if found is None else [np.float64(found[1]["step"])]


def read_show(name, folder):
    from credax.cli.show import describe

    shown = describe(str(folder / name))
    print(shown)
    return [np.float64(shown["loss"] or 0.0)]


def read_list(folder):
    from credax.cli.list import run

    run(["runs", "--root", str(folder)])
    run(["runs", "--root", str(folder), "--json"])


def read_config(name, folder):
    from credax.cli.saved import saved_run

    here = os.getcwd()
    os.chdir(folder)
    try:
        run = saved_run(name)
        x = np.zeros((2, *run.about.input_shape), np.float32)
        print(run.seed, run.about, run.stored)
        return numbers(run.posterior().predict(x))
    finally:
        os.chdir(here)


def make_new_run(folder):
    """A run that says all of itself, in the present format."""
    import credax as cx

    shutil.copy(GOLDEN / "flowers.csv", folder)
    data = cx.data.load(folder / "flowers.csv")
    problem = cx.Problem(cx.networks.MLP((4,), outputs=3), cx.Categorical())
    training = cx.Training(epochs=1, batch_size=16)
    cx.fit(problem, "deep-ensemble", data, training=training, folder=folder / "run", progress=False)


def read_rows(folder):
    from credax.cli.saved import kept_rows, saved_run

    rows = kept_rows(saved_run(folder / "run")).dataset.test
    return [np.asarray(rows.x, np.float64), np.asarray(rows.y, np.float64)]


def read_shift(folder):
    from credax.cli.evaluation import read_shift

    read_shift(folder / "digits" / "shift.json")


def class_prediction(classes):
    from credax.prediction import ClassPrediction

    rng = np.random.default_rng(classes)
    return ClassPrediction.from_logits(rng.standard_normal((2, 60, classes)))


def number_prediction():
    from credax.prediction import GaussianPrediction

    rng = np.random.default_rng(0)
    return GaussianPrediction(rng.standard_normal((2, 60, 1)), np.ones((2, 60, 1)))


def predicted(name):
    from credax import calibration

    rng = np.random.default_rng(1)
    if calibration.entry(name).task == "regression":
        return number_prediction(), rng.standard_normal(60)
    classes = 2 if name in ("beta", "platt") else 3
    return class_prediction(classes), rng.integers(0, classes, 60)


def make_calibrator(name, folder):
    from credax import calibration

    with warnings.catch_warnings(action="ignore"):
        fitted = calibration.get(name)().fit(*predicted(name), key=0)
    calibration.save(folder / f"{name}.safetensors", fitted)


def read_calibrator(name, folder):
    from credax import calibration

    after = calibration.load(folder / f"{name}.safetensors")(predicted(name)[0])
    if isinstance(after, np.ndarray):
        return [after]
    if isinstance(after, calibration.Intervals):
        return [np.isnan(end).astype(float) / (1 - np.isnan(end)) for end in after]
    if isinstance(after, calibration.RecalibratedPrediction):
        return [np.asarray(after.as_mixture().mean)]
    return numbers(after)


def make_person(folder):
    """A run that asks a person, before anything is trained."""
    from credax.cli.main import main

    lines = [
        f"{number % 7},{'ab'[number % 2]},{'yes' if number < 3 else ''}" for number in range(9)
    ]
    (folder / "pool.csv").write_text("\n".join(["size,sort,label", *lines, ""]))
    flags = ["--data", str(folder / "pool.csv"), "--target", "label", "--initial", "3", "--quiet"]
    flags += ["--query", "3"]
    assert main(["active", "start", *flags, "--out", str(folder / "run")]) == 0


def read_person(folder):
    """Everything that tell and status read of a run, and the table that a person fills."""
    from credax.active.folder import LoopFolder
    from credax.cli.active_person import asking
    from credax.cli.person_run import open_run
    from credax.cli.person_status import print_status, summary
    from credax.cli.to_label import TABLE, write_questions

    run = open_run(LoopFolder(folder / "run"))
    print_status(run)
    print(summary(run), run.settings, run.task, run.preparation)
    found = asking(run)
    write_questions(run)
    answers = found.read(folder / "run" / TABLE)
    return [np.asarray(run.pool, np.float64), run.units.mean, np.float64(len(answers.labels))]
