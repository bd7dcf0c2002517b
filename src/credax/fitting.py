"""`credax.fit`: the training loop, with methods by name."""

from functools import wraps
from typing import Any

from credax import methods
from credax.training import loop


@wraps(loop.fit)
def fit(problem, method: Any, *arguments: Any, **options: Any):
    """`credax.training.fit`; a method may be given by its name, with its default settings."""
    record = methods.get(method)() if isinstance(method, str) else method
    return loop.fit(problem, record, *arguments, **options)
