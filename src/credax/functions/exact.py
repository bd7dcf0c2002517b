"""Exact Gaussian processes as a method: hyper-parameters by evidence, then one factorisation."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from credax.data.dataset import Split
from credax.errors import DamagedFile, InputError
from credax.files import save_tree
from credax.functions.classification import LaplaceProcess, optimise_classification
from credax.functions.gp import ConditionedProcess, GaussianProcess, check_exact
from credax.functions.hyperparameters import Regression, optimise_regression
from credax.functions.kernels import Kernel, as_kernel, from_data, named_kernel, to_data
from credax.functions.noise import NoiseProcess, fit_noise
from credax.functions.posterior import FunctionPosterior, read_posterior, roots, standard_rows
from credax.infinite.method import Waiting, num_outputs
from credax.infinite.posterior import targets_of
from credax.prediction import Prediction
from credax.problem import Problem
from credax.reading.records import NUMBER, OBJECT, maybe
from credax.training import Training
from credax.training.dynamics import Replicas

if TYPE_CHECKING:
    KernelSetting = Any
else:
    # The command line offers names; kernels as objects are for Python.
    KernelSetting = str

MOST_ROWS = 5000
MOST_LATENT = 2000
"""Rows times logits of a classification, whose factorisations are repeated at every step."""
START_NOISE = 0.1


@dataclass(frozen=True)
class ExactPosterior(FunctionPosterior):
    """The exact posterior of a regression, or the Laplace approximation of a classification."""

    process: ConditionedProcess | LaplaceProcess
    level: float
    """The noise variance in standard units, of a regression with one level."""
    noise_process: NoiseProcess | None
    """The noise variance as a function of the input, where it is one."""
    x: np.ndarray
    """Raw training inputs."""
    y: Float[np.ndarray, "rows outputs"]
    """Targets in standard units, or labels as numbers."""

    @property
    def kernel(self) -> Kernel:
        """The kernel with the hyper-parameters that were found, in standard units."""
        own = self.process
        return own.process.kernel if isinstance(own, ConditionedProcess) else own.kernel

    @property
    def log_evidence(self) -> float:
        """The log evidence of the training targets in standard units, in nats."""
        return self.process.log_evidence

    def predict_points(self, points) -> Prediction:
        """In closed form, or of members for classes."""
        mean, spread = self.process.moments(points)
        if isinstance(self.process, ConditionedProcess):
            level = np.full(len(mean), self.level)
            noise = level if self.noise_process is None else self.noise_process.variance(points)
            return self.closed_form(mean, spread[:, None], noise[:, None])
        values = self.from_noise(mean, roots(spread))
        return self.problem.predict(jnp.asarray(values, jnp.float32))

    def latent_functions(self, key, n, points, **options):
        """Draws of the posterior process."""
        return self.process.functions(key, n, points, **options)

    def save(self, path: str | Path) -> None:
        """Keep rows, kernel and noise; the factorisation is done again when it is read."""
        arrays = {"x": self.x, "y": self.y, "noise": self.noise}
        noise = self.noise_process
        if noise is not None:
            arrays["log_noise"] = noise.log_noise
        kernels = {
            "kernel": to_data(self.kernel),
            "level": self.level,
            "noise_kernel": None if noise is None else to_data(noise.kernel),
        }
        save_tree(path, arrays, self.description("exact process") | kernels)


@dataclass(frozen=True)
class GP:
    """An exact Gaussian process: a prior on functions, and its posterior by linear algebra.

    ``p(y*|x*) = N(K*X (K + s²)⁻¹ y, s² + K** - K*X (K + s²)⁻¹ KX*)``; hyper-parameters by the log
    evidence, from several starts. Classes by the Laplace approximation. The problem's network is
    not used. Cost: the cube of the training rows. Reference: Rasmussen and Williams, Gaussian
    processes for machine learning, 2006.

    >>> GP(kernel="matern52 + linear").kernel
    'matern52 + linear'
    """

    name: ClassVar[str] = "gp"
    title: ClassVar[str] = "Gaussian process"

    kernel: KernelSetting = "rbf"
    """rbf, matern12, matern32, matern52, rational-quadratic, periodic, linear, constant, white, or
    such names with + and *."""
    ard: bool = True
    """A length-scale for each column."""
    optimise: bool = True
    """Whether hyper-parameters are fitted by the evidence."""
    restarts: int = 5
    """Starts of the optimiser; the best is kept."""
    members: int = 100
    """Draws of the logits for a prediction of classes; regression is in closed form."""
    most_rows: int | None = None
    """Training rows above which the exact path is refused; by default 5000, for classes 2000 over
    the number of logits."""

    def __post_init__(self):
        for name in ("restarts", "members"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; it is at least 1")
        if isinstance(self.kernel, str):
            named_kernel(self.kernel, 1)

    def dynamics(self, problem: Problem, data: Split, training: Training) -> Waiting:
        """Nothing to step: the process is solved when the loop has ended."""
        likelihood = problem.likelihood
        if not likelihood.has_squared_error:
            raise InputError(
                f"likelihood is {type(likelihood).__name__}, for which the exact process has no "
                "posterior; use Gaussian, HeteroscedasticGaussian, Categorical, Bernoulli, or svgp"
            )
        outputs = num_outputs(problem, data)
        regression = likelihood.task == "regression"
        most = self.most_rows or (MOST_ROWS if regression else MOST_LATENT // outputs)
        check_exact(len(data), most)
        self.start(int(np.prod(data.x.shape[1:])))
        count = 1 if regression else self.members
        return Waiting(outputs, Replicas(count, shared_batches=True))

    def start(self, columns: int) -> Kernel:
        """The kernel before hyper-parameters are fitted."""
        if isinstance(self.kernel, str):
            return named_kernel(self.kernel, columns, self.ard)
        kernel = as_kernel(self.kernel)
        kernel.check(columns)
        to_data(kernel)
        return kernel

    def posterior(self, problem, dynamics, states, variables, alive, data) -> ExactPosterior:
        """Hyper-parameters, then the process given the rows."""
        noise = np.asarray(variables.params["noise"], np.float32)
        x, shape = standard_rows(problem, data.x), tuple(data.x.shape[1:])
        kernel = self.start(x.shape[1])
        shared = {
            "problem": problem,
            "noise": noise,
            "indices": tuple(range(len(noise))),
            "input_shape": shape,
            "input_dtype": str(np.asarray(data.x[:0]).dtype),
            "x": np.asarray(data.x),
        }
        if problem.likelihood.task == "regression":
            y = targets_of(problem, data.y, dynamics.outputs)
            return self._regression(kernel, x, y, shared)
        labels = np.asarray(data.y)
        y = np.eye(dynamics.outputs)[labels] if dynamics.outputs > 1 else labels[:, None] * 1.0
        values: tuple[float, ...] = ()
        if self.optimise:
            found = optimise_classification(kernel, x, y, restarts=self.restarts)
            kernel, values = found.model, found.values
        process = LaplaceProcess.fit(kernel, x, y)
        return _build(shared, process, 0.0, None, y, values)

    def _regression(self, kernel: Kernel, x, y, shared) -> ExactPosterior:
        likelihood = shared["problem"].likelihood
        options = {"restarts": self.restarts}
        if not likelihood.has_one_noise:
            fitted = fit_noise(kernel, x, y, self.optimise, options)
            rows = fitted.noise.variance(x)
            process = GaussianProcess(fitted.kernel).condition(x, y, noise=rows, most_rows=len(x))
            return _build(shared, process, 0.0, fitted.noise, y, fitted.values)
        level = START_NOISE
        if not likelihood.learns:
            level = float(np.mean(likelihood.noise_variance({}, np.zeros(y.shape[1], np.float32))))
        values: tuple[float, ...] = ()
        if self.optimise:
            model = Regression(kernel, np.log(level) if likelihood.learns else None)
            rows = np.ones(len(x)) if likelihood.learns else np.full(len(x), level)
            found = optimise_regression(model, x, y, rows, **options)
            kernel, values = found.model.kernel, found.values
            level = float(np.exp(found.model.log_noise)) if likelihood.learns else level
        process = GaussianProcess(kernel, level).condition(x, y, most_rows=len(x))
        return _build(shared, process, level, None, y, values)

    def load(self, path, problem: Problem) -> ExactPosterior:
        """Read rows, kernel and noise back, and factorise again."""
        return load_exact(path, problem)


def _build(shared, process, level, noise_process, y, values) -> ExactPosterior:
    diagnostics: dict[str, Any] = {"log_evidence": process.log_evidence}
    if isinstance(process, ConditionedProcess):
        diagnostics["jitter"] = process.jitter
    if values:
        diagnostics["restarts"] = list(values)
    ordered = dict(sorted(diagnostics.items()))
    rest = {"level": level, "noise_process": noise_process, "y": y}
    return ExactPosterior(process=process, diagnostics=ordered, **shared, **rest)


def load_exact(path: str | Path, problem: Problem) -> ExactPosterior:
    """Read what `ExactPosterior.save` wrote."""
    fields = {"kernel": OBJECT, "level": NUMBER, "noise_kernel": maybe(OBJECT)}
    names = {"x", "y", "noise"}
    with_noise = {*names, "log_noise"}
    arrays, metadata, shared = read_posterior(
        path, problem, "exact process", fields, (names, with_noise)
    )
    x, y, problem = arrays["x"], arrays["y"], shared["problem"]
    fits = (
        x.ndim >= 2
        and y.ndim == 2
        and len(x) == len(y) > 0
        and x.shape[1:] == shared["input_shape"]
    )
    if not fits or y.shape[1] != shared["noise"].shape[1] or not metadata["level"] >= 0:
        raise DamagedFile(
            f"{path} holds x of shape {x.shape} and y {y.shape}, which do not fit; restore it from "
            "a copy"
        )
    rows = standard_rows(problem, x)
    kernel = stored_kernel(metadata["kernel"], rows.shape[1], path)
    shared = {**shared, "x": x}
    rest = {"level": float(metadata["level"]), "y": y}
    if problem.likelihood.task != "regression":
        process = LaplaceProcess.fit(kernel, rows, y)
        return ExactPosterior(process=process, noise_process=None, **shared, **rest)
    noise = None
    if metadata["noise_kernel"] is not None:
        own = arrays.get("log_noise")
        if own is None or own.shape != (len(x),):
            raise DamagedFile(f"{path} lacks the noise of its rows; restore it from a copy")
        noise = NoiseProcess(
            stored_kernel(metadata["noise_kernel"], rows.shape[1], path), rows, own
        )
    process = GaussianProcess(kernel, rest["level"]).condition(
        rows, y, noise=None if noise is None else noise.variance(rows), most_rows=len(x)
    )
    return ExactPosterior(process=process, noise_process=noise, **shared, **rest)


def stored_kernel(data: dict[str, Any], columns: int, path: Any) -> Kernel:
    """The kernel of a file, or an error if it does not fit inputs of so many columns."""
    kernel = from_data(data, path)
    try:
        kernel.check(columns)
    except InputError as error:
        raise DamagedFile(f"{path} holds a kernel that does not fit its rows: {error}") from error
    return kernel
