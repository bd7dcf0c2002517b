"""Bayesian experimental design: which experiment says most about the parameters.

Names are loaded when first used.
"""

from typing import TYPE_CHECKING

from credax.lazy import lazy_package

if TYPE_CHECKING:
    from credax.design import models as models
    from credax.design.adaptive import adapt as adapt
    from credax.design.adaptive import believe as believe
    from credax.design.baselines import greedy_policy as greedy_policy
    from credax.design.baselines import listed_policy as listed_policy
    from credax.design.baselines import myopic_policy as myopic_policy
    from credax.design.batches import several as several
    from credax.design.beliefs.belief import Belief as Belief
    from credax.design.beliefs.belief import Experiments as Experiments
    from credax.design.choosing import Recommendation as Recommendation
    from credax.design.choosing import expected_information as expected_information
    from credax.design.choosing import optimise as optimise
    from credax.design.choosing import recommend as recommend
    from credax.design.comparison import baseline_policies as baseline_policies
    from credax.design.comparison import evaluate_policy as evaluate_policy
    from credax.design.contrastive import nested as nested
    from credax.design.contrastive import sampled_outcomes as sampled_outcomes
    from credax.design.critics import donsker_varadhan as donsker_varadhan
    from credax.design.critics import info_nce as info_nce
    from credax.design.deep_adaptive import PolicyTraining as PolicyTraining
    from credax.design.deep_adaptive import policy_information as policy_information
    from credax.design.deep_adaptive import train_policy as train_policy
    from credax.design.guides import GuideTraining as GuideTraining
    from credax.design.histories import exact_policy_information as exact_policy_information
    from credax.design.information import GridPosterior as GridPosterior
    from credax.design.information import Information as Information
    from credax.design.information import entropy_reduction as entropy_reduction
    from credax.design.information import exact as exact
    from credax.design.information import kl_gain as kl_gain
    from credax.design.information import linear_gaussian as linear_gaussian
    from credax.design.information import prior_on_nodes as prior_on_nodes
    from credax.design.information import update_nodes as update_nodes
    from credax.design.laplace_estimate import laplace as laplace
    from credax.design.model import DesignModel as DesignModel
    from credax.design.models.memory import working_memory as working_memory
    from credax.design.plans import best_static_plan as best_static_plan
    from credax.design.plans import greedy_plan as greedy_plan
    from credax.design.plans import optimal_plan as optimal_plan
    from credax.design.plans import static_plan as static_plan
    from credax.design.policies import DesignPolicy as DesignPolicy
    from credax.design.policies import adaptive_policy as adaptive_policy
    from credax.design.policies import random_policy as random_policy
    from credax.design.policies import static_policy as static_policy
    from credax.design.policy_files import load_policy as load_policy
    from credax.design.policy_files import save_policy as save_policy
    from credax.design.posteriors import posterior_model as posterior_model
    from credax.design.ratio_estimation import lfire as lfire
    from credax.design.reparametrisation import change_of_variables as change_of_variables
    from credax.design.utilities import Utility as Utility
    from credax.design.utilities import expected_utility as expected_utility
    from credax.design.variational import ace as ace
    from credax.design.variational import marginal as marginal
    from credax.design.variational import marginal_likelihood_free as marginal_likelihood_free
    from credax.design.variational import posterior_bound as posterior_bound
    from credax.design.variational import vnmc as vnmc

__getattr__, __dir__, __all__ = lazy_package(__name__, __file__)  # pyright: ignore[reportUnsupportedDunderAll]
