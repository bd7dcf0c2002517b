"""Every acquisition by its name on the command line; nothing is imported until it is asked for."""

from importlib import import_module
from typing import Any

from credax.errors import unknown

REGISTRY = {
    "random": ("Random", "rows at random: the baseline"),
    "entropy": ("Entropy", "entropy of the mixture (Shannon 1948)"),
    "bald": ("BALD", "mutual information of label and member (Houlsby et al. 2011)"),
    "variation-ratio": ("VariationRatio", "share of votes against the modal class (Freeman 1965)"),
    "variation-ratio-soft": ("VariationRatioSoft", "one minus the largest mean probability"),
    "variance": ("PredictiveVariance", "variance of the label, total or epistemic"),
    "mean-std": ("MeanStd", "standard deviation over members, mean over classes"),
    "margin": ("Margin", "small gap between the two most probable classes"),
    "vote-entropy": ("VoteEntropy", "entropy of the members' votes (Dagan and Engelson 1995)"),
    "epig": ("EPIG", "information about the labels of target rows (Bickford Smith et al. 2023)"),
    "batchbald": ("BatchBALD", "joint mutual information of a batch (Kirsch et al. 2019)"),
    "power-bald": ("PowerBALD", "a batch drawn by perturbed scores (Kirsch et al. 2023)"),
    "core-set": ("CoreSet", "k-centre greedy on features (Sener and Savarese 2018)"),
    "badge": ("BADGE", "k-means++ on gradient embeddings (Ash et al. 2020)"),
    "variation-ratio-greedy": (
        "VariationRatioGreedy",
        "variation ratio and distance to the batch (Jung et al. 2023)",
    ),
}


def names() -> list[str]:
    """The acquisitions, as on the command line.

    >>> names()[:3]
    ['random', 'entropy', 'bald']
    """
    return list(REGISTRY)


def get(name: str) -> Any:
    """The record class of an acquisition, by its name on the command line.

    >>> get("bald").title
    'BALD'
    """
    if name not in REGISTRY:
        raise unknown("acquisition", name, REGISTRY)
    return getattr(import_module("credax.active"), REGISTRY[name][0])


def describe(name: str) -> str:
    """One line about an acquisition."""
    if name not in REGISTRY:
        raise unknown("acquisition", name, REGISTRY)
    return REGISTRY[name][1]
