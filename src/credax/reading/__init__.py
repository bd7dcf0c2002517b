"""All reading of files: regular files only, sizes bounded, contents checked.

Every reader of credax uses this package. A path that is no regular file is an `InputError`,
content that is not what it should be a `DamagedFile`: one sentence, never a traceback. The bounds
are the constants named ``MOST_...``; memory is bounded by them or by the size of the file.
Names are loaded when first used: the command line reads its flags before numpy is there.
"""

from typing import TYPE_CHECKING

from credax.lazy import lazy_package

if TYPE_CHECKING:
    from credax.reading.archives import expand as expand
    from credax.reading.archives import tar_members as tar_members
    from credax.reading.archives import zip_members as zip_members
    from credax.reading.arrays import check_numbers as check_numbers
    from credax.reading.arrays import not_finite as not_finite
    from credax.reading.arrays import read_npy as read_npy
    from credax.reading.arrays import read_npz as read_npz
    from credax.reading.jsons import parse_json as parse_json
    from credax.reading.jsons import read_json as read_json
    from credax.reading.jsons import read_json_lines as read_json_lines
    from credax.reading.names import check_name as check_name
    from credax.reading.records import check_record as check_record
    from credax.reading.regular import damage as damage
    from credax.reading.regular import first_line as first_line
    from credax.reading.regular import open_regular as open_regular
    from credax.reading.regular import read_bytes as read_bytes
    from credax.reading.regular import read_text as read_text
    from credax.reading.settings import check_settings as check_settings

__getattr__, __dir__, __all__ = lazy_package(__name__, __file__)  # pyright: ignore[reportUnsupportedDunderAll]
