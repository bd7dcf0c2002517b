"""The folder of a loop: what was asked for, where it stands, the runs of its rounds.

``active.json`` describes the loop by value and by digest, ``state.safetensors`` holds its index
sets and history, ``seconds.json`` the times, ``rounds/000`` and so on the trainings. Every file is
written under a temporary name, synced and renamed.
"""

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

from credax.active.state import State, load_state
from credax.errors import DamagedFile, InputError
from credax.files import read_json, write_json
from credax.locks import claim_folder
from credax.reading import check_record
from credax.reading.records import NUMBER, list_of, maybe
from credax.training.run import TEMPORARY, RunFolder, first_difference

FILE = "active.json"
TIMES = "seconds.json"


class LoopFolder:
    """The files of one loop. While it is entered, no other process can use it."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self._lock: Any = None

    def __enter__(self) -> "LoopFolder":
        self._lock = claim_folder(self.path)
        for path in self.path.glob(".*"):
            if TEMPORARY.fullmatch(path.name) and path.is_file():
                path.unlink(missing_ok=True)
        return self

    def __exit__(self, *_: Any) -> None:
        self._lock.close()

    def agree(self, description: dict[str, Any], free: tuple[str, ...] = ()) -> None:
        """Keep the description of a new loop; refuse to go on with another one's.

        Entries that are ``free`` are kept and not compared.
        """
        path, own = self.path / FILE, json.loads(json.dumps(description))
        if not path.exists():
            self.refuse_others()
            write_json(path, own)
            return
        stored = {n: v for n, v in read_json(path).items() if n not in free}
        own = {n: v for n, v in own.items() if n not in free}
        if stored != own:
            raise InputError(
                f"{self.path} holds a loop with other settings ({first_difference(stored, own)}); "
                "choose another folder, or repeat the loop's own settings to resume it"
            )

    def refuse_others(self) -> None:
        """Raise an error if a new loop would lie among other files."""
        others = [p.name for p in self.path.iterdir() if not p.name.startswith(".")]
        if others:
            raise InputError(
                f"{self.path} holds other files ({others[0]}, ...) and no loop; choose an empty or "
                "new folder"
            )

    def save(self, state: State, seconds: list[float | None], **more: Any) -> None:
        """Keep the state; the times first, for the state says how many of them count."""
        write_json(self.path / TIMES, seconds)
        state.save(self.path, more)

    def load(self) -> tuple[State, list[float | None], dict[str, Any]] | None:
        """Where the loop stands, or None for a new one."""
        found = load_state(self.path)
        if found is None:
            return None
        state, more = found
        kept = _times(self.path / TIMES)
        kept = (kept + [None] * len(state.rounds))[: len(state.rounds)]
        return state, kept, more

    def round(self, number: int, final: bool = False) -> Path:
        """The run of a round."""
        return self.path / "rounds" / (f"{number:03d}-final" if final else f"{number:03d}")

    def members(self, number: int) -> Path:
        """The trained members of a round."""
        return RunFolder(self.round(number)).members

    def drop_before(self, number: int) -> None:
        """Remove the runs of earlier rounds."""
        for earlier in range(number):
            for final in (False, True):
                shutil.rmtree(self.round(earlier, final), ignore_errors=True)


def _times(path: Path) -> list[float | None]:
    """Seconds of rounds: a record of the loop and no part of it, so damage is only said."""
    try:
        content = {"seconds": read_json(path) if path.exists() else []}
        return check_record(content, {"seconds": list_of(maybe(NUMBER))}, path)["seconds"]
    except DamagedFile as error:
        warnings.warn(f"{error}; times of rounds are not known", RuntimeWarning, stacklevel=3)
        return []
