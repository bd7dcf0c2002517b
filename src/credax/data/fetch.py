"""Downloading published files, whole or not at all: the only code here that uses the network."""

from pathlib import Path
from typing import Any

from credax.data.checks import first_line
from credax.data.source import Download, Source

CONNECT_SECONDS = 10


def download(source: Source, root: Path) -> None:
    """Bring the files of ``source`` that are missing under ``root``, verified by checksum.

    Each file is written under a temporary name in the same folder and renamed once its checksum
    is right; a file that is already there is never replaced. Any failure (no network, a wrong
    checksum, a folder that cannot be written) is the one `InputError` that says which file to put
    where.
    """
    if not source.downloads:
        raise source.missing(root)
    try:
        import pooch  # noqa: F401
    except ImportError:
        raise source.missing(root, "run: pip install 'credax[data]' to download it") from None
    for item in source.downloads:
        if not (root / item.file).exists():
            reason = _retrieve(item, root)
            if reason:
                raise source.missing(root, reason)


def _retrieve(item: Download, root: Path) -> str:
    import pooch

    target = root / item.file
    # Any: pooch's own downloader does not satisfy the protocol it declares.
    downloader: Any = pooch.HTTPDownloader(timeout=CONNECT_SECONDS)
    reason = ""
    for address in item.addresses:
        try:
            pooch.retrieve(address, item.checksum, target.name, target.parent, None, downloader)
            return ""
        # requests' errors are OSErrors; pooch raises ValueError for a wrong checksum.
        except (OSError, ValueError) as error:
            reason = f"{item.file}: {first_line(error)}"
    return reason
