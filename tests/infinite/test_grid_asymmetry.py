"""What lies askew on pictures is measured and named; what does not is rounding."""

import pytest

from credax import infinite
from credax.errors import InputError

RELU = infinite.ReLU()


def net(*layers, head=None):
    return infinite.serial(
        *layers, RELU, head or infinite.Flatten(), infinite.InfiniteDense(1, 1.4, 0.1)
    )


def conv(window=3, stride=1, padding="zero", support=None):
    return infinite.InfiniteConv(4, (window, window), stride, padding, 1.4, 0.1, support=support)


CROSS = ((0, 1, 0), (1, 1, 1), (0, 1, 0))
CORNER = ((1, 1, 0), (1, 1, 0), (0, 0, 0))


@pytest.mark.parametrize(
    ("network", "size"),
    [
        (net(conv()), 5),
        (net(conv(2, padding="valid")), 5),
        (net(conv(stride=2)), 5),
        (net(conv(padding="circular", support=CROSS)), 4),
        (net(conv(), RELU, infinite.AveragePool(), conv()), 6),
        (net(conv(2, padding="circular"), head=infinite.GlobalAveragePool()), 4),
        (net(conv(), infinite.residual(RELU, conv())), 4),
    ],
)
def test_symmetric_lattices(network, size):
    found = infinite.grid_asymmetry(network, size)
    assert found.largest < 1e-13
    assert found.reasons == ()


@pytest.mark.parametrize(
    ("network", "size", "words"),
    [
        (net(conv(2)), 5, "0 positions added before and 1 after"),
        (net(conv(stride=2)), 6, "0 positions added before and 1 after"),
        (net(conv(stride=2, padding="valid")), 6, "leaves 1 of 6 positions"),
        (net(conv(support=CORNER)), 5, "symmetric mask"),
        (net(infinite.InfiniteConv(4, (1, 3), 1, "zero", 1.4, 0.1)), 5, "square one"),
        (net(conv(), RELU, infinite.AveragePool(), conv()), 5, "AveragePool leaves 1 of 5"),
        (net(conv(), infinite.residual(RELU, conv(2))), 4, "0 positions added before"),
    ],
)
def test_what_lies_askew_is_named(network, size, words):
    found = infinite.grid_asymmetry(network, size)
    assert found.largest > 1e-3
    assert len(found.reasons) == 1
    assert words in found.reasons[0]


def test_sizes_that_cannot_be():
    with pytest.raises(InputError, match="size is 0"):
        infinite.grid_asymmetry(net(conv()), 0)
