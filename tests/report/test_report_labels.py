"""Variants of one method in one report."""

import pytest

from credax.errors import InputError
from credax.report import Comparison, Result, distinguish


def run(title, seed, method=(), training=(), key=None, **task):
    config = {
        "credax": task.pop("version", "0.1.0"),
        "task": {"data": "digits", "network": "mlp", "likelihood": "auto", **task},
        "seed": seed,
        "key": [0, seed] if key is None else key,
        "method": {"name": title.lower(), "rank": 20, "scale": 0.5, **dict(method)},
        "training": {"epochs": 10, "strategy": "auto", **dict(training)},
    }
    return Result(title, seed, {"nll": 1.0}, config=config)


def labels(*results):
    return [result.method for result in distinguish(results)]


def test_variants_are_told_apart_by_what_differs():
    runs = [run("SWAG", seed, {"rank": rank}) for rank in (10, 20) for seed in (0, 1)]
    runs.append(run("Single", 0))
    found = distinguish(runs)
    comparison = Comparison("t", "d", "classification", found)
    assert comparison.methods == ("SWAG (rank 10)", "SWAG (rank 20)", "Single")
    assert [r.seed for r in comparison.of("SWAG (rank 20)")] == [0, 1]
    assert [r.config for r in found] == [r.config for r in runs]


def test_the_methods_settings_come_first_then_the_trainings_then_the_networks():
    found = labels(
        run("SWAG", 0, {"rank": 10, "scale": 1.0}, {"epochs": 20}, network="cnn"),
        run("SWAG", 0),
    )
    assert found == [
        "SWAG (rank 10, scale 1, epochs 20, network cnn)",
        "SWAG (rank 20, scale 0.5, epochs 10, network mlp)",
    ]


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ({"rank": None}, {"rank": 3}, ("rank none", "rank 3")),
        ({"flag": True}, {"flag": False}, ("flag on", "flag off")),
        ({"prior": {"scale": 1}}, {"prior": {"scale": 2}}, ("prior scale 1", "prior scale 2")),
        ({"leaves": [1]}, {"leaves": []}, ("leaves [1]", "leaves []")),
    ],
)
def test_values_of_every_kind_are_words(one, other, words):
    assert labels(run("S", 0, one), run("S", 0, other)) == [f"S ({text})" for text in words]


def test_network_options_are_settings():
    found = labels(
        run("S", 0, network_options=["hidden=(8,)"]), run("S", 0, network_options=["hidden=(9,)"])
    )
    assert found == ["S (hidden (8,))", "S (hidden (9,))"]


def test_one_name_in_two_places_says_where():
    found = labels(
        run("S", 0, {"schedule": "a"}, {"schedule": "a"}),
        run("S", 0, {"schedule": "a"}, {"schedule": "b"}),
    )
    assert found == ["S (training schedule a)", "S (training schedule b)"]


def test_runs_of_the_library_differ_in_their_problem():
    runs = [Result("S", 0, {}, config={"problem": {"prior": p}}) for p in ("weak", "strong")]
    assert labels(*runs) == ["S (prior weak)", "S (prior strong)"]


def test_other_settings_are_never_averaged_even_when_the_seeds_differ():
    assert labels(run("S", 0, {"rank": 1}), run("S", 1, {"rank": 2})) == [
        "S (rank 1)",
        "S (rank 2)",
    ]


def test_seeds_splits_and_strategies_of_one_variant_keep_one_name():
    runs = [
        run("S", 0),
        run("S", 1, training={"strategy": "map"}, split=1),
        run("S", 2, version="0.2.0", split=2),
    ]
    assert labels(*runs) == ["S", "S", "S"]


def test_execution_tells_apart_what_nothing_else_does():
    found = labels(run("S", 0), run("S", 0, training={"strategy": "map"}))
    assert found == ["S (strategy auto)", "S (strategy map)"]
    old = run("S", 0)
    del old.config["method"]["scale"]
    assert labels(run("S", 1), old) == ["S", "S"]
    assert labels(run("S", 0), old) == ["S (scale 0.5)", "S"]


def test_the_same_run_twice_stays_refused():
    twice = distinguish([run("SWAG", 0), run("SWAG", 0)])
    assert [result.method for result in twice] == ["SWAG", "SWAG"]
    with pytest.raises(InputError, match="'SWAG' with seed 0 twice; give each pair once"):
        Comparison("t", "d", "classification", twice)


def test_results_without_settings_are_left_alone():
    results = [Result("a", 0, {}), Result("a", 1, {}, config={"method": "a", "seed": 1})]
    assert distinguish(results) == results
