"""Results kept by key, the last few only."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any


class Remembered:
    """At most ``most`` results; the one not asked for longest goes first.

    >>> kept = Remembered(most=1)
    >>> [kept(key, lambda: key * 2) for key in (1, 2)], len(kept)
    ([2, 4], 1)
    """

    def __init__(self, most: int = 32):
        self._most = most
        self._results: OrderedDict[Any, Any] = OrderedDict()

    def __call__(self, key: Any, make: Callable[[], Any]) -> Any:
        """The result under a key, made if it is not there; keys without a hash keep nothing."""
        try:
            known = key in self._results
        except TypeError:
            return make()
        result = self._results[key] if known else make()
        self._results[key] = result
        self._results.move_to_end(key)
        while len(self._results) > self._most:
            self._results.popitem(last=False)
        return result

    def __len__(self) -> int:
        return len(self._results)
