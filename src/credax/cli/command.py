"""The command that runs, for the record. Nothing heavy here: help must answer at once."""

COMMAND: list[str] = []
"""Its words, quoted as a shell wants them."""
