"""What the file of a Laplace posterior says of it, and how that is checked."""

from typing import Any

import jax

from credax.errors import DamagedFile
from credax.methods.laplace.plan import Plan, make_plan
from credax.posterior import Population
from credax.reading import check_record
from credax.reading.records import (
    COUNT,
    LIST,
    NUMBER,
    SHAPE,
    TEXT,
    WHOLE,
    Optional,
    kind,
    list_of,
    maybe,
    one_of,
    record,
)
from credax.reading.tensors import COPY

CLOSED_LINKS = ("probit", "bridge", "bridge_normalised")
_OPTIONS = {
    "bias": one_of("joint", "separate"),
    "leaves": list_of(TEXT),
    "link": one_of("monte_carlo", *CLOSED_LINKS),
    "memory": kind("a positive number", lambda v: NUMBER(v, "") is None and v > 0),
    "predictive": one_of("linearised", "sampled"),
    "samples": kind("a whole number to 2^20", lambda v: type(v) is int and 0 < v <= 2**20),
    "structure": one_of("kfac", "full", "diagonal", "low_rank", "functional"),
    "weights": Optional(one_of("equal", "evidence")),
    "curvature": Optional(one_of("ggn", "empirical_fisher", "hessian")),
    "subset": TEXT,
}
FIELDS = {
    "options": record(_OPTIONS),
    "blocks": list_of(LIST),
    "priors": list_of(SHAPE),
    "bits": COUNT,
    "entries": maybe(WHOLE),
}


def size_of(block: Any, path: Any) -> tuple[str, int]:
    """Kind of a stored block and the number of weights it covers, or an error."""
    fields = {"kind": TEXT, "shapes": list_of(SHAPE)}
    check_record(dict(zip(fields, block, strict=False)), fields, f"{path}, a block,", remedy=COPY)
    match block:
        case ["dense", [[size, other]]] if size == other:
            return "dense", size
        case ["diagonal", [[size]]]:
            return "diagonal", size
        case ["low-rank", [[size, rank], [other]]] if rank == other:
            return "low-rank", size
        case ["kronecker", [[a, b], [c], [d, e], [f]]] if a == b == c and d == e == f:
            return "kronecker", a * d
    raise DamagedFile(f"{path} holds a block whose arrays do not fit each other; {COPY}")


def plan_of(networks: Population, options: dict[str, Any], entries: Any = None) -> Plan:
    """The plan for trained networks, by the options of the record."""
    first = jax.tree.map(lambda leaf: leaf[0], networks.variables)
    x = jax.ShapeDtypeStruct((1, *networks.input_shape), networks.input_dtype)
    return make_plan(
        networks.problem,
        first,
        x,
        structure=options["structure"],
        subset=options["subset"],
        leaves=tuple(options["leaves"]),
        joint=options["bias"] == "joint",
        entries=entries,
    )
