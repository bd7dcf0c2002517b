"""What chains do in the space of functions: outputs at a few rows, and the log joint."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from credax.data.dataset import Split
from credax.methods.sampling.log_joint import log_joint
from credax.methods.sampling.rank_statistics import Worst, worst
from credax.network import Variables
from credax.problem import Problem

LEAST_DRAWS = 4
ROWS = 50
"""Training rows at which predictions are compared."""
LONGEST_TRACE = 500


def observe(
    problem: Problem, variables: Variables, data: Split, chains: int, rows: int = ROWS
) -> tuple[np.ndarray, np.ndarray]:
    """Outputs ``[chains, draws, values]`` at a few rows, evenly spread, and log joints of all rows.

    ``variables`` are the draws, chain after chain. One pass over all rows per draw.
    """
    chosen = np.unique(np.linspace(0, len(data) - 1, rows).astype(int))
    x, y = jnp.asarray(data.x), jnp.asarray(data.y)
    found = _values(problem, variables, x[chosen], x, y)
    outputs, joint = (np.asarray(a, np.float64).reshape(chains, -1, a[0].size) for a in found)
    return outputs, joint


def chain_diagnostics(
    problem: Problem, params: Any, data: Split, modes: tuple[int, ...]
) -> dict[str, Any]:
    """Diagnostics of predictions and of the log joint of ``[chains, draws, ...]`` parameters.

    ``predictions`` and ``log_joint`` have the worst rank-normalised R-hat and the smallest
    effective sample sizes over all chains, ``by_mode`` those of the halves of each chain.
    ``traces`` are log joints of at most 500 draws of each chain; ``modes`` are their numbers.
    """
    leaves = jax.tree.leaves(params)
    chains, draws = leaves[0].shape[:2]
    if draws < LEAST_DRAWS:
        return {}
    flat = jax.tree.map(lambda a: jnp.asarray(a).reshape(-1, *a.shape[2:]), params)
    outputs, joint = observe(problem, Variables(flat, {}), data, chains)
    shown = joint[:, :: max(1, -(-draws // LONGEST_TRACE)), 0]
    return {
        **_worst(outputs, joint),
        "by_mode": {
            str(mode): _worst(outputs[i : i + 1], joint[i : i + 1]) for i, mode in enumerate(modes)
        },
        "traces": [[float(f"{value:.7g}") for value in chain] for chain in shown],
    }


def _worst(outputs: np.ndarray, joint: np.ndarray) -> dict[str, dict[str, float | None]]:
    return {"predictions": _rounded(worst(outputs)), "log_joint": _rounded(worst(joint))}


def _rounded(found: Worst) -> dict[str, float | None]:
    """As numbers of a file, which has no NaN."""
    pairs = found._asdict().items()
    return {name: round(value, 4) if np.isfinite(value) else None for name, value in pairs}


@eqx.filter_jit
def _values(problem: Problem, variables: Variables, few, x, y) -> tuple[Array, Array]:
    """Outputs at a few rows, and the log joint of all, of every member."""
    at = problem.prepare_inputs(few)

    def one(member: Variables):
        outputs, _ = problem.outputs(member, at)
        return outputs.reshape(-1), log_joint(problem, x, y, member.params)

    return jax.lax.map(one, variables)
