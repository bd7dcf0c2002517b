"""Defects of public code put into a copy of ours: each one's test must fail there.

    python tests/methods/defects.py [names ...]

The page `docs/methods/defects.md` says where each was seen and what the defective version gave.
This is a tool and not a test: it edits the source as text, and says which edits no longer fit it.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "credax"


class Edit(NamedTuple):
    """One place of the source, and what a defective version has there."""

    file: str
    ours: str
    theirs: str


class Defect(NamedTuple):
    """A defective version, and the test that must fail for it."""

    edits: tuple[Edit, ...]
    test: str


SWAG, GAUSSIANS, COLLECTING = "methods/trajectory/swag.py", "gaussians.py", "training/collecting.py"
SAMPLING, STATISTICS = "methods/sampling/stochastic.py", "batch_statistics.py"
AVERAGES = "methods/test_weight_averages.py::test_"
SAMPLERS = "methods/test_stochastic_samplers.py::test_"
CYCLES = "methods/test_cyclical_sampler.py::test_"
LAPLACE = "methods/test_laplace_exact.py::test_"
BATCHES = "core/test_batch_statistics.py::test_"
ENSEMBLES = "methods/ensembles"
SHARED = f"{ENSEMBLES}/modulated_descent.py"
MODULATED = "methods/test_modulated.py::test_"
NODES = "methods/test_node_and_lp.py::test_"
MASKS = "methods/test_masks_and_packed.py::test_"
FLOWS = "methods/test_mnf.py::test_"
SCORES, JOINT, BATCHBALD = "active/acquisition.py", "active/joint.py", "active/batch_bald.py"
ACQUISITIONS = "active/test_acquisition.py::test_"
BATCHBALDS = "active/test_batch_bald.py::test_"

WELFORD = "lambda s, d, p, m: s + jnp.where(due, d * (p - m), 0), m2, gap,"
SQUARES = "lambda s, o, p, m: jnp.where(due, s + (n - 1) * o**2 + p**2 - n * m**2, s), m2, mean,"

DEFECTS = {
    "swag-scale-is-a-deviation": Defect(
        (
            Edit(SWAG, "return jnp.sqrt(scale) * jnp.sqrt(", "return scale * jnp.sqrt("),
            Edit(SWAG, "jnp.sqrt(scale / jnp.maximum", "scale * jnp.sqrt(1 / jnp.maximum"),
        ),
        AVERAGES + "swag_by_hand",
    ),
    "swag-divides-by-the-rank": Defect(
        (Edit(SWAG, "jnp.maximum(stored - 1, 1)", "(len(ring) - 1)"),),
        AVERAGES + "fewer_columns_than_rank_use_their_own_number",
    ),
    "density-takes-a-variance-as-deviation": Defect(
        (Edit(GAUSSIANS, "_flat()\n        gap", "_flat()\n        std = std**2\n        gap"),),
        AVERAGES + "a_gaussian_without_columns_is_diagonal",
    ),
    "density-without-its-half": Defect(
        (Edit(GAUSSIANS, "return -0.5 * (squared", "return -1.0 * (squared"),),
        AVERAGES + "the_density_integrates_to_one_and_is_scipys",
    ),
    "swag-draws-columns-array-by-array": Defect(
        (
            Edit(
                GAUSSIANS,
                "jnp.tensordot(z, c, 1)",
                "jnp.tensordot(jax.random.normal(jax.random.fold_in(k, 1), z.shape), c, 1)",
            ),
        ),
        AVERAGES + "draws_have_the_analytic_covariance",
    ),
    "swag-doubles-the-variance": Defect(
        (Edit(SWAG, "scale: float = 0.5", "scale: float = 1.0"),),
        AVERAGES + "the_defaults_are_the_papers_equation",
    ),
    "swag-subtracts-squares": Defect(
        (Edit(COLLECTING, WELFORD, SQUARES),),
        AVERAGES + "a_small_variance_far_from_zero_survives_single_precision",
    ),
    "swag-takes-running-deviations": Defect(
        (Edit(SWAG, '"running"] = "final"', '"running"] = "running"'),),
        AVERAGES + "the_defaults_are_the_papers_equation",
    ),
    "swa-replaces-its-start": Defect(
        (
            Edit(
                "methods/trajectory/swa.py",
                "[first, *captures] if self.include_initial",
                "captures if True",
            ),
        ),
        AVERAGES + "swa_by_hand",
    ),
    "sampler-forgets-the-rows": Defect(
        (Edit("training/langevin.py", "/ (self.descent.num_data * rate))", "/ rate) * 0.01"),),
        SAMPLERS + "variance_on_a_gaussian",
    ),
    "burn-in-counts-arrays": Defect(
        (
            Edit(
                COLLECTING,
                "return CollectingState(inner, collected, state.steps + 1, state.seed)",
                "many = len(jax.tree.leaves(self.inner.members(inner).params))\n"
                "        return CollectingState(inner, collected, state.steps + many, state.seed)",
            ),
        ),
        SAMPLERS + "samples_are_taken_after_their_steps",
    ),
    "sampler-divides-by-the-rows-twice": Defect(
        (Edit(SAMPLING, "(descent, self.temperature,", "(descent, self.temperature / len(data),"),),
        CYCLES + "cycles_sample_the_posterior",
    ),
    "cycles-by-whole-division": Defect(
        (
            Edit(
                "methods/sampling/cyclical_sgmcmc.py",
                "ceil(steps / self.cycles)",
                "floor(steps / self.cycles)",
            ),
        ),
        CYCLES + "cycles_of_uneven_length",
    ),
    "batch-statistics-unsaid": Defect(
        (Edit(SAMPLING, 'changed.append("batch', 'str("batch'),),
        SAMPLERS + "batch_statistics_and_augmentation_are_said",
    ),
    "kl-averaged-over-arrays": Defect(
        (
            Edit(
                "methods/variational/variational.py",
                "return 0.5 * precision * gaussian.second_moment() - constant - gaussian.entropy()",
                "total = 0.5 * precision * gaussian.second_moment() - constant\n"
                "    total = total - gaussian.entropy()\n"
                "    return total / len(jax.tree.leaves(gaussian.mean))",
            ),
        ),
        "methods/test_variational.py::test_the_bound_does_not_depend_on_the_leaves",
    ),
    "log-q-with-a-spurious-half": Defect(
        (Edit(GAUSSIANS, "+ std.size * _LOG_2PI)", "+ std.size * (1 + _LOG_2PI))"),),
        "methods/test_variational.py::test_the_kl_is_its_monte_carlo_value",
    ),
    "flipout-with-real-signs": Defect(
        (
            Edit(
                "methods/variational/local_noise.py",
                "return jnp.where(jax.random.bernoulli(key, 0.5, (size,)), 1, -1).astype(dtype)",
                "return 2 * jax.random.uniform(key, (size,), dtype, 0, 2) - 1",
            ),
        ),
        "methods/test_local_noise.py::test_the_distribution_of_one_row",
    ),
    "batch-variances-averaged": Defect(
        (Edit(STATISTICS, " + shift**2 * (first.rows * second.rows / count)", ""),),
        BATCHES + "one_layer_is_exact_for_any_batching",
    ),
    "batches-weighed-alike": Defect(
        (
            Edit(STATISTICS, "+ shift * (second.rows / count)", "+ shift / 2"),
            Edit(
                STATISTICS,
                "first.m2 + second.m2 + shift**2 * (first.rows * second.rows / count)",
                "count / 2 * (first.m2 / first.rows + second.m2 / second.rows)",
            ),
        ),
        BATCHES + "one_layer_is_exact_for_any_batching",
    ),
    "dropout-wakes-batch-norm": Defect(
        (
            Edit(
                "methods/dropout/masks.py",
                "with using_train_mode(use_running_average=None):\n                return",
                "with using_train_mode():\n                return",
            ),
        ),
        "methods/test_noise_posteriors.py::test_running_averages_are_used",
    ),
    "batch-norm-shares-a-list": Defect(
        (
            Edit("methods/dropout/mc_batch_norm.py", "members = []", "members = _MEMBERS"),
            Edit(
                "methods/dropout/mc_batch_norm.py",
                "\n\n@dataclass(frozen=True)",
                "\n_MEMBERS = []\n\n\n@dataclass(frozen=True)",
            ),
        ),
        "methods/test_noise_posteriors.py::test_several_posteriors_do_not_know_each_other",
    ),
    "snapshots-spaced-from-zero": Defect(
        (
            Edit(
                "methods/trajectory/snapshot_ensemble.py",
                "math.ceil((steps - first) /",
                "math.ceil(steps /",
            ),
        ),
        "methods/test_snapshots.py::test_number_and_times_of_snapshots",
    ),
    "jacobians-of-all-rows": Defect(
        (
            Edit(
                "methods/laplace/fit.py",
                "rows = rows_at_once(plan.bytes_per_row(itemsize), memory)",
                "rows = len(data)",
            ),
        ),
        "methods/test_laplace_curvature.py::test_a_fit_never_holds_the_jacobians_of_all_rows",
    ),
    "bias-in-a-block-of-its-own": Defect(
        (Edit("methods/laplace/plan.py", "if joint and layer.bias in names", "if False"),),
        LAPLACE + "conjugate_regression_is_exact",
    ),
    "curvature-averaged-over-rows": Defect(
        (
            Edit(
                "methods/laplace/curvature.py",
                "    return _summed(each)\n",
                "    return [total / len(data) for total in _summed(each)]\n",
            ),
        ),
        LAPLACE + "conjugate_regression_is_exact",
    ),
    "batch-ensemble-drops-the-remainder": Defect(
        (Edit(SHARED, "length = -(-size // members)", "length = size // members"),),
        MODULATED + "every_row_of_a_batch_goes_to_one_member",
    ),
    "lp-bnn-copies-meet-one-member": Defect(
        (
            Edit(
                SHARED,
                "trained.own, trained.members, fixed, carried,",
                "trained.own, jax.tree.map(lambda a: a[jnp.zeros(count, int)], trained.members), "
                "fixed, carried,",
            ),
        ),
        NODES + "copies_of_a_row_meet_different_members",
    ),
    "lp-bnn-divergence-without-the-noise-factor": Defect(
        (
            Edit(
                f"{ENSEMBLES}/lp_bnn.py",
                "latent_kl(mean, self.noise * std)",
                "latent_kl(mean, std)",
            ),
        ),
        NODES + "the_penalty_counts_the_noise_that_is_drawn",
    ),
    "masks-without-the-runs-key": Defect(
        (
            Edit(
                f"{ENSEMBLES}/masksembles.py",
                "jax.random.fold_in(key, group.id)",
                "jax.random.key(group.id)",
            ),
        ),
        MASKS + "masks_come_from_the_runs_key",
    ),
    "packed-widths-by-the-remainder": Defect(
        (
            Edit(
                "networks/width.py",
                "groups * math.ceil(w / groups - 1e-9)",
                "int(w) + int(w) % groups * groups",
            ),
        ),
        MASKS + "widths_that_do_not_divide_are_rounded_up_and_said",
    ),
    "mnf-divergence-without-constants": Defect(
        (Edit("methods/variational/mnf.py", "jnp.sum(square - 1 - 2", "jnp.sum(square - 2"),),
        FLOWS + "bounds_of_one_weight_are_in_order",
    ),
    "mnf-reads-kernels-without-tanh": Defect(
        (
            Edit(
                "methods/variational/mnf.py",
                "seen = jnp.tanh(reader @ mean + jnp.sqrt(variance + 1e-30) * noise).mean()",
                "seen = (reader @ mean + jnp.sqrt(variance + 1e-30) * noise).mean()",
            ),
        ),
        FLOWS + "a_dense_kernel_is_a_convolution_of_one_pixel",
    ),
    "rank1-divergence-summed-over-components": Defect(
        (
            Edit(
                f"{ENSEMBLES}/rank_one_bnn.py",
                'total = each.mean() if self.kl_reduction == "mean" else each.sum()',
                "total = each.sum()",
            ),
        ),
        "methods/test_rank_one.py::test_equal_components_have_the_divergence_of_one",
    ),
    "node-bnn-divergence-by-the-rows-at-hand": Defect(
        (Edit(SHARED, "+ self.modulator.penalty(", "+ weights.sum() * self.modulator.penalty("),),
        NODES + "the_divergence_is_over_all_rows_and_not_those_of_a_batch",
    ),
    "node-bnn-undefined-bound": Defect(
        (
            Edit(
                f"{ENSEMBLES}/node_bnn.py",
                "normal_entropy(std).mean() if conditional else bound",
                "conditional_entropy if conditional else bound",
            ),
        ),
        NODES + "every_pair_of_bounds_gives_its_number",
    ),
    "bought-rows-stay-in-the-pool": Defect(
        (Edit("active/state.py", "        free[self.labelled] = False\n", ""),),
        "active/test_active_loop.py::test_each_round_moves_exactly_the_query_from_the_pool_to_the_labels",
    ),
    "a-preset-whose-start-is-not-read": Defect(
        (
            Edit(
                "active/snapshot_presets.py",
                "start=self.start / self.epochs",
                "start=100 / self.epochs",
            ),
        ),
        "active/test_active_snapshots.py::test_presets_store_the_number_of_snapshots_that_they_say",
    ),
    "variation-ratio-of-the-mean": Defect(
        (
            Edit(
                SCORES,
                'return 1 - jnp.max(_votes(_classes(prediction, "variation_ratio")), axis=-1)',
                "label = prediction.label[:, None]\n"
                "    return 1 - jnp.take_along_axis(_votes(prediction), label, axis=-1)[:, 0]",
            ),
        ),
        ACQUISITIONS + "votes_are_of_members_and_not_of_their_mean",
    ),
    "variation-ratio-of-another-layout": Defect(
        (Edit(SCORES, "dtype=prediction.log_probs.dtype), axis=0)", "dtype=float), axis=1)"),),
        ACQUISITIONS + "transposed_members_and_rows_are_another_prediction",
    ),
    "bald-of-zero-log-zero": Defect(
        (
            Edit(
                SCORES, "return jnp.where(log_probs > -jnp.inf, log_probs, 0.0)", "return log_probs"
            ),
        ),
        ACQUISITIONS + "certain_members_give_numbers",
    ),
    "batchbald-of-zero-log-zero": Defect(
        (Edit(JOINT, "jnp.log(jnp.maximum(p, least))", "jnp.log(p)"),),
        BATCHBALDS + "forty_confident_rows_in_single_precision",
    ),
    "batchbald-multiplies-in-single-precision": Defect(
        (
            Edit(
                JOINT,
                "np.exp(self.log_joint - np.where(np.isfinite(top), top, 0.0))",
                "np.exp(self.log_joint).astype(np.float32).astype(float)",
            ),
        ),
        BATCHBALDS + "sixty_rows_of_ten_classes_in_single_precision",
    ),
    "batchbald-takes-one-more": Defect(
        (Edit(BATCHBALD, "for number in range(count):", "for number in range(count + 1):"),),
        BATCHBALDS + "exactly_as_many_rows_as_asked_for",
    ),
    "batchbald-stops-at-a-threshold": Defect(
        (
            Edit(
                BATCHBALD,
                "        tied = np.flatnonzero(",
                "        if number and gains.max() < 0.1:\n"
                "            break\n"
                "        tied = np.flatnonzero(",
            ),
        ),
        BATCHBALDS + "exactly_as_many_rows_as_asked_for",
    ),
    "batchbald-without-the-shared-entropy": Defect(
        (Edit(JOINT, "least)), axis=1) - own", "least)), axis=1)"),),
        BATCHBALDS + "scores_of_a_set_are_its_joint_information",
    ),
    "batchbald-takes-logits-for-probabilities": Defect(
        (
            Edit(
                BATCHBALD,
                "joint.with_entropies(prediction.members)",
                "joint.with_entropies(prediction.log_probs)",
            ),
        ),
        BATCHBALDS + "logits_and_probabilities_agree",
    ),
    "greedy-ratio-of-unset-memory": Defect(
        (
            Edit(
                "active/greedy_variation.py",
                "log_probs = jnp.maximum(prediction.log_probs, np.log(LEAST))",
                "members = np.asarray(prediction.members)\n"
                "    log_probs = jnp.asarray(np.log(members, where=members > 0))",
            ),
        ),
        "active/test_batch_choices.py::test_greedy_variation_ratio_of_certain_members",
    ),
    "noise-without-a-floor": Defect(
        (Edit("likelihoods/learned.py", "VARIANCE_FLOOR = 1e-6", "VARIANCE_FLOOR = 0.0"),),
        "core/test_likelihood.py::test_no_variance_falls_below_the_floor",
    ),
    "vip-without-the-prior-mean": Defect(
        (
            Edit(
                "functions/combination.py",
                "return phi, y.reshape(-1) - features.mean.reshape(-1)",
                "return phi, y.reshape(-1)",
            ),
        ),
        "functions/test_vip.py::test_a_shift_of_targets_and_prior_changes_nothing",
    ),
    "vip-noise-over-alpha-squared": Defect(
        (Edit("functions/combination.py", "noise / alpha\n", "noise / alpha**2\n"),),
        "functions/test_vip.py::test_three_fixed_functions",
    ),
    "score-with-the-eigenvectors-of-another-call": Defect(
        (
            Edit(
                "functions/ssge.py",
                "used = (before < threshold) & (values > 0)",
                "used = jnp.arange(count) < 5",
            ),
        ),
        "functions/test_ssge.py::test_the_number_of_eigenvectors_is_found_at_each_call",
    ),
}


def defective(defect: Defect, folder: Path) -> Path:
    """A copy of the source with the defect in it."""
    source = folder / "src"
    shutil.copytree(SOURCE, source / "credax", ignore=shutil.ignore_patterns("__pycache__"))
    for file, ours, theirs in defect.edits:
        path = source / "credax" / file
        text = path.read_text()
        if text.count(ours) != 1:
            raise SystemExit(f"{file} has {text.count(ours)} times: {ours}")
        path.write_text(text.replace(ours, theirs))
    return source


def attempt(defect: Defect) -> tuple[bool, str]:
    """Whether the test failed for the defective version, and what it said."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(defective(defect, Path(folder)))
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short"]
        command += ["-m", "slow or not slow", f"tests/{defect.test}"]
        environment = {**os.environ, "PYTHONPATH": path}
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
    # 1: tests were collected and some failed. Anything else is a mistake of this list.
    said = re.findall(r"^(?:E  .*|FAILED .*|ERROR .*|\d+ \w+.* in .*)$", done.stdout, re.M)
    return done.returncode == 1, "\n".join(said) or done.stdout[-2000:] + done.stderr[-2000:]


def main() -> None:
    """Try the named defects, or all."""
    survivors = []
    for name in sys.argv[1:] or DEFECTS:
        failed, said = attempt(DEFECTS[name])
        print(f"== {name}: {'caught' if failed else 'NOT CAUGHT'}\n{said}\n")
        sys.stdout.flush()
        survivors += [] if failed else [name]
    sys.exit(f"not caught: {', '.join(survivors)}" if survivors else 0)


if __name__ == "__main__":
    main()
