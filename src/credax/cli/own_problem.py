"""The problem of a run with code of the user's own, whose file the user names again."""

from pathlib import Path
from typing import Any

from credax.cli.config import task_from_json
from credax.cli.job import network_options
from credax.cli.own_code import code_section, own_likelihood, own_network, read_own, refuse_changed
from credax.description import file_digest
from credax.errors import InputError
from credax.likelihood import LearnedNoise
from credax.problem import Problem
from credax.runs import rebuild


def problem_of_code(config: dict[str, Any], folder: Path, named: str | None) -> Problem | None:
    """The problem, from the files in ``named`` (``FILE.py``, several by commas).

    None for runs without own code, and where ``named`` is ``FILE.py:NAME`` of a whole problem.
    """
    section = code_section(config, folder / "config.json")
    models = {flag: entry for flag, entry in section.items() if flag in ("network", "likelihood")}
    if not models or (named is not None and ".py:" in named):
        return None
    if named is None:
        flags, files = " and ".join(models), sorted({e["file"] for e in models.values()})
        raise InputError(
            f"the {flags} of the run in {folder} come from code of your own; name its file again "
            f"to run it: --problem {','.join(files)}"
        )
    files = {Path(file).name: file for file in named.split(",")}
    values = {flag: _read(entry, files, flag, folder) for flag, entry in models.items()}
    described = config["problem"]
    likelihood = (
        own_likelihood(values["likelihood"])
        if "likelihood" in values
        else rebuild(described["likelihood"])
    )
    if "network" in values:
        task = task_from_json(config, folder / "config.json")
        options = network_options(task.network_options)
        network: Any = own_network(values["network"], section["network"]["outputs"], options)
    else:
        network = rebuild(described["network"])
        network = network.network if isinstance(network, LearnedNoise) else network
    return Problem(network, likelihood, prior=rebuild(described["prior"]))


def _read(entry: dict[str, Any], files: dict[str, str], flag: str, folder: Path) -> Any:
    file = files.get(Path(entry["file"]).name)
    if file is None:
        raise InputError(
            f"problem names {', '.join(files)} and the {flag} of the run in {folder} is in "
            f"{entry['file']}; name that file too"
        )
    if Path(file).is_file():
        refuse_changed(entry, file_digest(file), file, folder)
    return read_own(f"{file}:{entry['name']}", "problem")
