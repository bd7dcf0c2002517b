"""``credax reproduce NAME``: a published experiment, its table beside the published one."""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import tyro

from credax import experiments
from credax.cli.config import Cluster, Names, read_arguments
from credax.errors import InputError, unknown

DEFAULT_ROOT = "runs"
STEP_ROWS = 2048


@dataclass(frozen=True)
class Reproduce:
    """Run a published experiment; the same command resumes it."""

    name: Annotated[str, tyro.conf.Positional]
    """Which one (credax reproduce --help lists them)."""
    scale: Literal["test", "cpu", "paper"] = "cpu"
    """Seconds, minutes on a processor, or the published settings."""
    seeds: int | None = None
    """How many seeds, 0, 1, ...; by default the scale's own number."""
    arms: Annotated[Names, tyro.conf.arg(aliases=("--methods",))] = ()
    """Some rows of the table only, by name, separated by commas."""
    sets: Names = ()
    """Some data sets only, by name, separated by commas, where there are several (uci)."""
    out: str | None = None
    """Folder of the experiment; by default runs/NAME_SCALE."""
    data_dir: str | None = None
    """Folder with the data files; by default CREDAX_DATA or the cache."""
    download: bool = True
    """Fetch data that is not here, where its publisher's address is known."""
    strategy: Literal["auto", "vmap", "map", "unroll", "shard"] = "auto"
    """How members run: all at once, in groups, one by one, or distributed over devices."""
    members_at_once: int = 1
    """Group size of strategy=map."""
    cluster: Cluster = None
    figures: Literal["pdf", "png", "svg"] | None = None
    """Also write figures of this format to the folder figures, by matplotlib; svg in place of the
    page's own drawings."""
    dry_run: bool = False
    """Print every fit with all its settings, parameters and memory; train nothing."""
    one_step: bool = False
    """Take one training step of every arm at the scale's settings; keep nothing."""
    json: bool = False
    """Print as JSON."""
    quiet: bool = False
    """No progress bar."""


def run(arguments: list[str]) -> None:
    """Read the flags; plan, try one step, or run."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_usage())
        if arguments:
            read_arguments(Reproduce, ["--help"], "credax reproduce")
        return
    _run(_planned(arguments), arguments)


class _Planned(NamedTuple):
    """An experiment with what was asked of it."""

    experiment: Any
    config: Reproduce
    scale: Any
    seeds: int
    root: Path

    @property
    def study(self) -> bool:
        """Whether it has no data set: nothing to load, to stream or to distribute."""
        from credax.experiments.study import StudyScale

        return isinstance(self.scale, StudyScale)


def _planned(arguments: Sequence[str]) -> _Planned:
    config = read_arguments(Reproduce, list(arguments), "credax reproduce")
    if config.name not in experiments.names():
        raise unknown("experiment", config.name, experiments.names())
    experiment = experiments.get(config.name)
    from credax.experiments.bench import check_seeds, chosen

    scale = chosen(experiment.scale(config.scale), config.arms)
    seeds = scale.seeds if config.seeds is None else check_seeds(config.seeds)
    root = Path(config.out or Path(DEFAULT_ROOT) / f"{experiment.name}_{config.scale}")
    plan = _Planned(experiment, config, scale, seeds, root)
    if plan.study:
        return plan
    scale = dataclasses.replace(scale, evaluation=_with_sets(scale.evaluation, config))
    engine = {"strategy": config.strategy, "members_at_once": config.members_at_once}
    return plan._replace(
        scale=dataclasses.replace(scale, training=scale.training.replace(**engine))
    )


def _run(plan: _Planned, arguments: Sequence[str]) -> None:
    experiment, config, scale, seeds, root = plan
    if plan.study:
        _refuse_data(config)
    if config.dry_run and plan.study:
        print(json.dumps(scale.plan(experiment.name, config.scale, seeds), indent=2))
    elif config.dry_run:
        _print_plan(experiment, config, scale, seeds, root)
    elif config.one_step:
        _one_step(experiment, config, scale, root)
    else:
        _reproduce(_bench(plan), config, arguments)


def _with_sets(evaluation: Any, config: Reproduce) -> Any:
    """The evaluation with the data sets that were asked for."""
    if not config.sets:
        return evaluation
    known = getattr(evaluation, "sets", None)
    if known is None:
        raise InputError(
            f"sets is {','.join(config.sets)}; {config.name} has one data set: drop it"
        )
    from credax.experiments.uci import ALL_SETS

    for name in config.sets:
        if name not in ALL_SETS:
            raise unknown("data set", name, ALL_SETS)
    return dataclasses.replace(evaluation, sets=tuple(config.sets))


def _usage() -> str:
    lines = [f"  {name:<30}{experiments.describe(name)}" for name in experiments.names()]
    return "\n".join(
        [
            "usage: credax reproduce NAME [--scale test|cpu|paper] [options]",
            "",
            *lines,
            "",
            "example: credax reproduce forde-digits --seeds 3",
        ]
    )


def _refuse_data(config: Reproduce) -> None:
    refused = {"sets": config.sets, "one_step": config.one_step, "data_dir": config.data_dir}
    for name, value in refused.items():
        if value:
            flag = f"--{name.replace('_', '-')}"
            raise InputError(f"{flag} is given and {config.name} has no data set; leave it out")


def _bench(plan: _Planned) -> Any:
    """Where the experiment runs, with its data loaded."""
    from rich.console import Console

    from credax.experiments.bench import Bench
    from credax.experiments.study import StudyBench

    experiment, config, scale, seeds, root = plan
    notes = Console(stderr=True, quiet=config.quiet or config.json)
    say = lambda text: notes.print(text, highlight=False)  # noqa: E731
    if plan.study:
        return StudyBench(experiment, config.scale, scale, root, seeds, say)
    return Bench(
        experiment,
        config.scale,
        scale,
        scale.data.load(config.data_dir, config.download),
        root,
        seeds,
        progress=False if config.quiet or config.json else None,
        say=say,
        data_dir=config.data_dir,
    )


@lru_cache(maxsize=1)
def _bench_by(arguments: tuple[str, ...]) -> Any:
    plan = _planned(arguments)
    return _bench(plan._replace(config=dataclasses.replace(plan.config, quiet=True)))


def train_one(arguments: tuple[str, ...], number: int) -> None:
    """One arm and seed of an experiment, on a worker of a cluster: trained, measured and kept.

    What the experiment concludes of one trial alone is thrown away.
    """
    bench = dataclasses.replace(_bench_by(arguments), only=number)
    bench.experiment.run(bench)


def _train_on_cluster(bench: Any, config: Reproduce, arguments: Sequence[str]) -> None:
    """What a worker could not finish, such as trials that need others, is left to do here."""
    from credax.cli.cluster import Work, train_on

    works = {
        number: Work(f"{trial.arm.label}, seed {trial.seed}", trial.folder)
        for number, trial in enumerate(bench.trials)
    }
    quiet = config.quiet or config.json
    failed = train_on(config.cluster or "", "reproduce", arguments, works, quiet)
    for number, words in failed.items():
        bench.say(f"{works[number].label} goes on here: on the cluster it ended with: {words}")


def _reproduce(bench: Any, config: Reproduce, arguments: Sequence[str]) -> None:
    """Measure, write everything, and print the tables."""
    from rich.console import Console

    from credax.experiments.page import figure_paths, write_outcome
    from credax.report import print_rich

    if config.figures is not None:
        # Hours of training should not end with a missing package.
        from credax.plot.axes import matplotlib

        matplotlib()
    if config.cluster is not None:
        _train_on_cluster(bench, config, arguments)
    root, outcome = bench.root, bench.experiment.run(bench)
    table = write_outcome(bench, outcome)
    drawn = _draw(bench, outcome, config.figures)
    if config.json:
        print((root / "results.json").read_text())
        return
    console = Console()
    print_rich(table, console)
    for published in outcome.published:
        _print_published(published, outcome.results, console)
    for sentence in (*outcome.findings, f"Scale {config.scale}: {bench.scale.note}."):
        console.print(sentence, highlight=False, markup=False)
    figures = dict.fromkeys([*figure_paths(root, outcome), *drawn])
    if config.figures is not None and not drawn:
        console.print(f"{config.name} has no figures at this scale.", highlight=False)
    for path in (root / "results.csv", *figures, root / "report.html"):
        console.print(str(path), highlight=False, soft_wrap=True, markup=False)


def _draw(bench: Any, outcome: Any, kind: str | None) -> list[Path]:
    """The experiment's own figures by matplotlib, then those of any comparison."""
    if kind is None:
        return []
    from credax.plot import save_experiment_figures, save_figures

    folder = bench.root / "figures"
    own = save_experiment_figures(outcome.figures, folder, kind)
    return [*own, *save_figures(bench.comparison(outcome), folder, kind)]


def _print_published(published: Any, results: Any, console: Any) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from credax.report.table import cut, fitting

    def part(start: int, stop: int) -> Table:
        table = Table(
            title=Text(f"Beside {published.title}"),
            title_justify="left",
            box=SIMPLE_HEAD,
            pad_edge=False,
            show_lines=True,
        )
        table.add_column("method", no_wrap=True)
        for measure in published.measures[start:stop]:
            table.add_column(Text(f"{measure.label}\nours\n{published.kind}"), justify="right")
        for label, *cells in published.lines(results):
            pairs = list(zip(cells[::2], cells[1::2], strict=True))[start:stop]
            table.add_row(label, *(Text(f"{ours}\n{theirs}") for ours, theirs in pairs))
        return table

    for piece in cut(part, len(published.measures), fitting(console)):
        console.print(piece)
    console.print(Text(f"Mean ± standard deviation. {published.source}.", style="dim"))


def _print_plan(experiment: Any, config: Reproduce, scale: Any, seeds: int, root: Path) -> None:
    from credax.cli.experiment_plan import plan, print_plan

    content = plan(experiment, config.scale, scale, seeds, root, config.data_dir)
    if config.json:
        print(json.dumps(content, indent=2))
    else:
        print_plan(content)


def _one_step(experiment: Any, config: Reproduce, scale: Any, root: Path) -> None:
    from credax.experiments.bench import Bench
    from credax.experiments.step import first_step

    dataset = _rows_at_hand(scale.data, config)
    # Members one after another: the memory of one, and the same numbers.
    in_turn = {"strategy": "map", "members_at_once": 1} if config.strategy == "auto" else {}
    bench = Bench(experiment, config.scale, scale, dataset, root, 1)
    steps = []
    for arm in scale.arms:
        training = scale.training_of(arm).replace(**in_turn)
        step = {"data": dataset.name, **first_step(bench, arm, training)}
        steps.append(step)
        if not config.json:
            mean = sum(step["nll"]) / len(step["nll"])
            print(
                f"{arm.label:<24}{len(step['nll'])} members, nll {mean:.4f}, greatest change "
                f"{step['greatest change']:.3g}, {step['seconds for the step']} s "
                f"(preparation {step['seconds to prepare']} s)",
                flush=True,
            )
    if config.json:
        print(json.dumps(steps, indent=2))
    else:
        print(f"one step each on {dataset.name}, {len(dataset.train)} rows")


def _rows_at_hand(data: Any, config: Reproduce) -> Any:
    try:
        return data.load(config.data_dir, config.download)
    except InputError as error:
        if data.classes is None or len(data.input_shape) != 3:
            raise
        import sys

        print(f"credax: {error}; taking {STEP_ROWS} generated images instead", file=sys.stderr)
        return data.made_up(STEP_ROWS, 1)
