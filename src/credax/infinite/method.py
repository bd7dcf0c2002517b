"""Infinitely wide ensembles as methods: no network is trained, a kernel's Gram matrix is solved."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from credax.data.dataset import Split
from credax.errors import InputError, unknown
from credax.infinite import activations
from credax.infinite.dynamics import EnsembleDynamics
from credax.infinite.layers import InfiniteDense
from credax.infinite.net import Serial, serial
from credax.infinite.posterior import (
    InfinitePosterior,
    chosen_scale,
    load_infinite,
    prepared,
    targets_of,
)
from credax.infinite.spectrum import Ridge
from credax.likelihood import LearnedNoise
from credax.network import Variables, output_struct
from credax.networks import MLP
from credax.problem import Problem
from credax.training import Training
from credax.training.dynamics import Dynamics, Replicas

ACTIVATIONS = {
    "relu": activations.ReLU,
    "erf": activations.Erf,
    "gelu": activations.GELU,
    "sin": activations.Sine,
}


class Waiting(Dynamics):
    """What the training loop runs for a method that needs no steps: members keep their noise."""

    outputs: int = eqx.field(static=True)
    replicas: Replicas = Replicas()  # pyright: ignore[reportIncompatibleMethodOverride]

    scored = False

    def init(self, key, variables: Variables):
        """A member's noise."""
        return {"noise": jax.random.normal(key, (self.outputs,))}

    def step(self, key, state, batch):
        """Nothing happens: the kernels are solved when the loop has ended."""
        return state, {"loss": jnp.float32(0)}

    def members(self, state) -> Variables:
        """The noise, with an axis of length one."""
        return Variables(jax.tree.map(lambda leaf: leaf[None], state), {})


@dataclass(frozen=True)
class InfiniteWidth:
    """What both records share: the architecture, the time, the ridge, the members drawn."""

    title: ClassVar[str]

    members: int = 20
    """Infinitely wide networks drawn for predictions."""
    depth: int | None = None
    """Hidden layers; by default the network's own where it is an MLP, else 2."""
    activation: Literal["relu", "erf", "gelu", "sin"] | None = None
    """Activation; by default the network's own where it is such an MLP, else relu."""
    weight_std: float = 2**0.5
    """Scale of the weights."""
    bias_std: float = 0.1
    """Scale of the biases."""
    time: float | None = None
    """Learning rate times training time on half the summed squares; by default infinite."""
    ridge: float = 1e-3
    """Added to the training kernel's diagonal, relative to its mean."""
    most_rows: int = 8000
    """Training rows above which the solve (their cube) is refused."""

    def __post_init__(self):
        if self.members < 1:
            raise InputError(f"members is {self.members}; draw at least 1")
        if self.depth is not None and self.depth < 1:
            raise InputError(f"depth is {self.depth}; give at least 1 hidden layer")
        if self.activation is not None and self.activation not in ACTIVATIONS:
            raise unknown("activation", self.activation, ACTIVATIONS)
        for name in ("ridge", "time"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise InputError(f"{name} is {value}; give a number of at least 0")

    def net(self, network: Any) -> Serial:
        """The dense network whose infinite width is used, shaped like an MLP that is given."""
        network = network.network if isinstance(network, LearnedNoise) else network
        like = network if isinstance(network, MLP) else None
        depth = self.depth or (len(like.hidden) if like is not None else 2)
        name = self.activation
        if name is None:
            name = (
                like.activation if like is not None and like.activation in ACTIVATIONS else "relu"
            )
        layer = [InfiniteDense(512, self.weight_std, self.bias_std), ACTIVATIONS[name]()]
        return serial(*layer * depth, InfiniteDense(1, self.weight_std, self.bias_std))

    def dynamics(self, problem: Problem, data: Split, training: Training) -> Waiting:
        """Members that wait for the solve."""
        if not problem.likelihood.has_squared_error:
            raise InputError(
                f"likelihood is {type(problem.likelihood).__name__}, which has no form as a "
                f"squared error; {self.title} takes Categorical, Bernoulli, Gaussian and "
                "HeteroscedasticGaussian"
            )
        if len(data) > self.most_rows:
            raise InputError(
                f"there are {len(data)} training rows and most_rows is {self.most_rows}; the solve "
                "costs their cube: give fewer (--train-rows) or raise most_rows"
            )
        return Waiting(num_outputs(problem, data), Replicas(self.members, shared_batches=True))

    def load(self, path, problem: Problem) -> InfinitePosterior:
        """Read the rows back and solve again."""
        return load_infinite(path, problem, self._build)

    def posterior(self, problem, dynamics, states, variables, alive, data) -> InfinitePosterior:
        """The kernels of the training rows, solved."""
        noise = np.asarray(variables.params["noise"], np.float32)
        y = targets_of(problem, data.y, dynamics.outputs)
        return self._build(problem, np.asarray(data.x), y, noise, tuple(range(len(noise))))

    def _build(self, problem, x, y, noise, indices) -> InfinitePosterior:
        dynamics = EnsembleDynamics(
            self.net(problem.network),
            prepared(problem, x),
            y,
            train=self.train,  # pyright: ignore[reportAttributeAccessIssue]
            ridge=Ridge(self.ridge),
        )
        time = float("inf") if self.time is None else self.time
        solver = dynamics.spectrum.solver("flow", 1.0, time)
        learned = (dynamics.spectrum.vectors * solver) @ dynamics.spectrum.vectors.T
        scale = chosen_scale(problem, dynamics)
        return InfinitePosterior(problem, dynamics, time, noise, indices, x, scale, learned)


@dataclass(frozen=True)
class NTK(InfiniteWidth):
    """An ensemble of infinitely wide networks, all layers trained on the squared error.

    Mean and covariance by the neural tangent kernel (Jacot et al. 2018, Lee et al. 2019). The
    problem's network gives the depth and the activation; its weights are not trained.

    >>> NTK(members=5).members
    5
    """

    name: ClassVar[str] = "ntk"
    title: ClassVar[str] = "Infinite ensemble (NTK)"
    train: ClassVar[Literal["all", "last_layer"]] = "all"


@dataclass(frozen=True)
class NNGP(InfiniteWidth):
    """Bayesian inference in an infinitely wide network: a Gaussian process (Lee et al. 2018).

    ``ridge`` is the noise variance, relative to the kernel's mean diagonal.

    >>> NNGP().name
    'nngp'
    """

    name: ClassVar[str] = "nngp"
    title: ClassVar[str] = "Infinite network (NNGP)"
    train: ClassVar[Literal["all", "last_layer"]] = "last_layer"


def num_outputs(problem: Problem, data: Split) -> int:
    """Numbers that are regressed on: targets, or the network's outputs for classes."""
    if problem.likelihood.task == "regression":
        return int(np.prod(data.y.shape[1:], dtype=int))
    example = jax.ShapeDtypeStruct((1, *data.x.shape[1:]), data.x.dtype)
    variables = jax.eval_shape(problem.init, jax.random.key(0), example)
    rows = jax.eval_shape(problem.prepare_inputs, example)
    return output_struct(problem.network, variables, rows).shape[-1]
