"""What the weights hide: the structure of a network, its symmetries, and what they leave alone."""

from credax.structure.elements import compose as compose
from credax.structure.elements import inverse as inverse
from credax.structure.groups import Axis as Axis
from credax.structure.groups import Contraction as Contraction
from credax.structure.groups import Group as Group
from credax.structure.groups import Structure as Structure
from credax.structure.rules import register_rule as register_rule
from credax.structure.symmetry import Element as Element
from credax.structure.symmetry import apply as apply
from credax.structure.symmetry import identity as identity
from credax.structure.symmetry import random as random
from credax.structure.trace import trace as trace
from credax.structure.values import StructureError as StructureError
from credax.structure.verify import SymmetryViolation as SymmetryViolation
