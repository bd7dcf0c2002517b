"""Data: published sets by name, a user's own files, and toys with a known truth."""

from credax.data import corruptions as corruptions
from credax.data import toys as toys
from credax.data.corruptions import corrupt as corrupt
from credax.data.corruptions import corrupted as corrupted
from credax.data.dataset import Dataset as Dataset
from credax.data.dataset import Split as Split
from credax.data.dataset import Task as Task
from credax.data.places import root_folder as root_folder
from credax.data.registry import describe as describe
from credax.data.registry import load as load
from credax.data.registry import locate as locate
from credax.data.registry import names as names
from credax.data.registry import sources as sources
from credax.data.shifted import Shifted as Shifted
from credax.data.shifted import load_shifted as load_shifted
from credax.data.shifted import shifted_names as shifted_names
from credax.data.source import Source as Source
from credax.data.tabular import from_frame as from_frame
from credax.data.toys import classification_2d as classification_2d
from credax.data.toys import cubic as cubic
from credax.data.toys import cubic_gap as cubic_gap
from credax.data.toys import regression_1d as regression_1d
from credax.data.toys import sine as sine
from credax.data.toys import sinusoid_gap as sinusoid_gap
from credax.data.toys import spirals as spirals
from credax.data.toys import two_moons as two_moons
