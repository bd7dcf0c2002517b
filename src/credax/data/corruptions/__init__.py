"""Label-preserving corruptions of images at five severities: *generated corruptions*."""

from credax.data.corruptions.apply import corrupt as corrupt
from credax.data.corruptions.apply import corrupted as corrupted
from credax.data.corruptions.apply import white_of as white_of
from credax.data.corruptions.registry import EXTRA as EXTRA
from credax.data.corruptions.registry import MAIN as MAIN
from credax.data.corruptions.registry import SEVERITIES as SEVERITIES
from credax.data.corruptions.registry import SUITES as SUITES
from credax.data.corruptions.registry import Corruption as Corruption
from credax.data.corruptions.registry import describe as describe
from credax.data.corruptions.registry import names as names
