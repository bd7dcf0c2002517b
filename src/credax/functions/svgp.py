"""Sparse variational Gaussian processes as a method: any number of rows, any likelihood."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.linalg import solve_triangular

from credax.data.dataset import Split
from credax.errors import DamagedFile, InputError
from credax.files import save_tree
from credax.functions.descent import with_adam
from credax.functions.draws import FEATURES, draw_keys, normal_of
from credax.functions.exact import KernelSetting, stored_kernel
from credax.functions.gp import Joint, by_features, draw_at_points, draw_prior, gram, variances
from credax.functions.hyperparameters import parameters, with_parameters
from credax.functions.kernels import Kernel, as_kernel, named_kernel, to_data
from credax.functions.posterior import FunctionPosterior, read_posterior, standard_rows
from credax.functions.sparse import JITTER, SparseDescent, lower_roots
from credax.likelihood import refuse_grid, require_posterior
from credax.network import output_struct
from credax.prediction import Prediction
from credax.problem import Problem
from credax.reading.records import OBJECT
from credax.training import Training

CANDIDATES = 10_000
"""Rows from which inducing points are chosen."""


@dataclass(frozen=True)
class SparsePosterior(FunctionPosterior):
    """``q(f)``: a Gaussian at inducing points, and the prior given them elsewhere."""

    kernel: Kernel
    points: Float[np.ndarray, "inducing columns"]
    """Inducing points in standard units."""
    mean: Float[np.ndarray, "inducing outputs"]
    root: Float[np.ndarray, "outputs inducing inducing"]
    """Whitened: the values at the points are ``L (mean + root ε)``."""
    own: Any
    """Parameters of the likelihood itself."""

    @property
    def lower(self) -> Float[np.ndarray, "inducing inducing"]:
        """The Cholesky factor at the inducing points, with the jitter of the training."""
        within = gram(self.kernel, self.points, self.points)
        return np.linalg.cholesky(within + self._jitter(within) * np.eye(len(within)))

    def moments(
        self, points: np.ndarray
    ) -> tuple[Float[np.ndarray, "points outputs"], Float[np.ndarray, "points outputs"]]:
        """Mean and variance of the functions at points in standard units."""
        reached = self._reached(points)
        spread = np.einsum("oij,ip->ojp", self.root, reached)
        own = np.maximum(variances(self.kernel, points) - np.sum(reached**2, axis=0), 0.0)
        return reached.T @ self.mean, own[:, None] + np.sum(spread**2, axis=1).T

    def predict_points(self, points) -> Prediction:
        """In closed form for Gaussian noise, else of members."""
        mean, variance = self.moments(points)
        likelihood = self.problem.likelihood
        params = likelihood.join({}, self.own)
        if likelihood.has_one_noise:
            noise = likelihood.noise_variance(params, jnp.zeros(mean.shape[1]))
            return self.closed_form(mean, variance, np.asarray(noise, np.float64))
        values = mean + np.sqrt(variance) * self.noise[:, None].astype(np.float64)
        outputs = likelihood.all_outputs(params, jnp.asarray(values, jnp.float32))
        return self.problem.predict(outputs)

    def latent_functions(self, key, n, points, **options: Any) -> np.ndarray:
        """``f(x) + k(x, Z) K⁻¹ (u - f(Z))`` with draws ``f`` of the prior and ``u`` of ``q``."""
        return self._draw(key, n, points, **options)

    def _draw(self, key, n, points, joint: Joint = "auto", features: int = FEATURES) -> np.ndarray:
        keys, outputs = draw_keys(key, n), self.mean.shape[1]
        if not by_features(self.kernel, joint):
            reached = self._reached(points)
            left = gram(self.kernel, points, points) - reached.T @ reached
            parts = []
            for o, root in enumerate(self.root):
                spread = root.T @ reached
                mean = (reached.T @ self.mean)[:, o : o + 1]
                salted = jax.vmap(lambda k, o=o: jax.random.fold_in(k, 100 + o))(keys)
                parts.append(draw_at_points(salted, mean, left + spread.T @ spread))
            return np.concatenate(parts, axis=-1)
        lower = self.lower
        both = np.concatenate([self.points, points])
        drawn = draw_prior(self.kernel, keys, both, outputs, features)
        known, wanted = drawn[:, : len(lower)], drawn[:, len(lower) :]
        noise = normal_of(keys, 1, (2, *known.shape[1:]))
        within = gram(self.kernel, self.points, self.points)
        known = known + np.sqrt(self._jitter(within)) * noise[:, 0]
        values = self.mean + np.einsum("oij,njo->nio", self.root, noise[:, 1])
        whitened = np.stack([solve_triangular(lower, one, lower=True) for one in known])
        return wanted + np.einsum("ip,nio->npo", self._reached(points), values - whitened)

    def save(self, path: str | Path) -> None:
        """Keep inducing points, the Gaussian, the kernel and the likelihood's own numbers."""
        arrays = {"points": self.points, "mean": self.mean, "root": self.root, "noise": self.noise}
        if self.problem.likelihood.learns:
            arrays["own"] = np.asarray(self.own)
        kernel = {"kernel": to_data(self.kernel)}
        save_tree(path, arrays, self.description("sparse process") | kernel)

    def _reached(self, points: np.ndarray) -> np.ndarray:
        return solve_triangular(self.lower, gram(self.kernel, self.points, points), lower=True)

    @staticmethod
    def _jitter(within: np.ndarray) -> float:
        return JITTER * float(np.mean(np.diag(within)))


@dataclass(frozen=True)
class SVGP:
    """A Gaussian process through inducing points, trained by minibatches.

    The values at ``inducing`` points have a Gaussian distribution ``q``; points, ``q``, kernel and
    noise maximise ``Σ E_q log p(y|f) - KL(q || prior)``. One process per output. Any likelihood of
    credax with a posterior will do. Cost per step: rows times the square of ``inducing``. Plain
    descent ends in the optimum without a function, so where the optimiser is sgd, Adam is used.
    Reference: Hensman et al., Gaussian processes for big data, UAI 2013.

    >>> SVGP(inducing=50).inducing
    50
    """

    name: ClassVar[str] = "svgp"
    title: ClassVar[str] = "Sparse variational GP"

    kernel: KernelSetting = "rbf"
    """rbf, matern12, matern32, matern52, rational-quadratic, periodic, linear, constant, white, or
    such names with + and *."""
    ard: bool = True
    """A length-scale for each column."""
    inducing: int = 100
    """Inducing points; at most the training rows."""
    draws: int = 8
    """Draws of the functions per row and step, for other likelihoods than Gaussian."""
    members: int = 100
    """Draws for a prediction that has no closed form."""

    def __post_init__(self):
        for name in ("inducing", "draws", "members"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; it is at least 1")
        if isinstance(self.kernel, str):
            named_kernel(self.kernel, 1)

    def settings(self, training: Training, num_data: int) -> Training:
        """Adam in place of sgd, with rate 0.01 in place of the default one."""
        return with_adam(training)

    def start(self, columns: int) -> Kernel:
        """The kernel before training."""
        if isinstance(self.kernel, str):
            return named_kernel(self.kernel, columns, self.ard)
        kernel = as_kernel(self.kernel)
        kernel.check(columns)
        to_data(kernel)
        return kernel

    def dynamics(self, problem: Problem, data: Split, training: Training) -> SparseDescent:
        """Descent on the bound."""
        likelihood = problem.likelihood
        require_posterior(likelihood, self.title)
        refuse_grid(likelihood, self.title)
        if training.keep_best:
            raise InputError("keep_best is set; svgp keeps its last state: leave it out")
        step = max(1, len(data) // CANDIDATES)
        rows = standard_rows(problem, np.asarray(data.x[::step][:CANDIDATES]))
        kernel = self.start(rows.shape[1])
        example = jax.ShapeDtypeStruct((1, *data.x.shape[1:]), data.x.dtype)
        shapes = jax.eval_shape(problem.init, jax.random.key(0), example)
        prepared = jax.eval_shape(problem.prepare_inputs, example)
        whole = output_struct(problem.network, shapes, prepared)
        outputs = jax.eval_shape(likelihood.network_outputs, whole).shape[-1]
        return SparseDescent(
            problem,
            training,
            len(data),
            jax.tree.map(jnp.asarray, kernel),
            jnp.asarray(parameters(kernel), jnp.float32),
            jnp.asarray(rows, jnp.float32),
            min(self.inducing, len(rows)),
            outputs,
            1 if likelihood.has_one_noise else self.members,
            self.draws,
        )

    def posterior(self, problem, dynamics, states, variables, alive, data) -> SparsePosterior:
        """The Gaussian at the inducing points, in float64."""
        if not bool(np.all(alive)):
            raise InputError(
                "the bound of svgp became no number; lower the learning rate, or use adam"
            )
        state = jax.tree.map(lambda leaf: np.asarray(leaf[0]), states)
        trained = state.trained
        kernel = self.start(trained.points.shape[1])
        with jax.enable_x64(True):
            root = np.asarray(lower_roots(jnp.asarray(trained.root, jnp.float64)))
        divergence = np.sum(root**2) + np.sum(np.square(trained.mean, dtype=np.float64))
        logs = np.diagonal(trained.root, axis1=1, axis2=2).astype(np.float64)
        return SparsePosterior(
            problem=problem,
            noise=state.noise,
            indices=tuple(range(len(state.noise))),
            input_shape=tuple(data.x.shape[1:]),
            input_dtype=str(np.asarray(data.x[:0]).dtype),
            diagnostics={
                "inducing": len(trained.points),
                "jitter": JITTER,
                "kl": float(0.5 * (divergence - logs.size) - logs.sum()),
            },
            kernel=with_parameters(kernel, np.asarray(trained.logs, np.float64)),
            points=np.asarray(trained.points, np.float64),
            mean=np.asarray(trained.mean, np.float64),
            root=root,
            own=trained.own,
        )

    def load(self, path, problem: Problem) -> SparsePosterior:
        """Read the Gaussian, the kernel and the likelihood's own numbers back."""
        names = {"points", "mean", "root", "noise"}
        names |= {"own"} if problem.likelihood.learns else set()
        arrays, metadata, shared = read_posterior(
            path, problem, "sparse process", {"kernel": OBJECT}, (names,)
        )
        points, mean, root = arrays["points"], arrays["mean"], arrays["root"]
        count, outputs = mean.shape if mean.ndim == 2 else (0, 0)
        columns = int(np.prod(shared["input_shape"], dtype=int))
        fits = points.shape == (count, columns) and root.shape == (outputs, count, count)
        own = arrays.get("own", {})
        if not fits or not count or shared["noise"].shape[1] != outputs:
            raise DamagedFile(
                f"{path} holds {points.shape} inducing points, means {mean.shape} and roots "
                f"{root.shape}, which do not fit; restore it from a copy"
            )
        kernel = stored_kernel(metadata["kernel"], columns, path)
        rest = {"kernel": kernel, "points": points, "mean": mean, "root": root, "own": own}
        return SparsePosterior(**shared, **rest)
