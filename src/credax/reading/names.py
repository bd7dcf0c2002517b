"""Names that become paths: a plain file name, never a way out of the folder."""

from credax.errors import InputError

LONGEST_NAME = 100
_FORBIDDEN = set('/\\:*?"<>|')


def check_name(name: str, option: str = "name") -> str:
    """The name itself if it is the name of a file in its folder, else an error.

    >>> check_name("temperature")
    'temperature'
    """
    odd = sorted(_FORBIDDEN & set(name)) or [c for c in name if not c.isprintable()]
    if odd:
        reason = f"it has the character {odd[0]!r}"
    elif name.startswith((".", "-", " ")) or name.endswith((".", " ")) or not name:
        reason = "it is empty, or begins or ends with a dot, a dash or a space"
    elif len(name.encode("utf-8", "replace")) > LONGEST_NAME:
        reason = f"it is longer than {LONGEST_NAME} bytes"
    else:
        return name
    raise InputError(
        f"{option} is {name[:LONGEST_NAME]!r}; {reason}: give the plain name of a file, such as "
        "'second-try'"
    )
