"""Groups, what they act on, and what symmetry costs: orbits, augmentation, averaged kernels."""

from typing import TYPE_CHECKING

from credax.lazy import lazy_package

if TYPE_CHECKING:
    from credax.groups.action import Defects as Defects
    from credax.groups.action import Gather as Gather
    from credax.groups.action import Matrices as Matrices
    from credax.groups.action import Representation as Representation
    from credax.groups.action import Trivial as Trivial
    from credax.groups.action import conjugate as conjugate
    from credax.groups.action import defects as defects
    from credax.groups.action import direct_sum as direct_sum
    from credax.groups.action import every as every
    from credax.groups.action import matrix as matrix
    from credax.groups.action import plane_rotations as plane_rotations
    from credax.groups.action import sign_flip as sign_flip
    from credax.groups.action import vectors as vectors
    from credax.groups.averaged import GroupAveraged as GroupAveraged
    from credax.groups.group import Group as Group
    from credax.groups.group import covering_radius as covering_radius
    from credax.groups.group import generated_matrices as generated_matrices
    from credax.groups.group import icosahedral_matrices as icosahedral_matrices
    from credax.groups.group import irreps as irreps
    from credax.groups.group import octahedral_matrices as octahedral_matrices
    from credax.groups.group import random_rotations as random_rotations
    from credax.groups.group import rotation_about as rotation_about
    from credax.groups.harmonics import DiscHarmonics as DiscHarmonics
    from credax.groups.networks import GroupCNN as GroupCNN
    from credax.groups.networks import GroupConv as GroupConv
    from credax.groups.orbits import Augmented as Augmented
    from credax.groups.orbits import Orbit as Orbit
    from credax.groups.orbits import OrbitBatch as OrbitBatch
    from credax.groups.orbits import RandomElement as RandomElement
    from credax.groups.orbits import augment as augment
    from credax.groups.orbits import full_orbit as full_orbit
    from credax.groups.orbits import orbit as orbit
    from credax.groups.pictures import picture_rotations as picture_rotations
    from credax.groups.pictures import quarter_turns as quarter_turns
    from credax.groups.pictures import shifts as shifts
    from credax.groups.pictures import soft_mask as soft_mask
    from credax.groups.pictures import turns_and_shifts as turns_and_shifts
    from credax.groups.symmetrise import Canonicalised as Canonicalised
    from credax.groups.symmetrise import GroupAverage as GroupAverage
    from credax.groups.symmetrise import pipeline_violations as pipeline_violations
    from credax.groups.symmetrise import twin as twin
    from credax.groups.symmetrise import twin_ensemble as twin_ensemble

__getattr__, __dir__, __all__ = lazy_package(__name__, __file__)  # pyright: ignore[reportUnsupportedDunderAll]
