"""One row a method: the record the conformance tests run. A method without a row fails them."""

from dataclasses import dataclass
from typing import Any

from credax.methods.deep_ensemble import DeepEnsemble
from credax.methods.single import Single


@dataclass(frozen=True)
class Row:
    """A small record of a method, and what its members promise."""

    record: Any
    larger: Any = None
    """The same method with more members, whose first members must equal the record's own."""


ROWS = {
    "single": Row(Single(), DeepEnsemble(members=2)),
    "deep-ensemble": Row(DeepEnsemble(members=4), DeepEnsemble(members=6)),
}
