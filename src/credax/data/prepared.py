"""What every record of how raw rows became inputs can do."""

from typing import Any, Protocol


class Preparation(Protocol):
    """What turns new rows of a user's own kind into inputs; kept in a run as plain data."""

    def to_json(self) -> dict[str, Any]:
        """As plain data, with its ``kind``."""
        ...

    def described(self) -> list[tuple[str, str, str, str]]:
        """What was decided, for a table: name, kind, what it becomes, what else is to be known."""
        ...
