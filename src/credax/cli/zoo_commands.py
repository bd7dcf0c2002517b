"""What the commands under ``credax zoo`` do; imported once their flags are read."""

import csv
import io
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from credax.cli.job import Job, network_options
from credax.cli.own_code import is_own
from credax.cli.zoo import (
    Analyse,
    Import,
    Info,
    Table,
    Train,
    Verify,
    as_json,
    plain_task,
    print_nested,
    read_train,
    zoo_folder,
)
from credax.data import load
from credax.errors import InputError
from credax.files import write_atomic, write_json
from credax.training import RunFolder
from credax.training.progress import reporter_for
from credax.zoo import Manifest, Zoo, import_checkpoints, train_zoo
from credax.zoo import analyse as analyse_zoo
from credax.zoo.manifest import read_journal
from credax.zoo.training import Batch, batch_folder, missing_batches, train_batch, zoo_manifest


@contextmanager
def _bar(title: str, total: int | None, quiet: bool):
    reporter = reporter_for(False if quiet else None, "networks")
    reporter.start(title, total, 0)
    try:
        yield lambda done, text="": reporter.update(int(done), text)
    finally:
        reporter.stop()


@dataclass(frozen=True)
class _Planned:
    """A zoo that is to be trained."""

    job: Job
    folder: Path
    network: dict[str, Any]

    def options(self, config: Train) -> dict[str, Any]:
        """What the zoo's manifest says."""
        return {
            "network": self.network,
            "likelihood": self.job.task.likelihood,
            "training": self.job.task.training,
            "seed": config.seed,
            "storage": config.storage,
            "shard_members": config.shard_members,
            "origin": {"task": plain_task(self.job.task)},
        }


def _planned(config: Train) -> _Planned:
    own = [t for t in (config.task.network, config.task.likelihood) if is_own(t)]
    if own:
        raise InputError(
            f"{own[0]} is code of your own, and a zoo keeps networks and likelihoods by name; "
            "train a zoo of your own network in Python: credax.zoo.train_zoo"
        )
    job = Job.of(config.task)
    classes = job.dataset.task == "classification"
    targets = job.dataset.num_classes if classes else job.dataset.num_targets
    network = {
        "name": job.task.network,
        "options": network_options(job.task.network_options),
        "outputs": job.problem.likelihood.num_outputs(targets),
    }
    return _Planned(job, zoo_folder(config, job.task.network), network)


def train(config: Train, flags: list[str]) -> None:
    """Train or resume or extend, then say what is there."""
    plan, began = _planned(config), time.monotonic()
    job, folder = plan.job, plan.folder
    if config.cluster is not None:
        _train_on_cluster(config, flags, plan, config.cluster)
    with _bar(f"{job.task.network} on {job.task.data}", config.count, config.quiet) as progress:
        zoo = train_zoo(
            job.problem,
            job.dataset,
            folder,
            count=config.count,
            at_once=config.at_once,
            progress=progress,
            **plan.options(config),
        )
    print(f"{len(zoo)} usable of {len(zoo.records)} networks in {folder}")
    print(f"{time.monotonic() - began:.1f} seconds")


def _train_on_cluster(config: Train, flags: list[str], plan: _Planned, address: str) -> None:
    """Every batch is a task: its networks are one program, whose memory ``at_once`` decides."""
    from credax.cli.cluster import Work, raise_first, train_on

    manifest = zoo_manifest(plan.job.problem, plan.job.dataset, **plan.options(config))
    batches = missing_batches(plan.folder, manifest, config.count, config.at_once)
    works = {
        batch.start: Work(f"networks {batch.start} to {batch.start + batch.size - 1}", batch.folder)
        for batch in batches
        if not RunFolder(batch.folder).finished
    }
    # The size of a batch goes with its number: a worker sees the zoo as it is when it begins.
    sizes = ",".join(f"{batch.start}:{batch.size}" for batch in batches)
    raise_first(train_on(address, "zoo_commands", [sizes, *flags], works, config.quiet), works)


@lru_cache(maxsize=1)
def _planned_by(flags: tuple[str, ...]) -> tuple[Train, _Planned]:
    config = read_train(list(flags))
    return config, _planned(config)


def train_one(arguments: tuple[str, ...], number: int) -> None:
    """One batch of a zoo, on a worker of a cluster."""
    sizes, *flags = arguments
    config, plan = _planned_by(tuple(flags))
    pairs = (pair.split(":") for pair in sizes.split(","))
    size = {int(start): int(size) for start, size in pairs}[number]
    batch = Batch(number, size, batch_folder(plan.folder, number, size))
    train_batch(plan.job.problem, plan.job.dataset, batch, plan.job.task.training, config.seed)


def import_(config: Import) -> None:
    """Import or resume, then name what could not be read."""
    with _bar("import", None, config.quiet) as progress:
        zoo = import_checkpoints(
            config.place,
            config.out,
            architecture=config.architecture,
            storage=config.storage,
            progress=progress,
        )
    for record in zoo.records:
        if record["status"] == "corrupt":
            print(f"left out: {record.get('name')} ({record.get('problem')})")
    print(f"{len(zoo)} usable of {len(zoo.records)} networks in {config.out}")


def info(config: Info) -> None:
    """What a zoo is; an unfinished one too."""
    folder = Path(config.zoo)
    manifest = Manifest.read(folder)
    records = read_journal(folder)
    content = {
        "zoo": str(folder),
        "network": manifest.network,
        "arrays": len(manifest.shapes),
        "members": len(records),
        "status": dict(Counter(record["status"] for record in records)),
        "in_closed_shards": sum(shard.members for shard in manifest.shards),
        "storage": manifest.storage,
        "bytes": sum(p.stat().st_size for p in folder.glob("shard-*.safetensors") if p.is_file()),
        "origin": manifest.origin,
    }
    if config.json:
        print(as_json(content))
        return
    print_nested({**content, "origin": ", ".join(manifest.origin)})


def verify(config: Verify) -> None:
    """Name damaged members; an error if there are any."""
    zoo = Zoo.open(config.zoo)
    damage = zoo.damage()
    for reason in damage.values():
        print(reason)
    if damage:
        raise InputError(
            f"{len(damage)} of {len(zoo.records)} members of {config.zoo} are damaged; they are "
            "left out by credax zoo analyse, or restore the shard from a copy"
        )
    print(f"all {len(zoo.records)} members are as they were written")


def table(config: Table) -> None:
    """The members' records, one column per name."""
    records = read_journal(Path(config.zoo))
    if not records:
        raise InputError(f"{config.zoo} has no members yet")
    columns = list(dict.fromkeys(name for record in records for name in record))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns)
    writer.writeheader()
    writer.writerows(records)
    if config.out is None:
        print(text.getvalue(), end="")
        return
    if Path(config.out).exists():
        raise InputError(f"out is {config.out}, which exists; choose another name or remove it")
    write_atomic(config.out, text.getvalue())
    print(f"{len(records)} records in {config.out}")


def analyse(config: Analyse) -> None:
    """Analyse, print, and keep the numbers in the zoo's ``analysis.json``."""
    zoo = Zoo.open(config.zoo, verify=True)
    if config.members is not None:
        zoo = zoo.take(slice(0, config.members))
    task = zoo.manifest.origin.get("task", {})
    name = config.data or task.get("data")
    classes = zoo.manifest.likelihood == "categorical"
    x = load(name, root=config.data_dir).test.x if name and classes else None
    out = config.out_of_distribution
    x_out = None if out is None else load(out, root=config.data_dir).test.x
    result = analyse_zoo(
        zoo, x, x_out, inputs=config.inputs, permutations=config.permutations, seed=config.seed
    ).summary()
    write_json(Path(config.zoo) / "analysis.json", result)
    if config.json:
        print(as_json(result))
    else:
        print_nested(result)
