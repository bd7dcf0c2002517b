"""``credax pca DATA OUT.npz``: principal components of a data set's training inputs."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from credax.cli.config import read_arguments
from credax.errors import InputError

SHARES = (0.5, 0.9, 0.95, 0.99)


@dataclass(frozen=True)
class Pca:
    """Principal components of training inputs, for ``credax fit forde --pca OUT``."""

    data: Annotated[str, tyro.conf.Positional]
    """Data set by name (credax list datasets), or a .npz or .csv file."""
    out: Annotated[str, tyro.conf.Positional]
    """Where to write: a new .npz file."""
    rank: int | float | None = None
    """Components to keep: how many, or a share of the variance; all by default."""
    centre: bool = False
    """Subtract the mean input (the released code of FoRDE does not)."""
    data_dir: str | None = None
    """Folder with the data files; by default CREDAX_DATA or the cache."""
    json: bool = False
    """Print as JSON."""
    quiet: bool = False
    """No progress bar."""


def run(arguments: list[str]) -> None:
    """Read the flags, accumulate the second moment in blocks, write the components."""
    config = read_arguments(Pca, arguments, "credax pca")
    out = Path(config.out)
    if out.suffix != ".npz":
        raise InputError(f"out is {config.out}; give a name that ends in .npz")
    if out.exists():
        raise InputError(f"out is {config.out}, which exists; choose another name or remove it")
    from credax.data import load
    from credax.data.pca import principal_components

    train = load(config.data, root=config.data_dir).train
    with _progress(config.quiet or config.json) as report:
        components = principal_components(train, config.rank, config.centre, report=report)
    components.save(out)
    content = summary(components)
    if config.json:
        print(json.dumps({"file": str(out), **content}, indent=2))
        return
    kept, dimension = content["components"], content["inputs"]
    print(f"{kept} of {dimension} components of {content['rows']} rows in {out}")
    print(f"explained variance   {content['explained']:.4%}")
    for share, count in content["components for a share"].items():
        print(f"  {float(share):<4.0%} with          {count} components")
    if kept < dimension:
        print(f"greatest variance left out   {content['next eigenvalue']:.4g}")


def summary(components: Any) -> dict[str, Any]:
    """What the components explain, in plain data."""
    import numpy as np

    shares = np.cumsum(components.values) / components.total
    counts = {
        f"{share:g}": int(np.searchsorted(shares, share)) + 1
        for share in SHARES
        if share <= shares[-1]
    }
    return {
        "inputs": components.dimension,
        "rows": components.rows,
        "centred": components.centred,
        "components": len(components.values),
        "explained": components.explained,
        "components for a share": counts,
        "greatest eigenvalue": float(components.values[0]),
        "next eigenvalue": components.next_value,
    }


@contextmanager
def _progress(quiet: bool) -> Iterator[Any]:
    """What to call with rows done and rows in all: a bar on a terminal, nothing elsewhere."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    with Progress(console=console) as bar:
        task = bar.add_task("principal components", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
