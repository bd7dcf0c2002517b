"""What experiments on populations share: one zoo per arm, its structure, and what is kept of it."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np

from credax import networks
from credax.experiments.bench import Bench, Trial
from credax.files import read_json, write_json
from credax.network import Network
from credax.reading import check_record
from credax.reading.records import NUMBER
from credax.report import Result
from credax.structure import Structure, trace
from credax.zoo import Zoo, train_zoo
from credax.zoo.manifest import Manifest, read_journal
from credax.zoo.training import zoo_manifest
from credax.zoo.writer import check_same_kind

AT_ONCE = 250
SOURCE = (
    "Laurent, Aldea, Franchi: A Symmetry-Aware Exploration of Bayesian Neural Network Posteriors, "
    "ICLR 2024"
)


@dataclass(frozen=True)
class Named:
    """A network by its name in `credax.networks`, so that a zoo can write it down.

    >>> Named("mlp", {"hidden": (16,)})(10).hidden
    (16,)
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, outputs: int) -> Network:
        """The network for so many outputs."""
        return networks.build(self.name, outputs, **self.options)


def zoo_of(bench: Bench, trial: Trial, at_once: int = AT_ONCE) -> Zoo:
    """The arm's networks, as many as its method has members: trained, resumed or read.

    ``seconds.json`` beside them says how long it took (what an interrupted call had trained and
    not stored is trained again and counted).
    """
    if trial == bench.trials[0]:
        check_zoos(bench)
    arm, folder = trial.arm, trial.folder
    count = arm.method.members
    bench.say(f"{arm.label}, {count} networks")
    before = len(read_journal(folder)) if (folder / "zoo.json").exists() else 0
    began = time.monotonic()
    zoo = train_zoo(
        bench.scale.problem(arm),
        bench.dataset,
        folder,
        count=count,
        at_once=at_once,
        **_description(bench, trial),
    )
    if before < count:
        write_json(folder / "seconds.json", _seconds(folder) + time.monotonic() - began)
    return zoo


def check_zoos(bench: Bench) -> None:
    """Refuse folders of another scale before anything is trained, whichever arm comes first."""
    for trial in bench.trials:
        if (trial.folder / "zoo.json").exists():
            problem = bench.scale.problem(trial.arm)
            wanted = zoo_manifest(problem, bench.dataset, **_description(bench, trial))
            check_same_kind(trial.folder, Manifest.read(trial.folder), wanted)


def _description(bench: Bench, trial: Trial) -> dict[str, Any]:
    scale = bench.scale
    named: Any = trial.arm.network or scale.network
    outputs = scale.likelihood.num_outputs(scale.data.classes or 1)
    return {
        "network": {"name": named.name, "options": dict(named.options), "outputs": outputs},
        "likelihood": "bernoulli" if outputs == 1 else "categorical",
        "training": scale.training,
        "seed": trial.seed,
        "origin": {"experiment": bench.experiment.name, "data": bench.dataset.name},
    }


def _seconds(folder: Path) -> float:
    path = folder / "seconds.json"
    kept = {"seconds": read_json(path) if path.exists() else 0.0}
    return float(check_record(kept, {"seconds": NUMBER}, path)["seconds"])


def structure_of(zoo: Zoo, **options: Any) -> Structure:
    """What the trace says of the zoo's network."""
    return network_structure(zoo.manifest.problem().network, zoo.manifest.input_shape, **options)


def network_structure(network: Network, input_shape: tuple[int, ...], **options: Any) -> Structure:
    """What the trace says of a network for inputs of a shape."""
    x = jax.ShapeDtypeStruct((2, *input_shape), "float32")
    shapes = jax.eval_shape(network.init, jax.random.key(0), x)
    return trace(network, shapes, x, **options)


def zoo_result(bench: Bench, trial: Trial, zoo: Zoo, metrics: dict[str, float]) -> Result:
    """A row of the table: the scores of the networks themselves, and what was measured."""
    left_out = len(zoo.records) - zoo.members
    notes = (f"{left_out} of {len(zoo.records)} networks diverged or did not learn",)
    scores = {"member_accuracy": float(np.mean(zoo.values("test_accuracy")))}
    return Result(
        trial.arm.label,
        trial.seed,
        {**scores, **metrics},
        cost={
            "members": zoo.members,
            "parameters": bench.params(trial.arm),
            "epochs": bench.scale.training.epochs,
            "training_seconds": _seconds(zoo.folder),
        },
        config={"zoo": str(zoo.folder), "network": zoo.manifest.network, **zoo.manifest.origin},
        notes=notes if left_out else (),
    )


def spread(values: np.ndarray, name: str) -> dict[str, float]:
    """A name's 2.5 %, 50 % and 97.5 % quantiles, for a row of a table."""
    low, middle, high = np.quantile(np.asarray(values, float), [0.025, 0.5, 0.975])
    return {f"{name}_low": float(low), name: float(middle), f"{name}_high": float(high)}
