"""The scikit-learn estimators: its own checks, searches, pipelines, frames, and the guarantees."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris, make_classification, make_regression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import credax as cx
from credax.sklearn import Classifier, Regressor

SHORT = {"epochs": 3, "network_options": {"hidden": (4,)}, "random_state": 0}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [Classifier, Regressor])
def test_all_checks_of_scikit_learn_pass(kind):
    # One small member: some fifty programs are compiled here, and the checks see no difference.
    estimator = kind("single", network_options={"hidden": (16,)})
    found = check_estimator(estimator, on_skip=None)
    assert {one["status"] for one in found} <= {"passed", "skipped"}
    skipped = [one["check_name"] for one in found if one["status"] == "skipped"]
    assert skipped == ["check_array_api_input"]  # needs an environment variable of scipy


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True, as_frame=True)


def test_frames_and_text_labels(iris):
    X, y = iris
    names = y.map({0: "setosa", 1: "versicolor", 2: "virginica"})
    classifier = Classifier("single", epochs=30, random_state=0).fit(X, names)
    assert classifier.score(X, names) > 0.9
    assert list(classifier.classes_) == ["setosa", "versicolor", "virginica"]
    assert list(classifier.feature_names_in_) == list(X.columns)
    with pytest.raises(ValueError, match="feature names"):
        classifier.predict(X[X.columns[::-1]])
    probs = classifier.predict_proba(X)
    np.testing.assert_allclose(probs.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(
        probs, classifier.posterior_.predict(X.to_numpy()).probs, rtol=1e-4, atol=1e-6
    )


@pytest.mark.slow
def test_a_search_over_methods_in_a_pipeline(iris):
    X, y = iris
    pipeline = make_pipeline(StandardScaler(), Classifier(members=2, **SHORT))
    grid = {"classifier__method": ["single", "deep-ensemble", cx.SWAG(samples=2)]}
    search = GridSearchCV(pipeline, grid, cv=2, scoring="neg_log_loss").fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_.predict(X[:3]).shape == (3,)


def test_the_conformal_sets_and_intervals_keep_their_promise():
    """Coverage over 1500 rows; its standard deviation over calibration sets of n rows is about
    sqrt(level (1 - level) (1/n + 1/1500)), and the bound is four of them below the level."""
    level, rows = 0.8, 400
    X, y = make_classification(2300, 5, n_informative=3, flip_y=0.2, random_state=1)
    short = {**SHORT, "calibration": 0.5}
    fitted = Classifier("single", **short).fit(X[:800], y[:800])
    inside = fitted.predict_set(X[800:], level)[np.arange(1500), y[800:]]
    bound = level - 4 * np.sqrt(level * (1 - level) * (1 / rows + 1 / 1500))
    assert inside.mean() > bound
    X, y = make_regression(2300, 5, noise=30.0, random_state=1)
    low, high = Regressor("single", **short).fit(X[:800], y[:800]).predict_interval(X[800:], level)
    inside = (low <= y[800:]) & (y[800:] <= high)
    assert bound < inside.mean() < level + (level - bound)


def test_without_calibration_sets_add_up_to_the_level(iris):
    X, y = iris
    classifier = Classifier("single", **SHORT).fit(X, y)
    inside, probs = classifier.predict_set(X, 0.7), classifier.predict_proba(X)
    mass = (probs * inside).sum(axis=1)
    least = np.where(inside, probs, np.inf).min(axis=1)
    assert (mass >= 0.7 - 1e-6).all()
    assert (mass - least < 0.7 + 1e-6).all()  # the least probable class of the set is needed


def test_several_targets_and_the_standard_deviation():
    X, y = make_regression(60, 3, n_targets=2, random_state=0)
    regressor = Regressor("deep-ensemble", members=2, **SHORT).fit(X, y)
    mean, std = regressor.predict(X, return_std=True)
    assert mean.shape == std.shape == (60, 2)
    prediction = regressor.predict_distribution(X)
    np.testing.assert_allclose(std, prediction.std)
    assert prediction.num_members == 2
    assert cross_val_score(Regressor("single", **SHORT), X, y[:, 0], cv=2).shape == (2,)


def test_a_network_of_ones_own_and_a_frame_of_pandas():
    X = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0], "b": [1.0, 0.0, 1.0, 0.0]})
    factory = lambda outputs: cx.networks.MLP((3,), outputs=outputs)  # noqa: E731
    training = cx.Training(epochs=1, batch_size=4)
    made = Classifier("single", network=factory, training=training, random_state=1)
    assert made.fit(X, [True, False, True, False]).predict(X).dtype == bool


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "deep-ensembel"}, "did you mean 'deep-ensemble'"),
        ({"network": "mpl"}, "did you mean 'mlp'"),
        ({"network": 3}, "network is 3; give a name"),
        ({"calibration": 1.5}, "calibration is 1.5"),
    ],
)
def test_bad_parameters_are_refused_when_fitting(iris, options, words):
    with pytest.raises(cx.InputError, match=words):
        Classifier(**options).fit(*iris)


def test_bad_levels_and_a_single_class_are_refused(iris):
    X, y = iris
    with pytest.raises(ValueError, match="one class only"):
        Classifier().fit(X, np.zeros(len(X)))
    fitted = Classifier("single", **SHORT).fit(X, y)
    with pytest.raises(cx.InputError, match="level is 90"):
        fitted.predict_set(X, 90)
