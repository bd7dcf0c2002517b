"""Laplace: a Gaussian with the curvature of the loss at the mode (MacKay 1992)."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np

from credax.data.dataset import Split
from credax.errors import InputError
from credax.likelihood import require_posterior
from credax.methods.ensemble import choices
from credax.methods.laplace.fit import check_modes, gaussian_around, largest_variances
from credax.methods.laplace.plan import Plan, check_memory, make_plan
from credax.methods.laplace.posterior import LaplacePosterior, laplace_posterior
from credax.methods.laplace.still import Still
from credax.methods.laplace.stored import CLOSED_LINKS
from credax.methods.laplace.subset import smallest
from credax.methods.laplace.validation import tune_on
from credax.methods.modes import Kept, Modes, collecting, example_variables
from credax.network import Variables
from credax.posterior import population
from credax.prior import GaussianPrior
from credax.problem import Problem
from credax.training import Training
from credax.training.collecting import Collecting, Nothing


@dataclass(frozen=True)
class Laplace(Modes):
    """A Gaussian around the trained network, ``N(θ*, (H / T + P₀)⁻¹)``.

    ``H = Σ_n Jᵀ Λ J`` is the generalised Gauss-Newton matrix of all rows and ``P₀`` the prior
    precision, tuned by the evidence unless it is given. ``curvature="empirical_fisher"`` has
    ``H = Σ_n g gᵀ`` with ``g`` the gradient of row n's log-likelihood (no other factor), and
    ``"hessian"`` the second derivatives. ``structure="functional"`` is the Gaussian process with
    the kernel ``J(x) P₀⁻¹ J(x')ᵀ``: as exact as "full", and cheaper where rows times outputs are
    fewer than weights. Predictions are those of the network
    linearised at the mode, or of drawn weights. Costs one training and one pass over the data (a
    pass per output backwards); memory is bounded by ``memory``. Reference: Daxberger et al.,
    Laplace redux, NeurIPS 2021.

    >>> Laplace().structure, Laplace().subset
    ('kfac', 'last_layer')
    """

    name: ClassVar[str] = "laplace"
    title: ClassVar[str] = "Laplace"

    structure: Literal["kfac", "full", "diagonal", "low_rank", "functional"] = "kfac"
    """Which part of the curvature is kept; functional: all of it, by the kernel matrix of rows."""
    curvature: Literal["ggn", "empirical_fisher", "hessian"] = "ggn"
    """Gauss-Newton matrix, outer products of the rows' gradients, or second derivatives."""
    subset: Literal["last_layer", "all", "largest"] = "last_layer"
    """Weights with a posterior; largest: the entries with the largest variances."""
    leaves: tuple[str, ...] = ()
    """Arrays with a posterior, by name or beginning of a name, instead of the subset."""
    size: int = 1000
    """Entries of subset=largest."""
    rank: int = 50
    """Eigenpairs of structure=low_rank."""
    bias: Literal["joint", "separate"] = "joint"
    """A bias in the block of its kernel (kfac), or in one of its own."""
    prior_precision: float | Literal["evidence", "by_layer", "problem", "validation"] = "evidence"
    """Tuned by the evidence (one, or one per block) or on validation rows, the problem's own, or a
    number."""
    noise: Literal["problem", "evidence"] = "problem"
    """Noise of a Gaussian likelihood: as it is, or rescaled by the evidence."""
    temperature: float = 1.0
    """Divides the curvature: below 1 the posterior is colder."""
    predictive: Literal["linearised", "sampled"] = "linearised"
    """Predict with the linearised network, or with drawn weights."""
    link: Literal["monte_carlo", "probit", "bridge", "bridge_normalised"] = "monte_carlo"
    """Class probabilities of linearised outputs: nodes (members), or one closed form per mode."""
    samples: int = 100
    """Members of a prediction per mode: nodes or drawn networks."""
    memory: float = 1.0
    """Gigabytes that curvature and Jacobians may take."""
    modes: int = 1
    """Independent networks, mixed: multi-Laplace. Around a population nothing trains."""
    weights: Literal["equal", "evidence"] = "equal"
    """How modes are mixed: all alike, or in proportion to their evidence."""

    def __post_init__(self):
        Modes.__post_init__(self)
        choices(self)
        for name in ("samples", "size", "rank"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; it is at least 1")
        for name in ("temperature", "memory", "prior_precision"):
            value = getattr(self, name)
            if not isinstance(value, str) and not value > 0:
                raise InputError(f"{name} is {value}; give a positive number")
        if self.subset == "largest" and self.structure not in ("full", "diagonal"):
            raise InputError(
                f"subset is 'largest' and structure is {self.structure!r}; single entries have a "
                "full or a diagonal curvature: use structure='full'"
            )
        self._check_curvature()
        whole = ("full", "low_rank", "functional")
        if self.prior_precision == "by_layer" and self.structure in whole:
            raise InputError(
                f"prior_precision is 'by_layer' and structure is {self.structure!r}, which is one "
                "block; use 'evidence', or structure='kfac' or 'diagonal'"
            )

    def _check_curvature(self) -> None:
        if self.curvature != "ggn" and self.noise == "evidence":
            raise InputError(
                f"noise is 'evidence' and curvature is {self.curvature!r}, which no noise level "
                "merely rescales; use curvature='ggn', or leave noise out"
            )
        if self.curvature != "hessian":
            return
        if self.structure in ("kfac", "functional"):
            raise InputError(
                f"curvature is 'hessian' and structure is {self.structure!r}; second derivatives "
                "are no products of gradients: use structure='full', 'diagonal' or 'low_rank'"
            )
        tuned = isinstance(self.prior_precision, str) and self.prior_precision != "problem"
        if tuned and self.structure != "low_rank":
            raise InputError(
                f"curvature is 'hessian' and prior_precision is {self.prior_precision!r}; second "
                "derivatives may have negative eigenvalues, for which the evidence has no maximum: "
                "use prior_precision='problem' or a number"
            )

    def settings(self, training: Training, num_data: int) -> Training:
        """As given; around trained networks one step that does nothing."""
        if self.around is None:
            return training
        return training.replace(epochs=1, batch_size=num_data, warmup_epochs=0.0, augment=())

    def dynamics(self, problem: Problem, data: Split, training: Training) -> Collecting:
        """Descent to the mode; what cannot be done is refused before it."""
        require_posterior(problem.likelihood, self.title)
        self._check(problem, len(data))
        shapes = example_variables(problem, data)
        zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
        self._plan(problem, zeros, data)
        trains = self.around is None
        descent = self.descent(problem, data, training, shared_batches=not trains)
        inner = descent if trains else Still(descent)
        return collecting(inner, Nothing(), [], training, data)

    def result(
        self, problem: Problem, dynamics: Collecting, kept: Kept, data: Split
    ) -> LaplacePosterior:
        """The curvature at each mode, mode after mode, and the prior that the evidence chooses."""
        variables = jax.tree.map(jnp.asarray, kept.states.inner.variables)
        networks = [
            jax.tree.map(lambda leaf, i=i: leaf[i], variables) for i in range(len(kept.modes))
        ]
        plan = self._plan(problem, networks[0], data)
        if plan.entries is not None:
            # Chosen at the first mode for all, so that their Gaussians are alike.
            chosen = largest_variances(
                problem, networks[0], data, self.size, plan.outputs, self.memory, self.curvature
            )
            plan = self._plan(problem, networks[0], data, jnp.asarray(chosen, jnp.int32))
        options = {
            "rank": None if self.structure == "functional" else self.rank,
            "memory": self.memory,
            "curvature": self.curvature,
            "temperature": self.temperature,
            # What is tuned on validation rows begins with the evidence's.
            "prior_precision": "evidence" if self.needs_validation else self.prior_precision,
            "noise": self.noise == "evidence",
        }
        found = [gaussian_around(problem, network, data, plan, **options) for network in networks]
        gaussians, factors, distances = (tuple(each) for each in zip(*found, strict=True))
        check_modes(kept.modes, list(distances))
        weights = [problem.weights(network.params) for network in networks]
        parts = zip(gaussians, weights, strict=True)
        diagnostics = {
            "log_evidence": [
                gaussian.evidence(plan, w).log_evidence(gaussian.priors, float(gaussian.noise))
                for gaussian, w in parts
            ],
            "prior_precision": [[float(p) for p in gaussian.priors] for gaussian in gaussians],
            "noise_factor": [float(gaussian.noise) for gaussian in gaussians],
            "distance_from_mode": list(distances),
        }
        trained = population(problem, variables, data.x, kept.modes, diagnostics)
        seeds = jnp.asarray(kept.states.seed)
        return laplace_posterior(trained, gaussians, seeds, plan, self._options(), factors)

    @property
    def needs_validation(self) -> bool:
        """Whether the prior precision is that of validation rows (`TunedOnValidation`)."""
        return self.prior_precision == "validation"

    def tuned(self, posterior: LaplacePosterior, validation: Split) -> LaplacePosterior:
        """The same curvature under the prior precision that predicts validation rows best."""
        return tune_on(posterior, validation.x, validation.y)

    def load(self, path, problem: Problem) -> LaplacePosterior:
        """Read networks and curvature back."""
        return LaplacePosterior.load(path, problem)

    def _plan(self, problem: Problem, variables: Variables, data: Split, entries=None) -> Plan:
        x = jax.ShapeDtypeStruct((1, *data.x.shape[1:]), data.x.dtype)
        if self.subset == "largest" and entries is None:
            count = sum(leaf.size for leaf in jax.tree.leaves(problem.weights(variables.params)))
            entries = jnp.asarray(smallest(np.zeros(count), self.size), jnp.int32)
        plan = make_plan(
            problem,
            variables,
            x,
            structure=self.structure,
            subset=self.subset,
            leaves=self.leaves,
            joint=self.bias == "joint",
            entries=entries,
        )
        itemsize = jax.tree.leaves(variables.params)[0].dtype.itemsize
        kernel = len(data) * (plan.outputs if self.curvature == "ggn" else 1)
        check_memory(plan, self.structure, self.rank, itemsize, self.memory, kernel=kernel)
        return plan

    def _options(self) -> dict[str, Any]:
        names = ("structure", "subset", "bias", "predictive", "link", "samples", "memory")
        # Only where they differ from what older files mean.
        names += ("curvature",) if self.curvature != "ggn" else ()
        names += ("weights",) if self.weights != "equal" else ()
        return {name: getattr(self, name) for name in names} | {"leaves": list(self.leaves)}

    def _check(self, problem: Problem, num_data: int) -> None:
        prior = problem.prior
        if self.prior_precision == "problem" and not isinstance(prior, GaussianPrior):
            raise InputError(
                "prior_precision is 'problem' and the problem's prior is no Gaussian; use "
                "'evidence' or a number"
            )
        flat = isinstance(prior, GaussianPrior) and not prior.precision_for(num_data)
        if self.prior_precision == "problem" and flat:
            raise InputError(
                "prior_precision is 'problem' and its prior is flat (weight_decay=0); give the "
                "problem a weight_decay, or use prior_precision='evidence' or a number"
            )
        likelihood, kind = problem.likelihood, type(problem.likelihood).__name__
        if likelihood.grid_axes and self.predictive == "linearised":
            raise InputError(
                "predictive is 'linearised' and the outputs lie on a grid, whose covariance is too "
                "large; use predictive='sampled' (of the last layer the same Gaussian)"
            )
        closed = self.link in CLOSED_LINKS and likelihood.task == "classification"
        if closed and not likelihood.has_logits:
            raise InputError(
                f"link is {self.link!r} and the outputs of {kind} are no logits; use "
                "link='monte_carlo'"
            )
        if closed and self.link != "probit" and likelihood.num_outputs(2) == 1:
            raise InputError(
                f"link is {self.link!r} and the likelihood is {kind}, with one output; use "
                "link='probit' or 'monte_carlo', or Categorical with two outputs"
            )
        if self.noise == "evidence" and not likelihood.has_one_noise:
            raise InputError(
                f"noise is 'evidence' and the likelihood is {kind}, which has "
                "no noise level to tune; leave noise out"
            )
