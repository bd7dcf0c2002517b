"""Data sets of tasks: records, files, generators and the best predictor."""

import warnings

import numpy as np
import pytest

import credax as cx
from credax.data import Tasks, tasks_of
from credax.functions import GaussianProcess, measure
from credax.functions.kernels import RBF, from_data
from credax.functions.task_oracle import oracle_scores
from credax.functions.task_scores import choose_context
from credax.functions.tasks import gp_tasks

PROBLEM = cx.Problem(cx.networks.MLP((1,), outputs=2), cx.HeteroscedasticGaussian())


@pytest.fixture(scope="module")
def trained():
    """A neural process after some steps, with the tasks it was trained on."""
    data = cx.data.load("tasks/gp-rbf", train=64, test=16, points=12)
    record = cx.NP(hidden=8, latent=2, encoder_layers=2, members=4, least_steps=1)
    training = cx.Training(epochs=5, batch_size=16)
    return cx.fit(PROBLEM, record, data, training=training, progress=False), data


def test_the_oracle_is_the_conditioned_process():
    """By an independent route: evidence of all points minus evidence of the context."""
    data = cx.data.load("tasks/gp-rbf", train=1, test=6, points=12)
    tasks = tasks_of(data.test)
    context = choose_context(tasks, (0, 6), seed=3)
    targets = tasks.mask & ~context
    found = oracle_scores(data.test.tasks, tasks.x, tasks.y, context, targets)
    process = GaussianProcess(RBF(0.5), noise=0.01)
    for i in range(6):
        c, t = context[i], targets[i]
        x, y = tasks.x[i].astype(float), tasks.y[i].astype(float)
        whole = process.condition(x, y).log_evidence
        some = process.condition(x[c], y[c]).log_evidence if c.any() else 0.0
        assert found.joint[i] == pytest.approx(whole - some, abs=1e-7)
        if c.any():
            mean, variance = (np.ravel(a) for a in process.condition(x[c], y[c]).moments(x[t]))
            variance = variance + 0.01
            each = -0.5 * (np.log(2 * np.pi * variance) + (y[t] - mean) ** 2 / variance)
            assert found.marginal[i] == pytest.approx(each.sum(), abs=1e-7)


def test_the_oracle_has_the_recorded_likelihoods():
    """RBF of length 0.5, noise 0.1: per target, by size of the context (20 000 tasks)."""
    data = cx.data.load("tasks/gp-rbf", train=1, test=1500)
    tasks = tasks_of(data.test)
    for size, expected in {0: -1.423914, 3: -0.787, 10: 0.125, 20: 0.525}.items():
        context = np.arange(40) < np.full((1500, 1), size)
        targets = (np.arange(40) >= 20) & tasks.mask
        found = oracle_scores(data.test.tasks, tasks.x, tasks.y, context, targets).marginal / 20
        error = found.std() / np.sqrt(1500)
        assert found.mean() == pytest.approx(expected, abs=4 * error + 0.001)
    sizes = np.random.default_rng(0).integers(3, 21, (1500, 1))
    found = oracle_scores(
        data.test.tasks, tasks.x, tasks.y, np.arange(40) < sizes, (np.arange(40) >= 20) & tasks.mask
    )
    for each, expected in ((found.joint, 0.470), (found.marginal, 0.095)):
        error = (each / 20).std() / np.sqrt(1500)
        assert (each / 20).mean() == pytest.approx(expected, abs=4 * error)


@pytest.mark.parametrize("name", ["gp-rbf", "gp-matern", "gp-periodic", "linear", "constant"])
def test_named_tasks_come_from_the_kernel_that_they_name(name):
    """The covariance of many tasks at the same points would need equal x; so: whitened values."""
    data = cx.data.load(f"tasks/{name}", train=1, test=400, points=6)
    tasks, form = tasks_of(data.test), data.test.tasks
    process = GaussianProcess(from_data(form.kernel), noise=form.noise)
    white = []
    for x, y in zip(tasks.x.astype(float), tasks.y.astype(float), strict=True):
        matrix = process.covariance(x) + form.noise * np.eye(6)
        white.append(np.linalg.solve(np.linalg.cholesky(matrix), y))
    white = np.array(white)
    np.testing.assert_allclose(white.mean(0), 0, atol=4 / 20)
    np.testing.assert_allclose(white.T @ white / 400, np.eye(6), atol=5 * np.sqrt(2) / 20)


def test_any_kernel_makes_tasks():
    one = gp_tasks(RBF(0.5), noise=0.1, train=3, test=2, points=5)
    other = cx.data.load("tasks/gp-rbf", train=3, test=2, points=5)
    np.testing.assert_allclose(one.train.y, other.train.y, atol=1e-5)
    assert "rbf" in one.train.tasks.generator
    assert "0.1" in one.train.tasks.generator


def test_pictures_are_tasks():
    data = cx.data.load("tasks/digits")
    tasks = tasks_of(data.train)
    assert data.train.tasks.picture == (8, 8)
    assert tasks.x.shape == (1200, 64, 2)
    assert tasks.y.min() >= 0
    assert tasks.y.max() == 1
    np.testing.assert_array_equal(tasks.x[0, [0, 7, 56]], [[-1, -1], [-1, 1], [1, -1]])


def test_tasks_of_different_sizes_are_padded_and_given_back():
    x, y = [np.zeros((3, 2)), np.ones((1, 2))], [np.arange(3.0), np.array([5.0])]
    tasks = Tasks.of(x, y)
    assert np.isnan(tasks.y[1, 1:]).all()
    assert tasks.sizes.tolist() == [3, 1]
    again = tasks_of(tasks.split())
    np.testing.assert_array_equal(again.mask, tasks.mask)
    labels = Tasks.of(x, [np.array([0, 2, 1]), np.array([1])])
    assert labels.y[1].tolist() == [1, -1, -1]


def test_bad_tasks_are_refused(refused):
    x, y = np.zeros((2, 3, 1)), np.zeros((2, 3))
    refused(lambda: Tasks(x, y, np.array([[1, 1, 1], [0, 0, 0]])), "task 1 has no points")
    refused(lambda: Tasks(x, np.full((2, 3), np.nan), np.ones((2, 3))), "y holds NaN.*task 0")
    refused(lambda: Tasks(x + np.inf, y, np.ones((2, 3))), "x holds NaN or infinity")
    refused(lambda: Tasks(x, y[:, :2], np.ones((2, 3))), "x has shape.*y")
    refused(lambda: Tasks.of([np.zeros((2, 1)), np.zeros((2, 2))], [y[0, :2]] * 2), "task 1.*2 col")
    refused(lambda: Tasks.of([np.zeros((2, 1))], [np.zeros(3)]), "task 0 has x of shape")
    refused(lambda: Tasks.of([], []), "at least one")
    refused(lambda: cx.data.load("tasks/gp-rbf", points=0), "points is 0")
    refused(lambda: cx.data.load("tasks/gp-rbf", noise=-1.0), "noise is -1")


def test_a_folder_of_tables_is_a_data_set_of_tasks(tmp_path, refused):
    for i, rows in enumerate([["0,1", "1,2"], ["2,3"], ["0,0", "1,1", "2,5"]] * 2):
        (tmp_path / f"{i}.csv").write_text("\n".join(["time,value", *rows]) + "\n")
    data = cx.data.load(tmp_path)
    assert len(data.train) + len(data.test) == 6
    assert data.target_names == ("value",)
    assert data.train.tasks.columns == ("time",)
    assert data.input_shape == (3, 1)
    swapped = cx.data.load(tmp_path, target="time")
    assert swapped.train.tasks.columns == ("value",)
    refused(lambda: cx.data.load(tmp_path, target="nothing"), "target is 'nothing'")
    (tmp_path / "7.csv").write_text("time,other\n1,2\n")
    refused(lambda: cx.data.load(tmp_path), "same columns")
    (tmp_path / "7.csv").write_text("time,value\n")
    refused(lambda: cx.data.load(tmp_path), "no points")
    (tmp_path / "7.csv").write_text("time,value\n1,nothing\n")
    refused(lambda: cx.data.load(tmp_path), "not a finite number")
    (tmp_path / "7.csv").write_text("1,2\n3,4\n")
    refused(lambda: cx.data.load(tmp_path), "header")


def test_arrays_hold_tasks_padded_or_one_after_another(tmp_path, refused):
    x, y = np.arange(10.0)[:, None], np.arange(10.0) ** 2
    sizes, number = np.array([4, 1, 5]), np.repeat([7, 3, 9], [4, 1, 5])
    mask = np.arange(5) < sizes[:, None]
    padded = {"x": np.zeros((3, 5, 1)), "y": np.zeros((3, 5)), "mask": mask}
    forms = ({"x": x, "y": y, "sizes": sizes}, {"x": x, "y": y, "task": number}, padded)
    for arrays in forms:
        np.savez(tmp_path / "tasks.npz", **arrays)
        data = cx.data.load(tmp_path / "tasks.npz")
        count = [tasks_of(s).sizes.tolist() for s in (data.train, data.test)]
        assert sorted([*count[0], *count[1]]) == [1, 4, 5]
    for odd, words in (
        ({"x": x, "y": y, "sizes": np.array([4, 4])}, "add up to 8"),
        ({"x": x, "y": y, "sizes": np.array([10, 0])}, "from 1"),
        ({"x": x, "y": y, "task": np.arange(3)}, "one number per point"),
        ({"x": x, "y": y, "mask": mask}, "shape"),
        ({"x": x, "mask": mask}, "tasks are x, y and mask"),
        ({"x": x, "y": y.astype(str), "sizes": sizes}, "type"),
    ):
        np.savez(tmp_path / "odd.npz", **odd)
        refused(lambda: cx.data.load(tmp_path / "odd.npz"), words)


def test_functions_are_the_same_in_every_batch_and_call(trained):
    posterior, data = trained
    x, y = np.asarray(data.test.x)[0], np.asarray(data.test.y)[0]
    task = posterior.condition(x[:5], y[:5])
    whole = task.functions(3, 4, x)
    parts = np.concatenate(
        [task.functions(3, 4, x[i : i + 5]) for i in range(0, len(x), 5)], axis=1
    )
    np.testing.assert_allclose(parts, whole, rtol=1e-5, atol=1e-6)
    assert whole.shape == (4, 12, 1)
    np.testing.assert_allclose(task.functions(3, 2, x), whole[:2], rtol=1e-5, atol=1e-6)
    assert np.std(whole[:, :, 0], axis=0).min() > 0
    one = np.asarray(task.predict(x).mean)
    np.testing.assert_allclose(task.predict(x, batch_size=5).mean, one, rtol=1e-5, atol=1e-6)


def test_a_task_alone_is_predicted_as_among_others(trained):
    """`condition` and `measure` are two routes to one number."""
    posterior, data = trained
    tasks, test = tasks_of(data.test), data.test
    context = choose_context(tasks, (2, 6), seed=1)
    found = measure(posterior, test, context=context)
    alone = []
    for i in range(len(tasks)):
        c = context[i]
        task = posterior.condition(tasks.x[i][c], tasks.y[i][c])
        prediction = task.predict(tasks.x[i][~c])
        alone.append(np.asarray(prediction.log_prob(tasks.y[i][~c])).sum())
    np.testing.assert_allclose(found.marginal, alone, rtol=1e-4)
    assert found.scores["oracle_gap"] >= -3 * found.scores["oracle_gap_error"]
    assert (found.marginal != found.joint).all()


def test_units_of_values_do_not_matter(trained):
    """Values times ten: the log-likelihood falls by log 10 per point."""
    _, data = trained
    tasks = tasks_of(data.train)
    record = cx.CNP(hidden=8, encoder_layers=2, least_steps=1)
    found = []
    for factor in (1.0, 10.0):
        own = Tasks(tasks.x, factor * tasks.y, tasks.mask)
        rows = own.split(None, *own.units())
        training = cx.Training(epochs=3, batch_size=16)
        posterior = cx.fit(PROBLEM, record, rows, training=training, progress=False)
        found.append(measure(posterior, rows).scores["log_likelihood_marginal"])
    assert found[0] - found[1] == pytest.approx(np.log(10), abs=1e-3)


def test_bad_contexts_and_methods_are_refused(trained, refused):
    posterior, data = trained
    refused(lambda: posterior.condition(np.zeros((3, 1)), np.zeros(2)), "3 points and y has 2")
    refused(lambda: posterior.condition(np.zeros((1, 1)), [np.nan]), "finite number")
    refused(lambda: posterior.condition([[np.nan]], [0.0]), "NaN")
    refused(lambda: posterior.condition(np.zeros((3, 2)), np.zeros(3)), "shape")
    nothing = posterior.condition(np.zeros((0, 1)), np.zeros(0)).predict(np.zeros((2, 1)))
    np.testing.assert_array_equal(nothing.mean, posterior.predict(np.zeros((2, 1))).mean)
    refused(lambda: measure(posterior, data.test, sizes=(12, 12)), "smallest task has 12")
    refused(lambda: measure(posterior, data.test, sizes=(5, 2)), "in order")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        posterior.condition(np.zeros((30, 1)), np.zeros(30))
    assert "at most 11" in str(caught[0].message)
    fit = lambda record, **o: cx.fit(PROBLEM, record, data, progress=False, **o)  # noqa: E731
    training = {"training": cx.Training(1, 16)}
    refused(lambda: fit(cx.CNP(largest_context=13), **training), "largest_context is 13.*12 points")
    refused(lambda: fit(cx.Single(), **training), "single takes a table")
    refused(
        lambda: fit(cx.CNP(), training=cx.Training(1, 16, keep_best=True)), "keep_best|validation"
    )
    refused(lambda: cx.CNP(aggregate="median"), "aggregate.*median")
    refused(lambda: cx.CNP(empty="nothing"), "empty")
    refused(lambda: cx.NP(objective="iwae"), "objective")
    refused(lambda: cx.ANP(heads=5), "heads")
    refused(lambda: cx.CNP(smallest_context=5, largest_context=2), "largest_context is 2")
    refused(lambda: cx.CNP(floor=1.0), "floor")
    refused(lambda: cx.ConvCNP(kernel_size=4), "odd")
    table = cx.Split(np.zeros((20, 3), np.float32), np.arange(20.0, dtype=np.float32))
    problem = cx.Problem(cx.networks.MLP((1,), outputs=2), cx.HeteroscedasticGaussian())
    refused(
        lambda: cx.fit(problem, cx.ConvCNP(), table, training=cx.Training(1, 10), progress=False),
        "inputs have 3 columns",
    )
