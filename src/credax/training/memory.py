"""How much memory a compiled program takes, whatever the process took before it."""

from typing import Any


def program_bytes(jitted: Any, *arguments: Any) -> int | None:
    """Arguments, outputs and temporary buffers of a compiled program, as the compiler states them.

    The program has been called with such arguments before, so nothing is compiled here. What a
    method computes after the training, such as Laplace's curvature, is another program.
    """
    analysis = jitted.lower(*arguments).compile().compiled.memory_analysis()
    if analysis is None:
        return None
    names = ("argument_size_in_bytes", "output_size_in_bytes", "temp_size_in_bytes")
    return sum(getattr(analysis, name) for name in names) - analysis.alias_size_in_bytes
