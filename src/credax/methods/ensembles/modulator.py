"""What multiplies the kernels of a shared network, member by member."""

import abc
from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Key, PyTree

from credax.files import tree_names
from credax.network import Variables
from credax.problem import Problem
from credax.structure import Structure, kernels, unit_shape
from credax.structure.factored import PREFIX, Factors, factored, multiplied

Own = Literal["biases", "biases-and-norms", "none"]


class Parts(NamedTuple):
    """What a modulator has of its own, beside the shared network.

    ``common`` is trained and the same for all members; ``members`` is trained and has a leading
    members axis; ``fixed`` has that axis too and is never trained (masks).
    """

    common: PyTree = ()
    members: PyTree = ()
    fixed: PyTree = ()


class Modulator(eqx.Module):
    """Abstract: factors on the input and output units of kernels, one set per member."""

    structure: Structure = eqx.field(static=True)
    members: int = eqx.field(static=True)

    random: ClassVar[bool] = False
    """Whether a member is a distribution of networks: its factors are drawn."""

    shared_state: ClassVar[bool] = False
    """Whether members share the network's state too: it then has no members axis."""

    @abc.abstractmethod
    def init(self, key: Key[Array, ""]) -> Parts:
        """The parts before the first step."""

    @abc.abstractmethod
    def factors(self, common: PyTree, member: PyTree, fixed: PyTree, key: Any) -> Factors:
        """The factors of one member; ``key`` is for a draw, None gives its mean."""

    def drawn(self, arrays: dict[str, Array], common: PyTree, key: Any) -> dict[str, Array]:
        """The shared arrays of a draw: a hook, as they are here; None gives their mean."""
        return arrays

    def penalty(
        self, weights: dict[str, Array], parts: Parts, key: Key[Array, ""], step: Array
    ) -> Any:
        """What is added to the mean loss, such as a KL divergence over N: a hook, zero here."""
        return jnp.zeros(())

    @property
    def covered(self) -> frozenset[str]:
        """Names of shared arrays whose prior is in `penalty`: a hook, none here."""
        return frozenset()


def named(tree: PyTree) -> dict[str, Any]:
    """The leaves of a pytree by name."""
    return dict(zip(tree_names(tree), jax.tree.leaves(tree), strict=True))


def assembled(structure: Structure, arrays: dict[str, Any]) -> PyTree:
    """Parameters of the traced network from their leaves by name: the inverse of `named`."""
    template = jax.tree.unflatten(structure.tree, range(structure.tree.num_leaves)).params
    leaves = [arrays[name] for name in tree_names(template)]
    return jax.tree.unflatten(jax.tree.structure(template), leaves)


def own_leaves(structure: Structure, problem: Problem, own: Own) -> tuple[str, ...]:
    """The parameters that every member has for itself: biases, and scales and shifts of norms."""
    if own == "none":
        return ()
    biases = {structure.contractions[path].bias for path in kernels(structure)}
    found = [
        n for n in weight_names(structure, problem) if PREFIX + n not in structure.contractions
    ]
    if own == "biases":
        found = [name for name in found if PREFIX + name in biases]
    return tuple(found)


def weight_names(structure: Structure, problem: Problem) -> list[str]:
    """The names of the parameters that the prior covers: all but those of the likelihood."""
    template = jax.tree.unflatten(structure.tree, range(structure.tree.num_leaves)).params
    covered = set(jax.tree.leaves(problem.weights(template)))
    return [name for name, number in named(template).items() if number in covered]


class Member(NamedTuple):
    """One member: shared and own arrays by name, its parts without a members axis, its state."""

    arrays: dict[str, Array]
    parts: Parts
    carried: PyTree


def member_outputs(
    problem: Problem,
    modulator: Modulator,
    member: Member,
    draw: Any,
    x: Array,
    key: Any = None,
    train: bool = False,
) -> tuple[Float[Array, "rows outputs"], PyTree]:
    """Outputs of one member and its new state; kernels that members share are never copied.

    ``draw`` is the key of a random member's draw (None: its mean), ``key`` the network's own.
    """

    def run(params, carried, x, key):
        return problem.outputs(Variables(params, carried), x, key=key, train=train)

    params, factors = _draw(modulator, member, draw)
    return factored(modulator.structure, run)(params, factors, member.carried, x, key)


def member_variables(modulator: Modulator, member: Member, draw: Any) -> Variables:
    """One member's own network, written out."""
    params, factors = _draw(modulator, member, draw)
    return Variables(multiplied(modulator.structure, params, factors), member.carried)


def _draw(modulator: Modulator, member: Member, key: Any) -> tuple[PyTree, Factors]:
    arrays = modulator.drawn(member.arrays, member.parts.common, key)
    return assembled(modulator.structure, arrays), modulator.factors(*member.parts, key)


def per_member(one: Callable[[Any], Any], key: Key[Array, ""], members: int) -> Any:
    """``one(key)`` for every member, each independent of how many there are."""
    keys = jax.vmap(lambda member: jax.random.fold_in(key, member))(jnp.arange(members))
    return jax.vmap(one)(keys)


def draw_units(
    structure: Structure,
    key: Key[Array, ""],
    draw: Callable[..., Array],
    roles: tuple[str, ...] = ("input", "output"),
    rank: int = 1,
) -> Factors:
    """``draw(key, shape, dtype)`` for the units of every kernel, on the sides asked for.

    One draw for all, cut into vectors: many small draws would take long to compile.
    """
    shapes = [
        {path: (rank, *unit_shape(structure, path, role)) for path in kernels(structure)}
        if role in roles
        else {}
        for role in ("input", "output")
    ]
    empty = Factors(*({path: jnp.zeros(shape) for path, shape in s.items()} for s in shapes))
    flat, restore = ravel_pytree(empty)
    return restore(draw(key, flat.shape, flat.dtype))
