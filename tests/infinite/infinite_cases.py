"""Networks of the golden files, built from the names of their cases."""

import re
from pathlib import Path

import numpy as np

from credax import infinite

GOLDEN = Path(__file__).parent.parent / "golden"
SCALES = {"W1.414_b0.1": (2**0.5, 0.1), "W1_b0": (1.0, 0.0), "W1.5_b0.3": (1.5, 0.3)}
SCALES |= {"W1.2_b0": (1.2, 0.0)}
ACTIVATIONS = {
    "relu": infinite.ReLU(),
    "erf": infinite.Erf(),
    "gelu": infinite.GELU(),
    "sin": infinite.Sine(),
    "cos": infinite.Cosine(),
    "leakyrelu0.1": infinite.LeakyReLU(0.1),
    "abs": infinite.Abs(),
    "identity": infinite.Identity(),
    "rbf1": infinite.RadialBasis(1.0),
    "sigmoid_like": infinite.Erf(0.5, 1 / 2.4020563531719796, 0.5),
    "sign": infinite.Sign(),
}


def load(name):
    return dict(np.load(GOLDEN / f"ntk_{name}.npz"))


def cases(arrays):
    """The names before ``/nngp_11``."""
    return sorted({key.removesuffix("/nngp_11") for key in arrays if key.endswith("/nngp_11")})


def dense(activation, depth, weight_std, bias_std, parameterisation="ntk", width=16):
    layer = lambda n: infinite.InfiniteDense(n, weight_std, bias_std, parameterisation)  # noqa: E731
    hidden = [layer(width), ACTIVATIONS[activation]] * depth
    return infinite.serial(*hidden, layer(1))


def dense_case(name):
    parameterisation, kind, *rest = name.split("/")
    layer = lambda n: infinite.InfiniteDense(n, 1.3, 0.2, parameterisation)  # noqa: E731
    relu, erf = infinite.ReLU(), infinite.Erf()
    if kind == "residual":
        block = infinite.residual(relu, layer(16), erf, layer(16))
        return infinite.serial(layer(16), block, relu, layer(1))
    if kind == "layernorm":
        norm = infinite.LayerNorm(1e-12)
        return infinite.serial(layer(16), norm, relu, layer(16), norm, erf, layer(1))
    depth, scales = rest
    return dense(kind, int(depth.removeprefix("depth")), *SCALES[scales], parameterisation)


def conv_case(name):
    parameterisation, network, scales = name.split("/")
    weight_std, bias_std = SCALES[scales]
    padding = {"SAME": "zero", "CIRCULAR": "circular", "VALID": "valid"}.get(network.split("_")[0])

    def conv(window=(3, 3), stride=1):
        return infinite.InfiniteConv(
            8, window, stride, padding, weight_std, bias_std, parameterisation
        )

    def last(features=1):
        return infinite.InfiniteDense(features, weight_std, bias_std, parameterisation)

    if network == "flatten_dense_relu_dense":
        return infinite.serial(infinite.Flatten(), last(8), infinite.ReLU(), last())
    layers = []
    words = (
        network.split("_", 1)[1].replace("conv_2x3", "conv2x3").replace("conv_stride2", "convs2")
    )
    words = words.replace("layernorm_channel", "normchannel").replace("layernorm_all", "normall")
    for word in words.split("_"):
        if repeated := re.fullmatch(r"conv([12])", word):
            count = int(repeated[1])
            activation = ACTIVATIONS[words.split("_")[1]]
            layers += [conv(), activation] * (count - 1) + [conv()]
        elif word == "residual":
            block = infinite.residual(infinite.ReLU(), conv())
            layers += [conv(), block, infinite.ReLU()]
        elif word.startswith("norm"):
            over = {"channel": "channels", "all": "all"}[word.removeprefix("norm")]
            layers += [conv(), infinite.LayerNorm(1e-12, over)]
        else:
            layers.append(
                {
                    "conv": conv(),
                    "conv2x3": conv((2, 3)),
                    "convs2": conv(stride=2),
                    "avgpool2": infinite.AveragePool(),
                    "avgpool3s1same": infinite.AveragePool((3, 3), 1, "zero"),
                    "flatten": infinite.Flatten(),
                    "gap": infinite.GlobalAveragePool(),
                    **ACTIVATIONS,
                }[word]
            )
    return infinite.serial(*layers, last())
