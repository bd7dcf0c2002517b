"""Out of distribution, shift, and what `evaluate` says about them."""

import jax
import numpy as np
import pytest
from metrics_cases import CLASSES, MEMBERS, ROWS, class_arrays, class_case, number_case

from credax import metrics
from credax.errors import InputError
from credax.prediction import ClassPrediction

ROWS_OUT = 16


@pytest.fixture(scope="module", autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def ood_prediction(seed, rows=ROWS_OUT, sharp=1.0):
    rng = np.random.default_rng(seed)
    return class_case(rng, sharp, rows)[0]


@pytest.fixture(scope="module")
def case():
    return class_case(np.random.default_rng(0), 0.3)


def test_two_sets_in_one_call(case):
    prediction, y = case
    other = {"far": ood_prediction(1), "near": ood_prediction(2)}
    both = metrics.evaluate(prediction, y, ood=other)
    own = metrics.evaluate(prediction, y)
    assert {k: v for k, v in both.items() if not k.startswith("ood/")} == own
    headline = ("auroc", "aupr_out", "fpr_at_ood_recall")
    scores = ("entropy_predictive", "mutual_information", "max_probability")
    for name in other:
        expected = {f"ood/{name}/{m}/{s}" for m in headline for s in scores}
        expected |= {f"ood/{name}/{m}" for m in ("prevalence", "entropy", "mutual_information")}
        assert {k for k in both if k.startswith(f"ood/{name}/")} == expected
        for score in scores:
            s, out = metrics.id_and_ood(
                metrics.score(score, prediction), metrics.score(score, other[name])
            )
            direct = float(metrics.auroc(s, out))
            assert both[f"ood/{name}/auroc/{score}"] == pytest.approx(direct, abs=1e-12)
        entropy = float(np.mean(other[name].total))
        assert both[f"ood/{name}/entropy"] == pytest.approx(entropy, abs=1e-12)
        assert both[f"ood/{name}/prevalence"] == ROWS_OUT / (ROWS + ROWS_OUT)
    assert both.notes == {}
    for key in both:
        assert metrics.get(key).name == key


def test_everything_about_a_set(case):
    prediction, y = case
    values = metrics.evaluate(prediction, y, "all", ood={"set": ood_prediction(1)})
    scores = ("entropy_predictive", "entropy_expected", "mutual_information", "max_probability")
    for score in (*scores, "variation_ratio"):
        for metric in set(metrics.names("detection")) - {"prevalence"}:
            assert f"ood/set/{metric}/{score}" in values
    s, out = metrics.id_and_ood(
        metrics.score("entropy_expected", prediction),
        metrics.score("entropy_expected", ood_prediction(1)),
    )
    direct = {
        "scod_aurc": metrics.scod_aurc(s, out),
        "scod_augrc": metrics.scod_augrc(s, out),
        "scod_risk_at_80_coverage": metrics.scod_risk_at_coverage(s, out),
    }
    for name, value in direct.items():
        assert values[f"ood/set/{name}/entropy_expected"] == pytest.approx(float(value), abs=1e-12)
    order = np.argsort(np.asarray(s), kind="stable")
    risk = np.cumsum(out[order]) / np.arange(1, len(out) + 1)
    assert values["ood/set/scod_aurc/entropy_expected"] == pytest.approx(risk.mean(), abs=1e-12)


def test_chosen_detection_metrics_and_groups(case):
    prediction, y = case
    other = {"a": ood_prediction(1), "b": ood_prediction(2), "c": ood_prediction(3)}
    values = metrics.evaluate(
        prediction,
        y,
        ["nll", "fpr_at_id_recall"],
        ood=other,
        ood_groups={"near": ["a", "b"], "far": ["c"]},
    )
    assert "ood/a/fpr_at_id_recall/entropy_predictive" in values
    assert "ood/a/auroc/entropy_predictive" not in values
    key = "fpr_at_id_recall/max_probability"
    mean = (values[f"ood/a/{key}"] + values[f"ood/b/{key}"]) / 2
    assert values[f"ood/near/{key}"] == pytest.approx(mean)
    assert values[f"ood/far/{key}"] == values[f"ood/c/{key}"]


def test_logit_scores_for_an_ensemble(case):
    prediction, y = case
    rng = np.random.default_rng(4)
    logits = rng.normal(size=(MEMBERS, ROWS, CLASSES)) + 3
    other = rng.normal(size=(MEMBERS, ROWS_OUT, CLASSES))
    values = metrics.evaluate(
        prediction,
        y,
        ["nll"],
        ood={"set": ood_prediction(1)},
        logits=logits,
        ood_logits={"set": other},
    )
    mean, mean_out = logits.mean(0), other.mean(0)
    energy = [-np.log(np.exp(z).sum(-1)) for z in (mean, mean_out)]
    largest = [-z.max(-1) for z in (mean, mean_out)]
    for name, (inside, outside) in {"energy": energy, "max_logit": largest}.items():
        direct = float(metrics.auroc(*metrics.id_and_ood(inside, outside)))
        assert values[f"ood/set/auroc/{name}"] == pytest.approx(direct, abs=1e-12)
    with pytest.raises(InputError, match="ood_logits has none for 'set'"):
        metrics.evaluate(prediction, y, ood={"set": ood_prediction(1)}, logits=logits)
    with pytest.raises(InputError, match="raw logits"):
        metrics.score("energy", prediction)
    with pytest.raises(InputError, match="logits has shape"):
        metrics.score("energy", prediction, logits=logits[:1])


def test_scores_by_hand():
    members = np.array([[[0.7, 0.2, 0.1]], [[0.1, 0.8, 0.1]], [[0.2, 0.2, 0.6]]])
    prediction = ClassPrediction.from_probs(members)
    found = {n: float(s[0]) for n, s in metrics.scores(prediction).items()}
    assert found["max_probability"] == pytest.approx(-0.4, abs=1e-12)
    assert found["entropy_predictive"] == pytest.approx(1.085189, abs=1e-6)
    assert found["entropy_expected"] == pytest.approx(0.797040, abs=1e-6)
    assert found["mutual_information"] == pytest.approx(0.2881482958254008, abs=1e-12)
    assert found["variation_ratio"] == pytest.approx(2 / 3, abs=1e-12)
    alone = ClassPrediction.from_probs(members[:1])
    assert "mutual_information" not in metrics.scores(alone)
    with pytest.raises(InputError, match="unknown score 'entropie'"):
        metrics.score("entropie", prediction)
    with pytest.raises(InputError, match="not for classification"):
        metrics.score("total_variance", prediction)


def test_numbers_out_of_distribution():
    rng = np.random.default_rng(5)
    prediction, y = number_case(rng)
    other, _ = number_case(rng, ROWS_OUT)
    values = metrics.evaluate(prediction, y, ood={"set": other})
    s, out = metrics.id_and_ood(
        np.asarray(prediction.epistemic).sum(-1), np.asarray(other.epistemic).sum(-1)
    )
    direct = float(metrics.auroc(s, out))
    assert values["ood/set/auroc/epistemic_variance"] == pytest.approx(direct, abs=1e-12)
    assert values["ood/set/total_variance"] == pytest.approx(float(np.mean(other.var)))


def test_other_data_that_does_not_fit(case):
    prediction, y = case
    numbers, _ = number_case(np.random.default_rng(6))
    with pytest.raises(InputError, match=r"ood\['set'\] is a GaussianPrediction"):
        metrics.evaluate(prediction, y, ood={"set": numbers})
    with pytest.raises(InputError, match=r"ood\['set'\] is a ndarray"):
        metrics.evaluate(prediction, y, ood={"set": np.zeros(3)})
    broken = ClassPrediction(prediction.log_probs * np.nan)
    with pytest.raises(InputError, match=r"ood\['set'\] holds NaN"):
        metrics.evaluate(prediction, y, ood={"set": broken})
    with pytest.raises(InputError, match="ood_groups has 'b' in 'near'"):
        metrics.evaluate(
            prediction, y, ["nll"], ood={"a": ood_prediction(1)}, ood_groups={"near": ["b"]}
        )


SHIFTS = [("noise", 1), ("noise", 2), ("fog", 1), ("fog", 2)]


@pytest.fixture(scope="module")
def shifted(case):
    _, y = case
    rng = np.random.default_rng(7)
    out = {}
    for kind, severity in SHIFTS:
        probs, _ = class_arrays(rng, 0.3)
        truth = np.eye(CLASSES)[y]
        share = {("noise", 1): 0.6, ("noise", 2): 0.3, ("fog", 1): 0.5, ("fog", 2): 0.2}
        mixed = share[kind, severity] * truth + (1 - share[kind, severity]) * probs
        out[kind, severity] = mixed
    return out


def test_both_protocols_by_hand(case, shifted):
    prediction, y = case
    predictions = {cell: ClassPrediction.from_probs(p) for cell, p in shifted.items()}
    values = metrics.evaluate(prediction, y, ["accuracy", "nll", "ece"], shift=predictions)
    for name in ("accuracy", "nll", "ece"):
        metric = metrics.get(name)
        by_severity = []
        for severity in (1, 2):
            pool = np.concatenate([shifted["noise", severity], shifted["fog", severity]], axis=1)
            twice = np.concatenate([y, y])
            by_severity.append(float(metric(ClassPrediction.from_probs(pool), twice)))
            key = f"shift/severity {severity}/{name}"
            assert values[key] == pytest.approx(by_severity[-1], abs=1e-12)
        assert values[f"shift/pooled/{name}"] == pytest.approx(np.mean(by_severity), abs=1e-12)
        cells = [float(metric(p, y)) for p in predictions.values()]
        assert values[f"shift/cells/{name}"] == pytest.approx(np.mean(cells), abs=1e-12)
    for name in ("accuracy", "nll"):
        both = values[f"shift/pooled/{name}"], values[f"shift/cells/{name}"]
        assert both[0] == pytest.approx(both[1], abs=1e-12)
    # Gaps of opposite sign meet in one bin when types are pooled.
    assert values["shift/pooled/ece"] < values["shift/cells/ece"]


def test_shift_of_the_headline_and_each_cell(case, shifted):
    prediction, y = case
    predictions = {cell: ClassPrediction.from_probs(p) for cell, p in shifted.items()}
    values = metrics.evaluate(prediction, y, shift=predictions)
    headline = metrics.names("classification", headline=True)
    expected = {
        f"shift/{p}/{m}" for p in ("pooled", "cells") for m in (*headline, "epistemic_share")
    }
    assert expected <= values.keys()
    assert 0 < values["shift/severity 2/epistemic_share"] < 1
    pairs = {cell: (p, y) for cell, p in predictions.items()}
    assert metrics.evaluate(prediction, y, shift=pairs) == values
    collection = metrics.collect(["accuracy"], "classification")
    cells = metrics.shift_cells(collection, predictions, y)
    for cell, p in shifted.items():
        right = np.mean(p.mean(0).argmax(-1) == y)
        assert cells[cell]["accuracy"] == pytest.approx(right)


def test_corruption_errors_against_a_baseline(case, shifted):
    prediction, y = case
    predictions = {cell: ClassPrediction.from_probs(p) for cell, p in shifted.items()}
    errors = metrics.corruption_errors(prediction, y, predictions)
    assert metrics.mean_corruption_error(errors, errors) == pytest.approx(1)
    assert metrics.mean_corruption_error(errors, errors, relative=True) == pytest.approx(1)
    baseline = {cell: error + 0.1 for cell, error in errors.items()}
    values = metrics.evaluate(
        prediction, y, ["accuracy"], shift=predictions, shift_baseline=baseline
    )
    ratios = [
        (errors[kind, 1] + errors[kind, 2]) / (errors[kind, 1] + errors[kind, 2] + 0.2)
        for kind in ("noise", "fog")
    ]
    assert values["shift/mean_corruption_error"] == pytest.approx(np.mean(ratios))
    assert values["shift/relative_mean_corruption_error"] == pytest.approx(1)
    del baseline["fog", 2]
    with pytest.raises(InputError, match="do not match"):
        metrics.mean_corruption_error(errors, baseline)


def test_a_baseline_that_loses_nothing_is_a_note(case, shifted):
    prediction, y = case
    predictions = {cell: ClassPrediction.from_probs(p) for cell, p in shifted.items()}
    errors = metrics.corruption_errors(prediction, y, predictions)
    perfect = dict.fromkeys(errors, 0.0)
    values = metrics.evaluate(
        prediction, y, ["accuracy"], shift=predictions, shift_baseline=perfect
    )
    assert np.isnan(values["shift/mean_corruption_error"])
    assert "shift/mean_corruption_error" in values.notes


def test_shifts_that_do_not_fit(case):
    prediction, y = case
    for cells, match in (
        ({"fog": prediction}, "keys are"),
        ({("fog", 0): prediction}, "severity 0"),
        ({("fog", 1): prediction.select(slice(0, 5))}, "needs integer labels"),
    ):
        with pytest.raises(InputError, match=match):
            metrics.evaluate(prediction, y, ["accuracy"], shift=cells)
    numbers, targets = number_case(np.random.default_rng(8))
    with pytest.raises(InputError, match="for classes"):
        metrics.evaluate(numbers, targets, ["rmse"], shift={("fog", 1): numbers}, shift_baseline={})
    with pytest.raises(InputError, match="shift is empty"):
        metrics.shift_values(metrics.collect(None, "classification"), {}, y)


def test_numbers_shift_too():
    numbers, targets = number_case(np.random.default_rng(9))
    values = metrics.evaluate(numbers, targets, ["rmse"], shift={("drift", 1): numbers})
    assert values["shift/pooled/rmse"] == pytest.approx(values["rmse"])


def test_many_rows_are_read_in_chunks_of_one_shape(monkeypatch):
    from credax.metrics import evaluation

    prediction, y = class_case(np.random.default_rng(10))
    whole = metrics.evaluate(prediction, y)
    monkeypatch.setattr(evaluation, "_ROWS", 7)
    parts = metrics.evaluate(prediction, y)
    assert parts == {name: pytest.approx(value, abs=1e-10) for name, value in whole.items()}
