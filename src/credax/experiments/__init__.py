"""Experiments: published results run again, one file each; one line each in the registry."""

from importlib import import_module
from typing import TYPE_CHECKING

from credax.errors import unknown

if TYPE_CHECKING:
    from credax.experiments.experiment import Experiment

REGISTRY = {
    "forde-toy-1d": ("forde_toy_1d", "predictions of members between clusters of points on a line"),
    "forde-toy-2d": ("forde_toy_2d", "entropy around five clouds of points in the plane"),
    "forde-digits": ("forde_digits", "8 by 8 digits, clean and corrupted, all ensembles"),
    "forde-fashion": ("forde_fashion", "Fashion-MNIST, clean and corrupted, rows fitted"),
    "forde-cifar10": ("forde_cifar10", "CIFAR-10, clean and corrupted (table 2)"),
    "forde-cifar100": ("forde_cifar100", "CIFAR-100, clean and corrupted (table 1)"),
    "forde-tinyimagenet": ("forde_tinyimagenet", "TinyImageNet, clean and corrupted (table 4)"),
    "forde-ablation": ("forde_ablation", "strength of the repulsion: from 0 to 10, and a decay"),
    "forde-lengthscale": ("forde_lengthscale", "from the identity to PCA, both mixes (figure 11)"),
    "forde-ensemble-size": ("forde_ensemble_size", "how many members (figures 5 and 6)"),
    "forde-gradient-penalty": (
        "forde_gradient_penalty",
        "a penalty on gradient cosines in the same metric against the repulsion",
    ),
    "forde-covariance-prior": (
        "forde_covariance_prior",
        "the first layer's prior from the inputs' covariance (table 3, figure 10)",
    ),
    "forde-transfer": ("forde_transfer", "heads on features learned elsewhere (figure 4)"),
    "forde-diversity": ("forde_diversity", "diversity against severity of corruption (figure 7)"),
    "toy-posterior": ("toy_posterior", "output weights of 10 000 networks without symmetries"),
    "mass-profiles": ("mass_profiles", "trained networks against their least mass"),
    "functional-collapse": ("functional_collapse", "mutual information of every pair of networks"),
    "permutation-frequency": ("permutation_frequency", "order of units: ensembles and HMC"),
    "marginals": ("marginals", "single weights before and after symmetries are removed"),
    "posterior-table": ("posterior_table", "one mode against many, and a deep ensemble (table 1)"),
    "efficient-ensembles": (
        "efficient_ensembles",
        "eight ensembles for the price of one network, against what they cost (Fashion-MNIST)",
    ),
    "efficient-ensembles-cifar10": (
        "efficient_ensembles_cifar10",
        "the same on CIFAR-10: ResNet-20, and Wide ResNet 28-10 as published",
    ),
    "efficient-ensembles-cifar100": (
        "efficient_ensembles_cifar100",
        "the same on CIFAR-100: Wide ResNet 28-10 as published",
    ),
    "active-mnist": (
        "active_mnist",
        "MNIST from 20 labels on, five acquisitions (Gal et al. 2017)",
    ),
    "active-repeated-mnist": (
        "active_repeated_mnist",
        "a pool with copies: BatchBALD against BALD (Kirsch et al. 2019)",
    ),
    "active-snapshots": (
        "active_snapshots",
        "labels chosen by snapshots, a deep ensemble and MC dropout (Jung et al. 2023)",
    ),
    "working-memory": (
        "working_memory",
        "how many digits can a person remember: estimates, posteriors, plans (Pyro's example)",
    ),
    "design-estimators": (
        "design_estimators",
        "estimators of expected information at equal budget: bias, error, time",
    ),
    "dad-location-finding": (
        "dad_location_finding",
        "where to listen for two hidden sources (Foster et al. 2021)",
    ),
    "dad-hyperbolic": (
        "dad_hyperbolic",
        "which question about money now or later (Foster et al. 2021)",
    ),
    "dad-death-process": (
        "dad_death_process",
        "when to count a population that dies (Foster et al. 2021)",
    ),
    "hmc-exchangeability": ("hmc_exchangeability", "do chains of HMC visit every order of units"),
    "uci": ("uci", "regression on the UCI sets with their standard splits"),
    "mile-tabular": (
        "mile_tabular",
        "microcanonical ensembles on the tables of their paper (Sommer et al. 2025)",
    ),
    "mile-images": (
        "mile_images",
        "microcanonical ensembles of convolutional networks beside SGHMC and Laplace",
    ),
    "uci-function-space": (
        "uci_function_space",
        "Gaussian processes, VIP and functional VI on the UCI sets (Ma et al., Sun et al. 2019)",
    ),
    "neural-process-regression": (
        "neural_process_regression",
        "the gap of neural processes to the best predictor, by context and step",
    ),
    "neural-process-images": (
        "neural_process_images",
        "pictures completed from some of their pixels (Garnelo et al. 2018)",
    ),
    "function-space-toys": (
        "function_space_toys",
        "bands of priors on functions and on weights, points on a line (Sun et al. 2019)",
    ),
    "pixels": (
        "pixel_tasks",
        "classes and depths at every pixel, with noise that is known: seven methods",
    ),
    "equivariance-toy": ("equivariance_toy", "asymmetric members, a symmetric mean, at every step"),
    "equivariance-ising": (
        "equivariance_ising",
        "energies of spins: orbit standard deviation against ensemble size, beside theory",
    ),
    "equivariance-cross-product": (
        "equivariance_cross_product",
        "rotated vectors: octahedral orbits, and all of SO(3)",
    ),
    "equivariance-rotated-fashion": (
        "equivariance_rotated_fashion",
        "rotated Fashion-MNIST: ensembles with augmentation against built-in symmetry",
    ),
    "equivariance-histology": (
        "equivariance_histology",
        "quarter turns of tissue, in and out of distribution",
    ),
    "equivariance-continuous": (
        "equivariance_continuous",
        "orbits of C_n, evaluated at 720 angles: what is left and how fast it falls",
    ),
}


def names() -> list[str]:
    """The experiments, as on the command line."""
    return list(REGISTRY)


def get(name: str) -> "Experiment":
    """An experiment by its name on the command line."""
    if name not in REGISTRY:
        raise unknown("experiment", name, REGISTRY)
    return import_module(f"credax.experiments.{REGISTRY[name][0]}").EXPERIMENT


def describe(name: str) -> str:
    """One line about an experiment."""
    return REGISTRY[name][1]
