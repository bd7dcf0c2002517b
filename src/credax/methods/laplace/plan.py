"""Which block of the curvature covers which weights, and what it costs, known before training."""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from credax.errors import InputError
from credax.methods.laplace.layers import find_layers
from credax.methods.laplace.subset import Subset, matching, named
from credax.network import Variables
from credax.problem import Problem
from credax.structure.linear_layers import LinearLayer

# Of arrays that no product reads (scales of norms, separate biases): a dense block up to this size.
LARGEST_REST = 512
# The eigenpairs of a kernel matrix are kept as those of Lanczos are.
_KINDS = {
    "full": "dense",
    "diagonal": "diagonal",
    "low_rank": "low-rank",
    "functional": "low-rank",
}


class Piece(NamedTuple):
    """A block's kind and the arrays it covers: of a Kronecker block the kernel, then its bias."""

    kind: str
    names: tuple[str, ...]
    size: int


class Plan(eqx.Module):
    """The pieces of the curvature; ``entries`` picks single numbers of the first one's vector."""

    pieces: tuple[Piece, ...]
    layers: dict[str, LinearLayer]
    outputs: int
    joint: bool = True
    entries: Array | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """All arrays that are covered."""
        return tuple(name for piece in self.pieces for name in piece.names)

    @property
    def rest(self) -> Subset:
        """What is covered through Jacobians, in the order of its pieces."""
        pieces = [piece for piece in self.pieces if piece.kind != "kronecker"]
        return Subset(tuple(name for piece in pieces for name in piece.names), self.entries)

    def vectors(self, weights: PyTree) -> list[Array]:
        """Each piece's weights as a vector; a kernel as the matrix it is multiplied as."""
        arrays, found = named(weights), []
        for piece in self.pieces:
            if piece.kind == "kronecker":
                rows = [self.layers[piece.names[0]].matrix(arrays[piece.names[0]])]
                rows += [jnp.ravel(arrays[name])[None] for name in piece.names[1:]]
                found.append(jnp.concatenate(rows).ravel())
            else:
                found.append(Subset(piece.names, self.entries).take(weights))
        return found

    def moved(self, weights: PyTree, deltas: list[Array]) -> PyTree:
        """The weights plus one vector per piece."""
        for piece, delta in zip(self.pieces, deltas, strict=True):
            if piece.kind == "kronecker":
                layer, arrays = self.layers[piece.names[0]], named(weights)
                matrix = delta.reshape(-1, layer.outputs)
                arrays[piece.names[0]] += layer.restore(matrix[: layer.inputs])
                for name in piece.names[1:]:
                    arrays[name] += matrix[-1].reshape(arrays[name].shape)
                weights = jax.tree.unflatten(jax.tree.structure(weights), list(arrays.values()))
            else:
                subset = Subset(piece.names, self.entries)
                weights = subset.put(weights, subset.take(weights) + delta)
        return weights

    def bytes_per_row(self, itemsize: int) -> int:
        """Bytes of one row's Jacobian, or of its layer inputs and output gradients."""
        jacobian = 3 * self.outputs * sum(p.size for p in self.pieces if p.kind != "kronecker")
        kernels = 0
        for piece in self.pieces:
            if piece.kind == "kronecker":
                r = self.layers[piece.names[0]]
                kernels += 2 * r.positions * (r.inputs + self.outputs * r.outputs)
                kernels += self.outputs * r.inputs * r.outputs if r.positions > 1 else 0
        return itemsize * (jacobian + kernels)

    def bytes_of_blocks(self, rank: int) -> int:
        """What the curvature takes, in double precision, with the memory to factorise it."""
        return sum(8 * _numbers(piece, self.layers, rank) for piece in self.pieces)


def _numbers(piece: Piece, layers: dict[str, LinearLayer], rank: int) -> int:
    size = piece.size
    if piece.kind == "kronecker":
        layer = layers[piece.names[0]]
        return 3 * ((layer.inputs + 1) ** 2 + layer.outputs**2) + size
    return {"dense": 3 * size**2, "diagonal": 3 * size, "low-rank": (5 * rank + 20) * size}[
        piece.kind
    ]


def make_plan(
    problem: Problem,
    variables: Variables,
    x: Any,
    *,
    structure: str,
    subset: str,
    leaves: tuple[str, ...] = (),
    joint: bool = True,
    entries: Array | None = None,
) -> Plan:
    """The pieces for a structure and a subset; ``x`` is shaped like a batch of raw inputs."""
    weights = problem.weights(variables.params)
    sizes = {name: math.prod(array.shape) for name, array in named(weights).items()}
    needs = structure == "kfac" or (subset == "last_layer" and not leaves)
    layers = find_layers(problem, variables, x) if needs else {}
    names = _chosen(weights, sizes, layers, subset, leaves)
    pieces: list[Piece] = []
    if structure == "kfac":
        layers = {path: layer for path, layer in layers.items() if path in names}
        joined = {}
        for path, layer in list(layers.items()):
            bias = (layer.bias,) if joint and layer.bias in names else ()
            # The layer inputs end with the bias's one only where the bias is chosen too.
            layers[path] = layer if bias else layer._replace(bias=None)
            joined |= dict.fromkeys((path, *bias))
            size = sum(sizes[name] for name in (path, *bias))
            pieces.append(Piece("kronecker", (path, *bias), size))
        for name in names:
            if name not in joined:
                kind = "dense" if sizes[name] <= LARGEST_REST else "diagonal"
                pieces.append(Piece(kind, (name,), sizes[name]))
    elif structure == "diagonal" and entries is None:
        pieces = [Piece("diagonal", (name,), sizes[name]) for name in names]
    else:
        count = sum(sizes[name] for name in names) if entries is None else len(entries)
        kind = _KINDS[structure]
        pieces = [Piece(kind, names, count)]
    layers = {p.names[0]: layers[p.names[0]] for p in pieces if p.kind == "kronecker"}
    row = jax.eval_shape(
        lambda v, a: problem.outputs(v, problem.prepare_inputs(a))[0], variables, x
    )
    outputs = row.shape[-1] // (1 if weights is variables.params else 2)
    return Plan(tuple(pieces), layers, outputs, joint, entries)


def _chosen(weights, sizes, layers, subset: str, leaves: tuple[str, ...]) -> tuple[str, ...]:
    if leaves:
        return matching(weights, leaves)
    if subset != "last_layer":
        return tuple(sizes)
    if not layers:
        raise InputError(
            "subset is 'last_layer' and no parameter of the network is multiplied with activations "
            "exactly once, so that it has no last layer; name its arrays with leaves, or use "
            "subset='all'"
        )
    last = list(layers.values())[-1]
    wanted = {last.path, last.bias}
    return tuple(name for name in sizes if name in wanted)


def check_memory(
    plan: Plan, structure: str, rank: int, itemsize: int, memory: float, *, kernel: int = 0
) -> None:
    """Raise an error with the bytes needed and the cheaper choice if they are too many.

    ``kernel`` is the number of rows of the kernel matrix of structure=functional.
    """
    count = sum(piece.size for piece in plan.pieces)
    blocks = plan.bytes_of_blocks(rank)
    if structure == "functional":
        blocks = 8 * kernel * (3 * kernel + 2 * count)
    needed = max(blocks, 4 * plan.bytes_per_row(itemsize))
    if needed <= 1e9 * memory:
        return
    cheaper = {
        "functional": f"structure='kfac' (the kernel matrix has {kernel} rows), fewer training "
        "rows, or curvature='empirical_fisher', which has one kernel row per training row",
        "full": f"structure='kfac' or 'diagonal' ({_gigabytes(24 * count)}), or fewer weights with "
        "subset='last_layer'",
        "low_rank": "a lower rank, structure='diagonal', or subset='last_layer'",
    }.get(structure, "subset='last_layer', or a few arrays with leaves")
    raise InputError(
        f"structure is {structure!r} and {count} parameters with {plan.outputs} outputs need "
        f"{_gigabytes(needed)} ({needed} bytes) where memory allows {memory:g} GB; use {cheaper}, "
        "or allow more with memory"
    )


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:.3g} GB"
