"""``credax show-structure NETWORK``: groups of hidden units and their symmetries."""

import json
from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from credax.cli.config import read_arguments
from credax.errors import InputError


@dataclass(frozen=True)
class ShowStructure:
    """The groups of hidden units of a network, read off its computation."""

    network: Annotated[str, tyro.conf.Positional]
    """Network by name (credax list networks)."""
    input: str | None = None
    """Shape of one input, such as 32,32,3; by default that of the data set."""
    data: str = "digits"
    """Data set that the shape of inputs comes from."""
    outputs: int = 10
    """How many outputs."""
    network_options: tuple[str, ...] = ()
    """Options of the network, such as 'hidden=(50,50)' norm=frn."""
    statistics: Literal["consistent", "held", "free"] = "consistent"
    """Running statistics are the rescaled network's, stay as they are, or are on their own."""
    arrays: bool = True
    """Print the axes of every array too."""
    verify: bool = True
    """Check in float64 that a random symmetry leaves outputs alone (slow for large networks)."""
    json: bool = False
    """Print as JSON."""


def run(arguments: list[str]) -> None:
    """Trace the network on shapes alone and print what was found."""
    config = read_arguments(ShowStructure, arguments, "credax show-structure")
    import jax

    from credax import networks
    from credax.cli.job import network_options
    from credax.structure import trace, tree
    from credax.structure.show import summary

    options = network_options(config.network_options)
    network = networks.build(config.network, config.outputs, **options)
    x = jax.ShapeDtypeStruct((4, *_input_shape(config)), "float32")
    shapes = jax.eval_shape(network.init, jax.random.key(0), x)
    structure = trace(network, shapes, x, statistics=config.statistics, verify=config.verify)
    if config.json:
        print(json.dumps(summary(structure), indent=2))
        return
    print(tree(structure, arrays=config.arrays))


def _input_shape(config: ShowStructure) -> tuple[int, ...]:
    if config.input is None:
        from credax import data

        return tuple(data.describe(config.data).input_shape)
    try:
        shape = tuple(int(size) for size in config.input.split(","))
    except ValueError:
        shape = ()
    if not shape or min(shape) < 1:
        raise InputError(f"input is {config.input!r}; give sizes such as 32,32,3")
    return shape
