"""Trained policies on disk: one file, arrays and what is needed to use them again."""

from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax

from credax import __version__
from credax.design.model import DesignModel
from credax.design.policies import (
    AdaptivePolicy,
    DesignPolicy,
    StaticPolicy,
    adaptive_policy,
    box_of,
    static_policy,
)
from credax.errors import InputError
from credax.files import arranged, load_arrays, save_tree
from credax.reading import check_record
from credax.reading.records import ANYTHING, COUNT, OBJECT, TEXT, one_of

_FIELDS = {
    "kind": one_of("adaptive policy", "static policy"), "credax": TEXT, "model": TEXT,
    "about": OBJECT, "rounds": COUNT, "designs": ANYTHING, "sizes": OBJECT,
}  # fmt: skip
_SIZES = {"hidden": COUNT, "encoding": COUNT, "depth": COUNT}


class StoredPolicy(NamedTuple):
    """A policy, how many experiments it was trained for, and what was said of its model."""

    policy: DesignPolicy
    rounds: int
    about: dict[str, Any]


def save_policy(
    path: str | Path,
    policy: DesignPolicy,
    model: DesignModel,
    rounds: int,
    about: dict[str, Any] | None = None,
) -> None:
    """Keep a trained policy in one safetensors file, atomically (equal policies, equal bytes).

    ``about`` is plain data of your own that `load_policy` gives back, such as the model's options.
    """
    if isinstance(policy, AdaptivePolicy):
        net = policy.encoder
        sizes = {"hidden": net.width_size, "encoding": len(policy.empty), "depth": net.depth}
        kind = "adaptive policy"
    elif isinstance(policy, StaticPolicy):
        kind, sizes = "static policy", {}
    else:
        raise InputError(
            f"policy is a {type(policy).__name__}, which has nothing trained to keep; save an "
            "adaptive or a static policy"
        )
    metadata = {
        "kind": kind, "credax": __version__, "model": model.name, "about": about or {},
        "rounds": rounds, "designs": _designs(model), "sizes": sizes,
    }  # fmt: skip
    save_tree(path, eqx.filter(policy, eqx.is_array), metadata)


def load_policy(path: str | Path, model: DesignModel) -> StoredPolicy:
    """What `save_policy` wrote, for the same model."""
    if not Path(path).is_file():
        raise InputError(f"there is no policy in {path}; write one with credax design train")
    arrays, metadata = load_arrays(path)
    check_record(metadata, _FIELDS, path)
    if metadata["model"] != model.name or metadata["designs"] != _designs(model):
        raise InputError(
            f"the policy in {path} was trained for {metadata['model']} with designs "
            f"{metadata['designs']}, and the model is {model.name} with {_designs(model)}; use the "
            "model it was trained for"
        )
    key, rounds = jax.random.key(0), metadata["rounds"]
    if metadata["kind"] == "static policy":
        template: DesignPolicy = static_policy(model, rounds, key)
    else:
        template = adaptive_policy(model, key, **check_record(metadata["sizes"], _SIZES, path))
    found, rest = eqx.partition(template, eqx.is_array)
    restored = jax.tree.map(jax.numpy.asarray, arranged(path, arrays, found))
    return StoredPolicy(eqx.combine(restored, rest), rounds, metadata["about"])


def _designs(model: DesignModel) -> dict[str, Any]:
    """Bounds and shape of designs, as plain data."""
    box = box_of(model)
    plain = lambda bound: jax.tree.map(float, bound)  # noqa: E731
    listed = lambda v: [listed(one) for one in v] if isinstance(v, tuple) else v  # noqa: E731
    return {
        "low": listed(plain(box.low)),
        "high": listed(plain(box.high)),
        "shape": list(box.shape),
    }
