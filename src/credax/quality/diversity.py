"""How different the networks of a population are, pair by pair, streamed over inputs.

A chunk of inputs for all members is in memory at a time; the sums of all pairs are float64.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from credax.errors import DamagedFile, InputError
from credax.files import load_arrays, save_tree
from credax.prediction import ClassPrediction
from credax.quality.pairs import PairMatrix, pair_indices
from credax.reading import check_record
from credax.reading.records import TEXT, WHOLE

CHUNK_ENTRIES = 2**24
PAIR_ENTRIES = 2**18
LEAST = float(np.log(1e-37))

Chunk = Float[Array, "members inputs classes"]


def pairwise_mutual_information(
    predictions: Any, *, chunk: int | None = None, checkpoint: str | Path | None = None
) -> PairMatrix:
    """Mutual information of every pair of networks, mean over inputs, in nats.

    ``H[(p_i + p_j)/2] - (H[p_i] + H[p_j])/2``: what the label says about which of the two spoke,
    the Jensen-Shannon divergence, from 0 (equal) to log 2 (never overlap).

    Args:
        predictions: a `ClassPrediction`, probabilities ``[members, inputs, classes]``, or an
            iterable of such chunks (`prediction_chunks`), for inputs that do not fit.
        chunk: inputs at a time when all are given at once; by default 2²⁴ numbers' worth.
        checkpoint: a file that keeps the sums after every chunk; the same call goes on from there.

    Memory: two chunks and 20 bytes per pair (10 MB for 1000 networks). Cost: one logarithm for each
    pair, input and class.

    >>> pairs = pairwise_mutual_information(np.array([[[0.9, 0.1]], [[0.1, 0.9]]]))
    >>> round(float(pairs.values[0]), 6)
    0.368064
    """
    return _stream(_information, predictions, chunk, checkpoint)


def pairwise_disagreement(
    predictions: Any, *, chunk: int | None = None, checkpoint: str | Path | None = None
) -> PairMatrix:
    """Share of inputs on which two networks name different classes; arguments as above."""
    return _stream(_disagreement, predictions, chunk, checkpoint)


def pairwise_divergence(
    predictions: Any, *, chunk: int | None = None, checkpoint: str | Path | None = None
) -> PairMatrix:
    """Symmetric Kullback-Leibler divergence ``KL(p_i|p_j) + KL(p_j|p_i)``, mean over inputs.

    ``Σ_c (p_i - p_j)(log p_i - log p_j)``; probabilities are cut at 1e-37.
    """
    return _stream(_divergence, predictions, chunk, checkpoint)


def prediction_chunks(population: Any, x: np.ndarray, chunk: int) -> Iterator[np.ndarray]:
    """Log-probabilities of all members for ``chunk`` inputs at a time."""
    for start in range(0, len(x), chunk):
        yield np.asarray(population.predict(x[start : start + chunk]).log_probs)


PairFunction = Callable[[Any, Any], Float[Array, " inputs"]]


def _information(first, second):
    mean = 0.5 * (first["probs"] + second["probs"])
    total = _entropy(mean)
    return jnp.maximum(total - 0.5 * (first["entropy"] + second["entropy"]), 0)


def _disagreement(first, second):
    return (first["vote"] != second["vote"]).astype(first["probs"].dtype)


def _divergence(first, second):
    gap = first["log_probs"] - second["log_probs"]
    return jnp.sum((first["probs"] - second["probs"]) * gap, axis=-1)


def _entropy(probs):
    return -jnp.sum(probs * jnp.log(jnp.maximum(probs, jnp.finfo(probs.dtype).tiny)), axis=-1)


# Each pair function sees one member's features; what it does not use is never computed.
def _features(log_probs):
    log_probs = jnp.maximum(log_probs, LEAST)
    probs = jnp.exp(log_probs)
    return {
        "log_probs": log_probs,
        "probs": probs,
        "entropy": _entropy(probs),
        "vote": jnp.argmax(log_probs, axis=-1),
    }


@partial(jax.jit, static_argnums=(0, 4))
def _pair_sums(function: PairFunction, log_probs: Chunk, rows, columns, at_once: int):
    features = _features(log_probs)

    def one(pair):
        first, second = (jax.tree.map(lambda leaf, at=at: leaf[at], features) for at in pair)
        value = function(first, second)
        return jnp.sum(value), jnp.sum(jnp.square(value))

    return jax.lax.map(one, (rows, columns), batch_size=at_once)


def _stream(function: PairFunction, predictions, chunk, checkpoint) -> PairMatrix:
    totals: dict[str, Any] | None = None
    done = 0
    if checkpoint is not None and Path(checkpoint).exists():
        totals, metadata = load_arrays(checkpoint)
        check_record(metadata, {"chunks": WHOLE, "kind": TEXT}, checkpoint)
        if {n: a.ndim for n, a in totals.items()} != {"sum": 1, "squares": 1, "inputs": 0}:
            raise DamagedFile(f"{checkpoint} does not hold sums of pairs; remove it")
        done = metadata["chunks"]
        if metadata["kind"] != function.__name__:
            raise InputError(f"{checkpoint} holds sums of another quantity; choose another file")
    count = 0
    for count, log_probs in enumerate(_chunks(predictions, chunk), start=1):
        if count <= done:
            continue
        rows, columns = pair_indices(len(log_probs))
        if not len(rows):
            raise InputError("predictions has one member; pairs need at least two")
        if totals is None:
            totals = {name: np.zeros(len(rows)) for name in ("sum", "squares")}
            totals["inputs"] = np.zeros((), np.int64)
        if len(totals["sum"]) != len(rows):
            raise InputError("predictions has chunks of different numbers of members")
        at_once = max(1, PAIR_ENTRIES // log_probs[0].size)
        sums, squares = _pair_sums(function, jnp.asarray(log_probs), rows, columns, at_once)
        totals["sum"] += np.asarray(sums, np.float64)
        totals["squares"] += np.asarray(squares, np.float64)
        totals["inputs"] += log_probs.shape[1]
        if checkpoint is not None:
            save_tree(checkpoint, totals, {"chunks": count, "kind": function.__name__})
    if totals is None:
        raise InputError("predictions has no inputs; give at least one")
    return _result(totals)


def _result(totals: dict[str, np.ndarray]) -> PairMatrix:
    inputs, pairs = int(totals["inputs"]), len(totals["sum"])
    members = round((1 + np.sqrt(1 + 8 * pairs)) / 2)
    mean = totals["sum"] / inputs
    variance = np.maximum(totals["squares"] / inputs - mean**2, 0) / max(inputs - 1, 1)
    return PairMatrix(
        members, mean.astype(np.float32), inputs, np.sqrt(variance).astype(np.float32)
    )


def _chunks(predictions: Any, chunk: int | None) -> Iterator[np.ndarray]:
    whole = hasattr(predictions, "log_probs") or hasattr(predictions, "shape")
    parts = [predictions] if whole else predictions
    for part in parts:
        log_probs = _log_probs(part)
        step = chunk or max(1, CHUNK_ENTRIES // (log_probs.shape[0] * log_probs.shape[2]))
        for start in range(0, log_probs.shape[1], step):
            yield log_probs[:, start : start + step]


def _log_probs(part: Any) -> np.ndarray:
    if isinstance(part, ClassPrediction):
        return np.asarray(part.log_probs)
    array = np.asarray(part)
    if array.ndim != 3:
        raise InputError(
            f"predictions has shape {array.shape}; give [members, inputs, classes] probabilities"
        )
    if (array <= 0).all():
        return array
    if array.min() < 0 or abs(array[:, :1].sum(-1) - 1).max() > 1e-3:
        raise InputError(
            "predictions holds numbers that are neither probabilities nor log-probabilities; "
            "rows must sum to one"
        )
    return np.log(np.maximum(array, 1e-37))
