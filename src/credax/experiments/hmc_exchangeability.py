"""Do chains of HMC visit every order of the units? The chains of `permutation_frequency` alone."""

from dataclasses import replace

from credax.experiments.bench import chosen
from credax.experiments.permutation_frequency import EXPERIMENT as BOTH

EXPERIMENT = replace(
    BOTH,
    name="hmc-exchangeability",
    title="Exchangeability of HMC",
    description=(
        "The posterior does not know one unit of a layer from another, so a chain that has mixed "
        "holds the largest weight in each with the same chance. The claim: the published samples "
        "of HMC do not. A failed test of one chain means that it has not mixed over orders."
    ),
    scales={name: chosen(scale, ("hmc",)) for name, scale in BOTH.scales.items()},
)
