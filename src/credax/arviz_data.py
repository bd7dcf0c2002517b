"""A sampler's chains in the form of ArviZ; the only file that knows it."""

from typing import TYPE_CHECKING, Any

import numpy as np

from credax.errors import InputError, optional
from credax.files import tree_names

if TYPE_CHECKING:
    from credax.posterior import Population

_ONE_ARGUMENT = 1
"""First major version whose ``from_dict`` takes all groups in one argument."""


def to_arviz(posterior: "Population", x: Any = None, *, weights: bool = True) -> Any:
    """Chains as ArviZ data: an ``InferenceData``, or from ArviZ 1 on an ``xarray.DataTree``.

    The group ``posterior`` has the weights ``[chain, draw, ...]`` by name, and with inputs ``x``
    the variable ``prediction`` ``[chain, draw, row, ...]``: what each draw predicts there, class
    probabilities or means. Weights are not identifiable: assess convergence by
    predictions.
    ``sample_stats`` has ``lp``, the log joint, where the sampler kept all of it. Needs the extra
    ``mcmc``.
    """
    draws = posterior.diagnostics.get("draws")
    if not isinstance(draws, int) or len(posterior.indices) % draws:
        raise InputError(
            "posterior has no whole chains; give what cx.fit returned for mile, hmc, nuts, sgld, "
            "sghmc or cyclical-sgmcmc"
        )
    if x is None and not weights:
        raise InputError("weights is False and x is missing; give inputs x, or keep the weights")
    groups: dict[str, dict[str, np.ndarray]] = {"posterior": {}}
    if weights:
        leaves = dict(zip(tree_names(posterior.variables.params), _leaves(posterior), strict=True))
        groups["posterior"] |= {name or "params": leaf for name, leaf in leaves.items()}
    if x is not None:
        groups["posterior"]["prediction"] = np.asarray(posterior.predict(x).members)
    groups["posterior"] = {
        name: value.reshape(-1, draws, *value.shape[1:])
        for name, value in groups["posterior"].items()
    }
    traces = posterior.diagnostics.get("traces")
    if traces and len(traces[0]) == draws:
        groups["sample_stats"] = {"lp": np.asarray(traces)}
    arviz = optional("arviz", "mcmc", "to_arviz")
    if int(arviz.__version__.split(".")[0]) >= _ONE_ARGUMENT:
        return arviz.from_dict(groups)
    return arviz.from_dict(**groups)


def _leaves(posterior: "Population") -> list[np.ndarray]:
    import jax

    return [np.asarray(leaf) for leaf in jax.tree.leaves(posterior.variables.params)]
