"""How a loop spends its labels: numbers that are checked before anything is trained."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from credax.active.fine_tuning import Continue
from credax.description import describe, shortened
from credax.errors import InputError


@dataclass(frozen=True)
class Settings:
    """The arguments of `credax.active.run` that are numbers, and how rounds go on."""

    query: int
    rounds: int
    initial: Any
    retrain: Continue | None
    scoring_pool: int | None
    chunk: int
    steps: int | None = None

    @property
    def first(self) -> int:
        """Labels before the first round."""
        whole = isinstance(self.initial, int | np.integer)
        return int(self.initial) if whole else len(np.atleast_1d(self.initial))

    def check(self, pool: int) -> None:
        """Raise an error if a pool of so many rows cannot be bought from so."""
        for name in ("query", "rounds", "scoring_pool", "chunk", "steps"):
            check_whole(name, getattr(self, name), optional=name in ("scoring_pool", "steps"))
        if self.first < 1:
            raise InputError(f"initial is {self.initial}; a first training needs at least 1 label")
        wanted = self.first + self.query * self.rounds
        if wanted > pool:
            raise InputError(
                f"initial is {self.first} and query is {self.query} in each of {self.rounds} "
                f"rounds, together {wanted} labels, and the pool has {pool} rows; ask for fewer"
            )
        if self.scoring_pool is not None and self.scoring_pool < self.query:
            raise InputError(
                f"scoring_pool is {self.scoring_pool} and query is {self.query}; score at least as "
                "many rows as are bought"
            )

    def description(self) -> dict[str, Any]:
        """As plain data; how many rows are on the device at once changes no number."""
        retrain = "scratch" if self.retrain is None else describe(self.retrain, "retrain")
        return {
            "query": self.query,
            "rounds": self.rounds,
            "initial": shortened(describe(self.initial, "initial")),
            "retrain": retrain,
            "scoring_pool": self.scoring_pool,
            "steps": self.steps,
        }


def check_whole(name: str, value: Any, optional: bool = False) -> None:
    """Raise an error if a setting is not a whole number from 1, or None where it may be."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= 1
    if not whole and not (value is None and optional):
        raise InputError(f"{name} is {value}; give a whole number from 1")
