"""Populations on disk: thousands of checkpoints trained here or published by others.

Names are loaded when first used.
"""

from typing import TYPE_CHECKING

from credax.lazy import lazy_package

if TYPE_CHECKING:
    from credax.zoo.analysis import Analysis as Analysis
    from credax.zoo.analysis import analyse as analyse
    from credax.zoo.checkpoints import Checkpoint as Checkpoint
    from credax.zoo.checkpoints import read_checkpoints as read_checkpoints
    from credax.zoo.importing import export_checkpoints as export_checkpoints
    from credax.zoo.importing import import_checkpoints as import_checkpoints
    from credax.zoo.manifest import Manifest as Manifest
    from credax.zoo.names import MAPS as MAPS
    from credax.zoo.names import NameMap as NameMap
    from credax.zoo.reader import DamagedMember as DamagedMember
    from credax.zoo.reader import Zoo as Zoo
    from credax.zoo.training import member_scores as member_scores
    from credax.zoo.training import train_zoo as train_zoo
    from credax.zoo.writer import ZooWriter as ZooWriter

__getattr__, __dir__, __all__ = lazy_package(__name__, __file__)  # pyright: ignore[reportUnsupportedDunderAll]
