"""Policies side by side: the total information of each, and the usual baselines."""

from typing import Any

import jax
import numpy as np

from credax.design.baselines import greedy_policy, myopic_policy
from credax.design.deep_adaptive import PolicyTraining, policy_information, train_policy
from credax.design.histories import can_enumerate, exact_policy_information
from credax.design.information import Information
from credax.design.model import DesignModel
from credax.design.policies import DesignPolicy, random_policy, static_policy
from credax.keys import as_key

STATIC_RATE = 0.05


def evaluate_policy(
    model: DesignModel, policy: DesignPolicy, rounds: int, **options: Any
) -> Information:
    """Total information: exact where all histories can be followed, else between bounds.

    ``options`` are those of `policy_information`: ``outer``, ``inner``, ``key``, ``block``,
    ``chunk``.
    """
    if policy.draws or not can_enumerate(model, rounds):
        return policy_information(model, policy, rounds, **options)
    value = np.array([exact_policy_information(model, policy, rounds)])
    return Information(value, value, value, np.zeros(1))


def baseline_policies(
    model: DesignModel,
    rounds: int,
    *,
    training: PolicyTraining | None = None,
    key: Any = 0,
) -> dict[str, DesignPolicy]:
    """What every adaptive policy is compared with, by name.

    ``random``; ``static``, the best fixed plan by gradients; ``myopic``, one experiment ahead with
    particles; and ``greedy``, the same exactly, where outcomes are listed and the prior has nodes.
    ``training`` is that of the static plan.
    """
    first, second, third = jax.random.split(as_key(key), 3)
    training = training or PolicyTraining(
        steps=1000, learning_rate=STATIC_RATE, final_rate=STATIC_RATE / 100
    )
    static = static_policy(model, rounds, first)
    found: dict[str, DesignPolicy] = {
        "random": random_policy(model),
        "static": train_policy(model, static, rounds, training, key=second)[0],
    }
    if model.designs is not None:
        found["myopic"] = myopic_policy(model, rounds, key=third)
    if can_enumerate(model, rounds) and model.designs is not None:
        found["greedy"] = greedy_policy(model)
    return found
