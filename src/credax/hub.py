"""Runs and zoos on the Hugging Face Hub: safetensors and JSON only, with a model card."""

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from credax.errors import InputError, MissingExtra
from credax.reading import read_json

SCHEME = "hf://"
KINDS = ("*.json", "*.jsonl", "*.safetensors")
"""Files that are pushed and pulled; nothing that a reader would have to execute or unpickle."""
ROWS = "rows.safetensors"
_ADDRESS = re.compile(r"hf://([\w.-]+/[\w.-]+)(?:@([\w./-]+))?")
_OF_RUN = ("config.json", "members.safetensors", "metrics.jsonl", "test.json", "shift.json")


def push(
    folder: str | Path,
    address: str,
    *,
    rows: bool = False,
    private: bool = False,
    token: Any = None,
) -> str:
    """Copy a finished run or a zoo to ``hf://user/name`` and return its address on the web.

    The test rows that a run keeps are data of yours: they stay here unless ``rows`` is true. Paths
    of this machine are taken out of ``config.json``. A model card is written from the run.
    """
    from credax.model_card import model_card

    folder = Path(folder)
    repository, revision = _parse(address)
    files = _files(folder, rows)
    api = _api(token)
    with _sentences(f"pushing to {address}"):
        from huggingface_hub import CommitOperationAdd

        content: dict[str, Any] = {name: str(folder / name) for name in files}
        if "config.json" in content:
            public = _public(read_json(folder / "config.json"))
            content["config.json"] = json.dumps(public, indent=2).encode()
        content["README.md"] = model_card(folder, repository).encode()
        api.create_repo(repository, private=private, exist_ok=True)
        found = api.create_commit(
            repository,
            [CommitOperationAdd(name, value) for name, value in content.items()],
            commit_message=f"credax: {folder.resolve().name}",
            revision=revision,
        )
    return str(getattr(found, "repo_url", "") or f"{api.endpoint}/{repository}")


def pull(address: str, folder: str | Path | None = None, *, token: Any = None) -> Path:
    """The folder of a run or zoo at ``hf://user/name[@revision]``: the cache, or ``folder``.

    Only JSON and safetensors are fetched. What is in the cache is not fetched again.
    """
    repository, revision = _parse(address)
    if folder is not None and Path(folder).exists() and any(Path(folder).iterdir()):
        raise InputError(f"folder is {folder}, which is not empty; choose another or remove it")
    with _sentences(f"fetching {address}"):
        found = _api(token).snapshot_download(
            repository,
            revision=revision,
            allow_patterns=list(KINDS),
            local_dir=folder,
        )
    return Path(str(found))


def _parse(address: str) -> tuple[str, str | None]:
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise InputError(f"address is {address!r}; give hf://user/name, or hf://user/name@revision")
    return found[1], found[2]


def _files(folder: Path, rows: bool) -> list[str]:
    """Names of what is pushed, after checking that it is a finished run or a zoo."""
    if (folder / "zoo.json").is_file():
        names = [p.name for kind in KINDS for p in sorted(folder.glob(kind)) if p.is_file()]
        return sorted({*names})
    if not (folder / "config.json").is_file():
        raise InputError(f"{folder} is neither a run nor a zoo; see: credax list runs")
    if not (folder / "members.safetensors").is_file():
        raise InputError(f"the run in {folder} is not finished; run its command again to go on")
    calibrators = [f"calibration/{p.name}" for p in sorted((folder / "calibration").glob(KINDS[2]))]
    names = [*_OF_RUN, *calibrators, *([ROWS] if rows else [])]
    return [name for name in names if (folder / name).is_file()]


def _public(config: dict[str, Any]) -> dict[str, Any]:
    """A configuration without paths of the machine it was made on."""
    config = {**config, "command": ""} if "command" in config else dict(config)
    if isinstance(config.get("dataset"), dict) and config["dataset"].get("path"):
        config["dataset"] = {**config["dataset"], "path": Path(config["dataset"]["path"]).name}
    if isinstance(config.get("task"), dict):
        task = dict(config["task"])
        if Path(str(task.get("data", ""))).is_absolute():
            task["data"] = Path(task["data"]).name
        config["task"] = {**task, "data_dir": None}
    return config


def _api(token: Any) -> Any:
    try:
        from huggingface_hub import HfApi
    except ImportError as error:
        raise MissingExtra(
            "huggingface-hub", "hub", "reading and writing hf:// addresses"
        ) from error
    return HfApi(endpoint=os.environ.get("HF_ENDPOINT"), token=token)


@contextmanager
def _sentences(what: str) -> Iterator[None]:
    """Errors of the hub in one sentence."""
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        yield
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        if isinstance(error, InputError):
            raise
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(
            f"{what} failed: {reason}; is the name right, are you logged in (hf auth login) and "
            "is the network there?"
        ) from error
