"""Ensembles for the price of one network on CIFAR-100."""

from credax.experiments.cost_and_quality import run
from credax.experiments.efficient_ensembles import DESCRIPTION, test_scale
from credax.experiments.efficient_ensembles_cifar10 import cpu_scale
from credax.experiments.efficient_paper import CIFAR100, paper_scale
from credax.experiments.experiment import Experiment

EXPERIMENT = Experiment(
    name="efficient-ensembles-cifar100",
    title="Ensembles for the price of one network: CIFAR-100",
    description=DESCRIPTION,
    scales={
        "test": test_scale("cifar100", 20),
        "cpu": cpu_scale("cifar100", "CIFAR-100", 100),
        "paper": paper_scale("cifar100", 100),
    },
    run=run(CIFAR100),
)
