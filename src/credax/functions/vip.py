"""Variational implicit processes as a method: a network's prior as a Gaussian process."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from credax.data.dataset import Split
from credax.errors import DamagedFile, InputError, unknown
from credax.files import arranged, save_tree, tree_names
from credax.functions.combination import (
    Coefficients,
    conjugate,
    effective_rank,
    features_of,
    moments,
)
from credax.functions.descent import with_adam, with_steps
from credax.functions.draws import draw_keys, normal_of
from credax.functions.posterior import FunctionPosterior, read_posterior
from credax.functions.vip_descent import VIPDescent, drawn_weights, function_values
from credax.likelihood import refuse_grid, require_posterior
from credax.network import Variables
from credax.prediction import Prediction
from credax.problem import Problem
from credax.reading.records import one_of
from credax.training import Training

MOST_CONJUGATE = 5000


@dataclass(frozen=True)
class ImplicitPosterior(FunctionPosterior):
    """Linear combinations of the functions of ``S`` networks, with a Gaussian on the factors."""

    weights: PyTree
    """The prior's networks, stacked."""
    mean: Float[np.ndarray, " draws"]
    root: Float[np.ndarray, "draws draws"]
    own: Any
    """Parameters of the likelihood itself."""
    normalisation: Literal["population", "sample"]

    def features(self, points: np.ndarray):
        """Mean and features of the networks at points in standard units, in float64."""
        shaped = np.asarray(points, np.float32).reshape(len(points), *self.input_shape)
        values = np.asarray(_values(self.problem, self.weights, shaped), np.float64)
        with jax.enable_x64(True):
            return features_of(jnp.asarray(values), self.normalisation)

    def predict_points(self, points) -> Prediction:
        """In closed form for Gaussian noise, else of members."""
        likelihood = self.problem.likelihood
        features = self.features(points)
        params = likelihood.join({}, self.own)
        with jax.enable_x64(True):
            if likelihood.has_one_noise:
                mean, variance = (np.asarray(a) for a in moments(features, self._q()))
                noise = likelihood.noise_variance(params, jnp.zeros(mean.shape[1]))
                return self.closed_form(mean, variance, np.asarray(noise, np.float64))
        values = self._combined(features, self.noise.astype(np.float64))
        outputs = likelihood.all_outputs(params, jnp.asarray(values, jnp.float32))
        return self.problem.predict(outputs)

    def latent_functions(self, key, n, points, **options: Any):
        """Draws of the coefficients, and so of whole functions."""
        if options:
            raise InputError(f"{sorted(options)[0]} is no option here: draws are exact functions")
        noise = normal_of(draw_keys(key, n), 1, (len(self.mean),))
        return self._combined(self.features(points), noise)

    def sample(self, key, n: int) -> Variables:
        """The coefficients' noise of ``n`` new members."""
        return Variables({"noise": jax.random.normal(key, (n, len(self.mean)))}, {})

    def save(self, path: str | Path) -> None:
        """Keep the networks, the Gaussian of the factors and the likelihood's own numbers."""
        arrays = {"mean": self.mean, "root": self.root, "noise": self.noise}
        arrays |= {"weights": self.weights}
        if self.problem.likelihood.learns:
            arrays["own"] = np.asarray(self.own)
        normalisation = {"normalisation": self.normalisation}
        save_tree(path, arrays, self.description("implicit process") | normalisation)

    def _q(self) -> Coefficients:
        return Coefficients(jnp.asarray(self.mean), jnp.asarray(self.root))

    def _combined(self, features, noise: np.ndarray) -> np.ndarray:
        factors = self.mean + noise @ self.root.T
        phi = np.asarray(features.phi)
        return np.asarray(features.mean) + np.einsum("pos,ns->npo", phi, factors)


@eqx.filter_jit
def _jitted(problem: Problem, weights: PyTree, x: Array) -> Array:
    return function_values(problem, weights, x)


def _values(problem: Problem, weights: PyTree, x: np.ndarray) -> Array:
    return _jitted(problem.traced(), weights, jnp.asarray(x))


@dataclass(frozen=True)
class VIP:
    """A variational implicit process: the prior of a Bayesian network, replaced by the Gaussian
    process of the same moments.

    ``f = m + φᵀ a`` with ``m`` the mean and ``φ`` the deviations of ``draws`` networks of fixed
    noise, ``a ~ N(0, I)``. The prior's means and variances are learned. With Gaussian noise and at
    most 5000 rows every step takes the exact evidence of all rows, and the posterior of ``a`` is
    exact; otherwise steps take the ``alpha`` energy of minibatches. Reference: Ma, Li and
    Hernandez-Lobato, Variational implicit processes, ICML 2019.

    >>> VIP(draws=30).draws
    30
    """

    name: ClassVar[str] = "vip"
    title: ClassVar[str] = "Variational implicit process"

    draws: int = 100
    """Networks drawn from the prior: the rank of the process (20 in the paper)."""
    alpha: float = 0.5
    """Of the energy: 1 is the predictive density, 0 the evidence bound."""
    path: Literal["auto", "conjugate", "energy"] = "auto"
    """The exact evidence of all rows, or minibatches; auto is exact up to 5000 rows."""
    normalisation: Literal["population", "sample"] = "population"
    """Deviations over the root of the draws, or of one fewer."""
    prior_parameters: Literal["layer", "all"] = "layer"
    """Learned of the prior: a mean and a variance per array, or per weight (then give prior_kl)."""
    prior_kl: float | None = None
    """Weight of the KL from a standard prior, which keeps a prior of many parameters from
    overfitting."""
    samples: int = 8
    """Draws per row and step, for other likelihoods than Gaussian."""
    members: int = 100
    """Draws for a prediction that has no closed form."""
    least_steps: int = 2000
    """Gradient steps that the prior needs: where the epochs give fewer there are more of them."""

    def __post_init__(self):
        if self.draws < 2:
            raise InputError(f"draws is {self.draws}; a variance needs at least 2")
        for name in ("samples", "members", "least_steps"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; it is at least 1")
        if not 0 <= self.alpha <= 1:
            raise InputError(f"alpha is {self.alpha}; it lies in [0, 1]")
        for name, known in (
            ("path", ("auto", "conjugate", "energy")),
            ("normalisation", ("population", "sample")),
            ("prior_parameters", ("layer", "all")),
        ):
            if getattr(self, name) not in known:
                raise unknown(name, getattr(self, name), known)
        if self.prior_parameters == "all" and not (self.prior_kl or 0) > 0:
            raise InputError(
                "prior_parameters is 'all' and prior_kl is not given; a prior with every weight "
                "learned overfits without a penalty: give prior_kl=1.0, or use 'layer'"
            )
        if self.prior_kl is not None and not self.prior_kl >= 0:
            raise InputError(f"prior_kl is {self.prior_kl}; it is not negative")

    def settings(self, training: Training, num_data: int) -> Training:
        """Adam in place of sgd, with rate 0.01 in place of the default one; enough epochs."""
        return with_steps(with_adam(training), num_data, self.least_steps)

    def is_conjugate(self, problem: Problem, num_data: int) -> bool:
        """Whether the evidence is exact here."""
        if self.path == "conjugate" and not problem.likelihood.has_one_noise:
            raise InputError(
                f"path is 'conjugate' and the likelihood is {type(problem.likelihood).__name__}; "
                "the evidence is known for Gaussian noise only: use path='energy'"
            )
        small = num_data <= MOST_CONJUGATE
        return self.path == "conjugate" or (
            self.path == "auto" and small and problem.likelihood.has_one_noise
        )

    def dynamics(self, problem: Problem, data: Split, training: Training) -> VIPDescent:
        """Descent on the negative evidence or energy."""
        require_posterior(problem.likelihood, self.title)
        refuse_grid(problem.likelihood, self.title)
        if training.keep_best:
            raise InputError("keep_best is set; vip keeps its last state: leave it out")
        conjugate_path = self.is_conjugate(problem, len(data))
        whole = None
        if conjugate_path:
            batch = problem.prepare(jnp.asarray(data.x), jnp.asarray(data.y))
            whole = batch._replace(y=batch.y.reshape(len(data), -1))
        return VIPDescent(
            problem,
            training,
            len(data),
            self.draws,
            self.alpha,
            self.normalisation,
            self.prior_parameters == "all",
            self.prior_kl or 0.0,
            self.samples,
            1 if problem.likelihood.has_one_noise else self.members,
            whole,
        )

    def posterior(self, problem, dynamics, states, variables, alive, data) -> ImplicitPosterior:
        """The networks of the prior, and the Gaussian of their factors in float64."""
        if not bool(np.all(alive)):
            raise InputError(
                "the objective of vip became no number; lower the learning rate, or use adam"
            )
        state = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), states)
        trained = state.trained
        weights = jax.tree.map(np.asarray, drawn_weights(trained.prior, state.fixed))
        x = np.asarray(problem.prepare_inputs(np.asarray(data.x)), np.float32)
        blocks = [_values(problem, weights, x[i : i + 512]) for i in range(0, len(x), 512)]
        values = np.concatenate([np.asarray(b, np.float64) for b in blocks], axis=1)
        q = dynamics.coefficients(trained)
        with jax.enable_x64(True):
            features = features_of(jnp.asarray(values), self.normalisation)
            if dynamics.whole is not None:
                params = problem.likelihood.join({}, trained.own)
                noise = problem.likelihood.noise_variance(params, jnp.zeros(1))
                y = jnp.asarray(np.asarray(dynamics.whole.y, np.float64))
                q = conjugate(features, y, jnp.asarray(noise, jnp.float64)[0])
            rank = float(effective_rank(features))
        return ImplicitPosterior(
            problem=problem,
            noise=np.asarray(state.noise),
            indices=tuple(range(len(state.noise))),
            input_shape=tuple(data.x.shape[1:]),
            input_dtype=str(np.asarray(data.x[:0]).dtype),
            diagnostics={"effective_rank": rank, "rank": self.draws},
            weights=weights,
            mean=np.asarray(q.mean, np.float64),
            root=np.asarray(q.root, np.float64),
            own=jax.tree.map(np.asarray, trained.own),
            normalisation=self.normalisation,
        )

    def load(self, path, problem: Problem) -> ImplicitPosterior:
        """Read the networks and the Gaussian back."""
        return load_implicit(path, problem)


def load_implicit(path: str | Path, problem: Problem) -> ImplicitPosterior:
    """Read what `ImplicitPosterior.save` wrote."""
    fields = {"normalisation": one_of("population", "sample")}
    arrays, metadata, shared = read_posterior(path, problem, "implicit process", fields, None)
    mean, root = arrays.get("mean", np.zeros(0)), arrays.get("root", np.zeros(0))
    count = len(mean) if mean.ndim == 1 else 0
    fits = root.shape == (count, count) and shared["noise"].shape[1] == count
    if not count or not fits:
        raise DamagedFile(
            f"{path} holds means {mean.shape} and roots {root.shape} of the factors, which do not "
            "fit; restore it from a copy"
        )
    problem = shared["problem"]
    example = jax.ShapeDtypeStruct((1, *shared["input_shape"]), shared["input_dtype"])
    one = problem.weights(jax.eval_shape(problem.init, jax.random.key(0), example).params)
    template = jax.tree.map(lambda s: jax.ShapeDtypeStruct((count, *s.shape), s.dtype), one)
    prefix = "weights/"
    own = {k: v for k, v in arrays.items() if k.startswith(prefix)}
    rest = set(arrays) - set(own) - {"mean", "root", "noise"}
    if rest != ({"own"} if problem.likelihood.learns else set()) or not tree_names(template):
        raise DamagedFile(f"{path} holds other arrays than it should; restore it from a copy")
    weights = arranged(path, own, {"weights": template})["weights"]
    return ImplicitPosterior(
        **shared,
        weights=jax.tree.map(np.asarray, weights),
        mean=mean,
        root=root,
        own=arrays.get("own", {}),
        normalisation=metadata["normalisation"],
    )
