"""The small network in PyTorch, plain and with layers of torch-uncertainty 0.13.

Rows for ``efficient_ensembles.py``: the same widths, batch, optimiser and number of members.
"""

import importlib.util
import sys
import types

import torch
from torch import nn


def _layers():
    """Its layers alone: the package's own start also needs lightning and torchvision."""
    found = importlib.util.find_spec("torch_uncertainty")
    if found is None:
        raise SystemExit("torch-uncertainty is not installed: pip install 'credax[bench]'")
    package = types.ModuleType("torch_uncertainty")
    package.__path__ = list(found.submodule_search_locations)
    sys.modules["torch_uncertainty"] = package
    return importlib.import_module("torch_uncertainty.layers")


LAYERS = _layers()
BatchConv2d, BatchLinear = LAYERS.BatchConv2d, LAYERS.BatchLinear
MaskedConv2d, MaskedLinear = LAYERS.MaskedConv2d, LAYERS.MaskedLinear
PackedConv2d, PackedLinear = LAYERS.PackedConv2d, LAYERS.PackedLinear
MEMBERS, INPUTS, BATCH, CLASSES = 4, 3, 128, 10
SCALE, ALPHA = 2.0, 2


def network(convolutions, dense) -> nn.Sequential:
    """Two convolutions and two dense layers, each made by a function of its place."""
    first, second = convolutions
    hidden, head = dense
    features = [first, nn.ReLU(), nn.MaxPool2d(2), second, nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*features, nn.Flatten(), hidden, nn.ReLU(), head)


def plain(inputs: int = 1, heads: int = 1) -> nn.Sequential:
    return network(
        (nn.Conv2d(inputs, 32, 3, padding=1), nn.Conv2d(32, 64, 3, padding=1)),
        (nn.Linear(3136, 128), nn.Linear(128, heads * CLASSES)),
    )


def batch_ensemble() -> nn.Sequential:
    return network(
        (
            BatchConv2d(1, 32, 3, MEMBERS, padding=1),
            BatchConv2d(32, 64, 3, MEMBERS, padding=1),
        ),
        (BatchLinear(3136, 128, MEMBERS), BatchLinear(128, CLASSES, MEMBERS)),
    )


def masksembles() -> nn.Sequential:
    # Its masks need ten channels, so the first convolution is a plain one.
    return network(
        (
            nn.Conv2d(1, 32, 3, padding=1),
            MaskedConv2d(32, 64, 3, MEMBERS, SCALE, padding=1),
        ),
        (MaskedLinear(3136, 128, MEMBERS, SCALE), MaskedLinear(128, CLASSES, MEMBERS, SCALE)),
    )


def packed() -> nn.Sequential:
    size = {"alpha": ALPHA, "num_estimators": MEMBERS}
    return network(
        (
            PackedConv2d(1, 32, 3, padding=1, first=True, **size),
            PackedConv2d(32, 64, 3, padding=1, **size),
        ),
        (PackedLinear(3136, 128, **size), PackedLinear(128, CLASSES, last=True, **size)),
    )


class Torch:
    """A network's step on batches of 128 and its prediction, members as its layers have them."""

    def __init__(self, name: str, ours: str, model: nn.Module, layout: str, x, y, steps: int):
        self.name, self.ours, self.layout, self.steps = name, ours, layout, steps
        self.model = model
        self.x = torch.tensor(x).permute(0, 3, 1, 2).contiguous()
        self.y = torch.tensor(y).long()
        trained = [p for p in model.parameters() if p.requires_grad]
        self.optimiser = torch.optim.SGD(trained, lr=0.01, momentum=0.9, nesterov=True)

    def batch(self, number: int):
        rows = slice(BATCH * number % len(self.x), BATCH * number % len(self.x) + BATCH)
        x, y = self.x[rows], self.y[rows]
        if self.layout == "packed":
            # Rows of a packed output: member by member.
            return x, y.repeat(MEMBERS)
        if self.layout == "mimo":
            orders = [torch.randperm(BATCH) for _ in range(INPUTS)]
            wide = torch.cat([x[order] for order in orders], dim=1)
            return wide, torch.stack([y[order] for order in orders], dim=1).reshape(-1)
        return x, y

    def step(self) -> None:
        self.model.train()
        for number in range(self.steps):
            x, y = self.batch(number)
            self.optimiser.zero_grad()
            outputs = self.model(x).reshape(-1, CLASSES)
            loss = nn.functional.cross_entropy(outputs, y)
            # A sum over heads, and over packed members: each follows its own gradient.
            loss = loss * {"packed": MEMBERS, "mimo": INPUTS}.get(self.layout, 1)
            loss.backward()
            self.optimiser.step()

    def predict(self):
        x = self.x[:BATCH]
        if self.layout == "split":
            x = x.repeat(MEMBERS, 1, 1, 1)
        elif self.layout == "mimo":
            x = x.repeat(1, INPUTS, 1, 1)
        self.model.eval()
        with torch.inference_mode():
            outputs = self.model(x).reshape(-1, CLASSES)
            return torch.log_softmax(outputs, dim=-1).numpy()


def rows(x, y, steps: int) -> list[Torch]:
    """One network, and the four methods that torch-uncertainty has layers for."""
    cases = (
        ("PyTorch", "single network", plain(), "plain"),
        ("tu BatchEnsemble", "BatchEnsemble", batch_ensemble(), "split"),
        ("tu Masksembles", "Masksembles", masksembles(), "split"),
        ("tu Packed", "Packed-Ensemble", packed(), "packed"),
        ("tu MIMO", "MIMO", plain(INPUTS, INPUTS), "mimo"),
    )
    return [Torch(*case, x, y, steps) for case in cases]
