"""How outputs become a density of the target, and what a prediction is: all kinds by name.

Likelihoods: `Categorical`, `Bernoulli`, `Gaussian`, `HeteroscedasticGaussian`,
`DeviationGaussian`, `LaplaceNoise`, `StudentT`, `Poisson`, `NegativeBinomial`. Objectives without a
posterior: `LabelSmoothing`, `Focal`, `BetaNLL`, `Quantile`, `EvidentialDirichlet`,
`EvidentialNormal`. One's own derive from `Likelihood`. `PerPixel` puts any of them at every
position of a grid.
"""

from credax.likelihoods.base import Likelihood as Likelihood
from credax.likelihoods.base import require_posterior as require_posterior
from credax.likelihoods.classes import Bernoulli as Bernoulli
from credax.likelihoods.classes import Categorical as Categorical
from credax.likelihoods.counts import NegativeBinomial as NegativeBinomial
from credax.likelihoods.counts import Poisson as Poisson
from credax.likelihoods.deviation import DeviationGaussian as DeviationGaussian
from credax.likelihoods.double_exponential import LaplaceNoise as LaplaceNoise
from credax.likelihoods.evidential import EvidentialDirichlet as EvidentialDirichlet
from credax.likelihoods.evidential import EvidentialNormal as EvidentialNormal
from credax.likelihoods.gaussian import Gaussian as Gaussian
from credax.likelihoods.gaussian import HeteroscedasticGaussian as HeteroscedasticGaussian
from credax.likelihoods.grid import PerPixel as PerPixel
from credax.likelihoods.grid import pixel_weights as pixel_weights
from credax.likelihoods.grid import refuse_grid as refuse_grid
from credax.likelihoods.learned import VARIANCE_FLOOR as VARIANCE_FLOOR
from credax.likelihoods.learned import LearnedNoise as LearnedNoise
from credax.likelihoods.objectives import BetaNLL as BetaNLL
from credax.likelihoods.objectives import Focal as Focal
from credax.likelihoods.objectives import LabelSmoothing as LabelSmoothing
from credax.likelihoods.quantile import Quantile as Quantile
from credax.likelihoods.student import StudentT as StudentT

BY_NAME: dict[str, type[Likelihood]] = {
    "categorical": Categorical,
    "bernoulli": Bernoulli,
    "gaussian": Gaussian,
    "heteroscedastic": HeteroscedasticGaussian,
    "heteroscedastic-deviation": DeviationGaussian,
    "laplace-noise": LaplaceNoise,
    "student-t": StudentT,
    "poisson": Poisson,
    "negative-binomial": NegativeBinomial,
    "quantile": Quantile,
    "label-smoothing": LabelSmoothing,
    "focal": Focal,
    "beta-nll": BetaNLL,
    "evidential-dirichlet": EvidentialDirichlet,
    "evidential-normal": EvidentialNormal,
}
"""What the command line and zoos call them, with their default settings."""
