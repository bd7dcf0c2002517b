"""Dense networks that start as the published toy network does."""

from dataclasses import dataclass
from typing import ClassVar

import jax

from credax.network import Network, Variables


@jax.tree_util.register_static
@dataclass(frozen=True)
class UniformStart:
    """A network of dense layers whose kernels and biases start in ``±1/sqrt(fan_in)``, uniformly.

    >>> from credax.networks import MLP
    >>> network = UniformStart(MLP((3,), outputs=1))
    >>> kernel = network.init(jax.random.key(0), jax.numpy.ones((1, 4))).params["0_dense"]["kernel"]
    >>> bool(abs(kernel).max() <= 0.5)
    True
    """

    network: Network
    kind: ClassVar[str] = "uniform"

    def init(self, key, x) -> Variables:
        """Every layer drawn anew from its own fold of the key."""
        variables = self.network.init(key, x)
        params = {}
        for number, (name, layer) in enumerate(sorted(variables.params.items())):
            bound = layer["kernel"].shape[0] ** -0.5
            keys = jax.random.split(jax.random.fold_in(key, number), len(layer))
            params[name] = {
                part: jax.random.uniform(k, leaf.shape, leaf.dtype, -bound, bound)
                for k, (part, leaf) in zip(keys, sorted(layer.items()), strict=True)
            }
        return Variables(params, variables.state)

    def apply(self, variables, x, *, key=None, train=False):
        """The network itself."""
        return self.network.apply(variables, x, key=key, train=train)
