"""An infinite ensemble of infinitely wide networks, trained by gradients to any time.

Squared loss and NTK scaling; the width goes to infinity first, then the number of members.
"""

from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Array, Float, Key

from credax.errors import InputError, unknown
from credax.infinite.kernel import KernelFunction
from credax.infinite.orbit_deviation import OrbitDeviation, orbit_deviation
from credax.infinite.spectrum import Evolution, Ridge, Spectrum
from credax.keys import numpy_generator
from credax.problem import check_inputs

Loss = Literal["half_sum", "half_mean", "mean", "per_example"]
LOSSES = ("half_sum", "half_mean", "mean", "per_example")


class _Blocks(NamedTuple):
    """Kernels between some points and the training points, and among the points."""

    cross_nngp: np.ndarray
    cross_driving: np.ndarray


class EnsembleDynamics:
    """Mean, covariance and members of the ensemble at time ``t``, from kernels alone.

    ``df/dt = -η α Θ (f - Y)``, so with ``A_t(x) = Θ(x, X) ψ_t(Θ(X, X))`` the mean is ``A_t(x) Y``
    and the covariance ``K(x, x') - A_t K(X, x') - K(x, X) A_tᵀ + A_t K(X, X) A_tᵀ`` (Lee et al.
    2019), evaluated without forming an inverse: singular Gram matrices are harmless.

    Args:
        kernel: gives ``kernels(x1, x2)``: a net, an `EmpiricalKernel`, a group average.
        x: training inputs ``[points, ...]``.
        y: targets ``[points]`` or ``[points, outputs]``.
        learning_rate: ``η``.
        loss: what ``α`` is: ``half_sum`` 1, ``half_mean`` 1/(NC), ``mean`` 2/(NC), ``per_example``
            1/(N noise²), for N points and C outputs.
        evolution: gradient ``flow`` (t is time) or gradient descent ``steps`` (t counts them).
        train: ``all`` layers, or the ``last_layer`` only (the NNGP drives the training).
        ridge: added to the driving Gram matrix; a `Ridge` is relative to its mean diagonal.
        noise: standard deviation of the likelihood, for ``per_example``.

    Cost: one eigendecomposition, ``N³``; then ``N²`` per point and time.
    """

    def __init__(
        self,
        kernel: KernelFunction,
        x: Any,
        y: Any,
        *,
        learning_rate: float = 1.0,
        loss: Loss = "half_sum",
        evolution: Evolution = "flow",
        train: Literal["all", "last_layer"] = "all",
        ridge: float | Ridge = 0.0,
        noise: float = 1.0,
    ):
        for name, value, allowed in (
            ("loss", loss, LOSSES),
            ("evolution", evolution, ("flow", "steps")),
            ("train", train, ("all", "last_layer")),
        ):
            if value not in allowed:
                raise unknown(name, value, allowed)
        self.kernel, self.train = kernel, train
        self.evolution: Evolution = evolution
        self.x, self.y = np.asarray(x), _columns(y)
        if len(self.x) != len(self.y):
            raise InputError(
                f"x has {len(self.x)} rows and y has {len(self.y)}; give one target per row"
            )
        for name, value in (("learning_rate", learning_rate), ("noise", noise)):
            if not (value > 0 and np.isfinite(value)):
                raise InputError(f"{name} is {value}; give a positive number")
        check_inputs(self.y, "y")
        self.learning_rate = learning_rate
        points = len(self.x) * getattr(kernel, "multiplicity", 1)
        entries = points * self.y.shape[1]
        # A kernel may mix outputs: its rows are then pairs of a point and an output.
        self.mixed = getattr(kernel, "outputs", 1)
        if self.mixed > 1 and self.mixed != self.y.shape[1]:
            raise InputError(
                f"y has {self.y.shape[1]} outputs and the kernel mixes {self.mixed}; give as many"
            )
        if self.mixed > 1:
            self.y = self.y.reshape(-1, 1)
        self.alpha = {
            "half_sum": 1.0,
            "half_mean": 1 / entries,
            "mean": 2 / entries,
            "per_example": 1 / (points * noise**2),
        }[loss]
        nngp, ntk = kernel.kernels(self.x)
        self.nngp = nngp
        self.driving = np.array(ntk if train == "all" else nngp)
        self.ridge = _ridge(ridge, self.driving)
        self.spectrum = Spectrum.of(
            self.driving + self.ridge * np.eye(len(self.driving)), "the training kernel"
        )

    @property
    def rank(self) -> int:
        """Directions of the training targets that can be learned."""
        return self.spectrum.rank

    @property
    def condition(self) -> float:
        """Largest over smallest eigenvalue of the driving Gram matrix, on its range."""
        return self.spectrum.condition

    @property
    def largest_learning_rate(self) -> float:
        """Gradient descent with steps of this size or more diverges: ``2 / (α λ_max)``."""
        return 2 / (self.alpha * float(self.spectrum.values[-1]))

    def mean(self, x, t) -> Float[np.ndarray, "*times points outputs"]:
        """The ensemble's mean at points and a time; an array of times adds a first axis."""
        cross = self._cross(x).cross_driving @ self.spectrum.vectors
        target = self.spectrum.vectors.T @ self.y
        means = [cross @ (self._solver(time)[:, None] * target) for time in np.atleast_1d(t)]
        if self.mixed > 1:
            means = [mean.reshape(-1, self.mixed) for mean in means]
        return means[0] if np.ndim(t) == 0 else np.stack(means)

    def member(self, x, initial_train, initial, t) -> Float[np.ndarray, "*times points outputs"]:
        """One network that starts at ``initial`` (at ``x``) and ``initial_train``, linearised."""
        cross = self._cross(x).cross_driving @ self.spectrum.vectors
        target = self.spectrum.vectors.T @ (self.y - _columns(initial_train))
        start = _columns(initial)
        found = [
            start + cross @ (self._solver(time)[:, None] * target) for time in np.atleast_1d(t)
        ]
        return found[0] if np.ndim(t) == 0 else np.stack(found)

    def covariance(self, x, x_other=None, *, t) -> Float[np.ndarray, "*times points others"]:
        """Covariance of members' outputs between points, the same for every output.

        ``S Sᵀ`` with ``S = [I, -A_t] L`` and ``L`` a factor of the joint NNGP: symmetric and
        positive semidefinite by construction, also where training inputs repeat.
        """
        x = np.asarray(x)
        both = x if x_other is None else np.concatenate([x, np.asarray(x_other)])
        rows = len(x)
        factor, cross = self._joint(both)
        found = []
        for time in np.atleast_1d(t):
            half = self._half(factor, cross, time)
            found.append(half[:rows] @ (half if x_other is None else half[rows:]).T)
        return found[0] if np.ndim(t) == 0 else np.stack(found)

    def variance(self, x, t) -> Float[np.ndarray, " points"]:
        """The diagonal of `covariance` at one time."""
        factor, cross = self._joint(np.asarray(x))
        return np.sum(np.square(self._half(factor, cross, t)), axis=1)

    def sample(
        self, key: int | Key[Array, ""], x, *, members: int, t
    ) -> Float[np.ndarray, "members points outputs"]:
        """Infinitely wide members at one time: exact draws, jointly over all points of ``x``."""
        if members < 1:
            raise InputError(f"members is {members}; draw at least 1")
        half = self._half(*self._joint(np.asarray(x)), t)
        outputs = self.y.shape[1]
        noise = numpy_generator(key).standard_normal((members, half.shape[1], outputs))
        return self.mean(x, t) + np.einsum("pr,mro->mpo", half, noise)

    def orbit_deviation(
        self,
        orbits: Float[np.ndarray, "points group ..."],
        members: tuple[int, ...] = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000),
        *,
        t,
        quantiles: tuple[float, ...] = (0.05, 0.5, 0.95),
    ) -> OrbitDeviation:
        """How far an ensemble of each size is from invariant on orbits: the exact distribution."""
        orbits = np.asarray(orbits)
        if orbits.ndim < 3 or orbits.shape[2:] != self.x.shape[1:]:
            raise InputError(
                f"orbits has shape {orbits.shape}; give [points, group, "
                f"{', '.join(map(str, self.x.shape[1:]))}], as groups.orbit(x, ...).points"
            )
        points, group = orbits.shape[:2]
        flat = orbits.reshape(points * group, *orbits.shape[2:])
        half = self._half(*self._joint(flat), t).reshape(points, group, -1)
        means = self.mean(flat, t).reshape(points, group, -1)
        return orbit_deviation(half, means, members, quantiles)

    def orbit_eigenvalues(self, x, t) -> Float[np.ndarray, "points group"]:
        """Eigenvalues of members' covariance on the whole orbit of every point, from its own row.

        For kernels with ``blocks`` (`credax.groups.GroupAveraged`). The first belongs to the
        direction in which the orbit moves as one; the others are the ``c_k`` of the orbit
        variance's distribution ``Σ_k c_k χ²_1 / (|G| M)``. Cost: ``(n d)³`` for every irreducible
        representation of size ``d``, not ``(|G| n)³``.
        """
        if not hasattr(self.kernel, "blocks"):
            raise InputError(
                "the kernel has no blocks of a group; average it with groups.GroupAveraged, or "
                "decompose the covariance of an orbit"
            )
        kernel: Any = self.kernel
        x = np.asarray(x)
        self._check_time(t)
        all_blocks = kernel.blocks(self.x), kernel.blocks(x, self.x), kernel.blocks(x)
        found = [self._orbit_block(*blocks, t) for blocks in zip(*all_blocks, strict=True)]
        return np.concatenate(found, axis=1)

    def _orbit_block(self, trained, cross, own, time: float) -> Float[np.ndarray, "points sizes"]:
        """What one representation adds to `orbit_eigenvalues`, as often as the orbits hold it."""
        size, ridge = trained.size, self.ridge * np.eye(len(trained.ntk))
        everything = self.train == "all"
        values, vectors = np.linalg.eigh((trained.ntk if everything else trained.nngp) + ridge)
        rate = self.learning_rate * self.alpha
        if self.evolution == "steps" and rate * values[-1] >= 2:
            raise InputError(
                f"learning_rate is {self.learning_rate}, and gradient descent diverges from "
                f"{2 / (self.alpha * values[-1]):.6g} on; lower it, or use evolution='flow'"
            )
        solver = Spectrum(np.maximum(values, 0.0), vectors).solver(self.evolution, rate, time)
        reach = cross.ntk if everything else cross.nngp
        learned = (reach @ vectors * solver) @ vectors.conj().T
        start = trained.nngp if everything else trained.nngp + ridge
        found = []
        for i in range(len(own.nngp) // size):
            rows = slice(i * size, (i + 1) * size)
            once = learned[rows] @ cross.nngp[rows].conj().T
            left = own.nngp[rows, rows] - once - once.conj().T
            left = left + learned[rows] @ start @ learned[rows].conj().T
            found.append(np.repeat(np.maximum(np.linalg.eigvalsh(left), 0.0), size))
        return np.stack(found)

    def _solver(self, time: float) -> np.ndarray:
        self._check_time(time)
        return self.spectrum.solver(self.evolution, self.learning_rate * self.alpha, float(time))

    def _check_time(self, time: float) -> None:
        if time < 0:
            raise InputError(f"t is {time}; time starts at 0")
        if self.evolution == "steps" and not np.isinf(time) and time != int(time):
            raise InputError(f"t is {time}; with evolution='steps' it counts steps")
        if self.evolution == "steps" and self.learning_rate >= self.largest_learning_rate:
            raise InputError(
                f"learning_rate is {self.learning_rate}, and gradient descent diverges from "
                f"{self.largest_learning_rate:.6g} on; lower it, or use evolution='flow'"
            )

    def _cross(self, x) -> _Blocks:
        nngp, ntk = self.kernel.kernels(np.asarray(x), self.x)
        return _Blocks(nngp, ntk if self.train == "all" else nngp)

    def _joint(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A factor of the NNGP of points and training points together, and the driving cross."""
        if getattr(self.kernel, "mean_only", False):
            raise InputError(
                "the kernel is averaged over a group, which gives the mean only; use "
                "orbit_eigenvalues, or train on the augmented rows with the kernel itself"
            )
        cross = self._cross(x)
        own, trained = self.kernel.kernels(x).nngp, self.nngp
        if self.train == "last_layer":  # the ridge is then the noise of a Gaussian process
            trained = trained + self.ridge * np.eye(len(trained))
        joint = np.block([[own, cross.cross_nngp], [cross.cross_nngp.T, trained]])
        return Spectrum.of(joint, "the joint NNGP").factor(), cross.cross_driving

    def _half(self, factor: np.ndarray, cross: np.ndarray, time: float) -> np.ndarray:
        rows = len(cross)
        vectors = self.spectrum.vectors
        learned = (cross @ vectors) @ (self._solver(time)[:, None] * (vectors.T @ factor[rows:]))
        return factor[:rows] - learned


def _columns(y: Any) -> Float[np.ndarray, "points outputs"]:
    y = np.asarray(y, np.float64)
    return y[:, None] if y.ndim == 1 else y


def _ridge(ridge: float | Ridge, matrix: np.ndarray) -> float:
    value = ridge.relative * np.trace(matrix) / len(matrix) if isinstance(ridge, Ridge) else ridge
    if not value >= 0:
        raise InputError(f"ridge is {ridge}; give a number of at least 0")
    return float(value)
