import jax.numpy as jnp
import numpy as np
import pytest
from adapter_networks import LIBRARIES, layout


@pytest.fixture(params=LIBRARIES)
def mlp(request):
    return layout(request.param)


@pytest.fixture
def numbers():
    rng = np.random.default_rng(0)
    shapes = [(4, 8), (8,), (8, 3), (3,)]
    return [jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in shapes]


@pytest.fixture
def x():
    return jnp.asarray(np.random.default_rng(1).normal(size=(7, 4)) * 2 + 1, jnp.float32)
