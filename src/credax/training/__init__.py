"""The one training loop and what it needs."""

from typing import TYPE_CHECKING

from credax.lazy import lazy_package

if TYPE_CHECKING:
    from credax.training.config import Training as Training
    from credax.training.dynamics import Descent as Descent
    from credax.training.dynamics import DescentState as DescentState
    from credax.training.dynamics import Dynamics as Dynamics
    from credax.training.loop import MemberDiverged as MemberDiverged
    from credax.training.loop import fit as fit
    from credax.training.members import Map as Map
    from credax.training.members import Shard as Shard
    from credax.training.members import Unroll as Unroll
    from credax.training.members import Vmap as Vmap
    from credax.training.named import named_optimiser as named_optimiser
    from credax.training.observer import Observer as Observer
    from credax.training.partition import place as place
    from credax.training.run import RunFolder as RunFolder

__getattr__, __dir__, __all__ = lazy_package(__name__, __file__)  # pyright: ignore[reportUnsupportedDunderAll]
