"""Variants of methods on the command line and in a grid, and the LaTeX table."""

import dataclasses
import itertools

import pytest

import credax as cx
from credax.cli.config import Compare, Task, read_arguments
from credax.cli.job import Job
from credax.cli.recipes import for_rows, recipe_of
from credax.cli.variants import read_grid, read_variants
from credax.report import Comparison, Result, latex, summarise


def test_options_go_to_the_method_the_training_or_the_task():
    text = "swag:modes=5:rank=3:learning_rate=1:weight_decay=0.01"
    single, swag = read_variants(("single", text), None, Task(), 7)
    assert single.method == cx.Single()
    assert (swag.method.modes, swag.method.rank) == (5, 3)
    assert swag.task.training.learning_rate == 1.0
    assert type(swag.task.training.learning_rate) is float
    assert swag.task.weight_decay == 0.01
    assert single.label == "single"
    assert swag.label == "swag-modes=5-rank=3-learning_rate=1-weight_decay=0.01"
    (ensemble,) = read_variants(("deep-ensemble",), None, Task(), 7)
    assert (ensemble.method.members, ensemble.label) == (7, "deep-ensemble")
    (own,) = read_variants(("deep-ensemble:members=2",), None, Task(), 7)
    assert (own.method.members, own.label) == (2, "deep-ensemble-members=2")


def test_a_method_with_one_member_keeps_it():
    (flows,) = read_variants(("mnf",), None, Task(), 7)
    assert (flows.method.members, flows.label) == (1, "mnf")


def test_commas_inside_brackets_do_not_separate():
    words = ["--methods", "single,swag:milestones=(0.2,0.8)"]
    found = read_arguments(Compare, words, "compare").methods
    assert found == ("single", "swag:milestones=(0.2,0.8)")
    variants = read_variants(found, None, Task(), None)
    assert variants[1].task.training.milestones == (0.2, 0.8)


def test_long_labels_are_cut_and_stay_apart():
    long = "swag:modes=2:rank=3:learning_rate=0.05:weight_decay=0.01:momentum=0.5:epochs={}"
    one, other = read_variants((long.format(10), long.format(11)), None, Task(), None)
    assert len(one.label) <= 60
    assert one.label != other.label


def test_a_grid_has_all_combinations(tmp_path):
    path = tmp_path / "grid.toml"
    path.write_text("[all]\nepochs = [1, 2]\n[swag]\nmodes = [1, 5]\nrank = 4\n[single]\n")
    found = read_grid(path, ())
    expected = [
        ("swag", {"epochs": e, "modes": m, "rank": 4}) for e, m in itertools.product((1, 2), (1, 5))
    ]
    assert found == [*expected, ("single", {"epochs": 1}), ("single", {"epochs": 2})]
    path.write_text("[all]\nmilestones = [[0.1, 0.2], [0.3, 0.4]]\n")
    variants = read_variants(("single",), str(path), Task(), None)
    assert [v.task.training.milestones for v in variants] == [(0.1, 0.2), (0.3, 0.4)]


@pytest.mark.parametrize(
    ("methods", "words"),
    [
        ("swag:mode=3", "did you mean 'modes'"),
        ("swag:modes=x", "modes takes int"),
        ("swag:modes", "write options as name=value"),
        ("swag:modes=2.5", "modes takes int"),
        ("single:data=iris", "unknown option of method 'single' 'data'"),
        ("singel", "did you mean 'single'"),
    ],
)
def test_what_cannot_be_is_refused(methods, words):
    with pytest.raises(cx.InputError, match=words):
        read_variants((methods,), None, Task(), None)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("x = 3", "outside a table"),
        ("[swag", "is not TOML"),
        ("[swag]\nmodes = []", "no value for modes"),
    ],
)
def test_a_grid_that_cannot_be_is_refused(tmp_path, content, words):
    path = tmp_path / "grid.toml"
    path.write_text(content)
    with pytest.raises(cx.InputError, match=words):
        read_variants((), str(path), Task(), None)


def test_the_same_variant_twice_is_refused():
    with pytest.raises(cx.InputError, match="single twice"):
        read_variants(("single", "single"), None, Task(), None)


def test_latex_has_means_errors_and_the_best_in_bold():
    values = {"A_1": (0.90, 0.91, 0.92), "B & C": (0.50, 0.51, 0.52)}
    results = [
        Result(name, seed, {"accuracy": value})
        for name, own in values.items()
        for seed, value in enumerate(own)
    ]
    text = latex(summarise(Comparison("title", "data", "classification", results)))
    # The standard error of three values 0.01 apart is 0.01 / sqrt(3).
    assert r"A\_1 & $\mathbf{0.9100} \pm 0.0058$ \\" in text
    assert r"B \& C & $0.5100 \pm 0.0058$ \\" in text
    assert r"Accuracy $\uparrow$" in text
    assert text.count(r"\toprule") == text.count(r"\bottomrule") == 1


def test_the_recipe_of_a_table_keeps_the_best_epoch_where_a_method_can():
    task = recipe_of(["--data", "mine.csv", "--target", "y"])
    assert task.training.keep_best
    assert task.weight_decay is None
    assert task.validation > 0
    kept = [v.task.training.keep_best for v in read_variants(("single", "swag"), None, task, None)]
    assert kept == [True, False]
    # What cannot stop early trains for fewer epochs, unless these are chosen; chains begin at an
    # ensemble that stops.
    epochs = [
        (v.task.training.epochs, v.task.training.patience)
        for v in read_variants(("single", "mile", "swag"), None, task, None)
    ]
    assert epochs == [(300, 30), (300, 30), (60, None)]
    (swag,) = read_variants(("swag",), None, task, None, ["--epochs=300"])
    assert swag.task.training.epochs == 300
    assert for_rows(task.training, 32_000).epochs == 30
    assert for_rows(task.training, 3200).epochs == 300
    # Chosen by the user it stays, and the method says that it cannot.
    (swag,) = read_variants(("swag",), None, task, None, ["--keep-best"])
    assert swag.task.training.keep_best


def test_the_prior_of_a_table_depends_on_its_rows(tmp_path):
    rows = "\n".join(f"{i % 7},{i % 3}.5,{'ab'[i % 2]}" for i in range(100))
    (tmp_path / "mine.csv").write_text(f"u,v,label\n{rows}\n")
    task = recipe_of(["--data", str(tmp_path / "mine.csv"), "--target", "label"])
    job = Job.of(dataclasses.replace(task, target=("label",)))
    assert job.task.weight_decay == pytest.approx(4 / len(job.dataset.train))
