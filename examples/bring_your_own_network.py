"""Bring your own network: a Flax NNX module, trained as a deep ensemble.

Needs ``pip install 'credax[flax]'``; run ``python examples/bring_your_own_network.py``. Networks of
Equinox, Flax Linen, Haiku and plain functions come in the same way, through `credax.adapters`.
"""

import jax
import numpy as np
from flax import nnx

import credax as cx


class Classifier(nnx.Module):
    """An ordinary NNX module that has never heard of credax."""

    def __init__(self, rngs: nnx.Rngs):
        self.first = nnx.Linear(2, 32, rngs=rngs)
        self.norm = nnx.BatchNorm(32, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)
        self.last = nnx.Linear(32, 2, rngs=rngs)

    def __call__(self, x):
        """Logits of two classes for a batch of points in the plane."""
        return self.last(self.dropout(jax.nn.relu(self.norm(self.first(x)))))


def main():
    """Train five members, score them, and find the point of the plane they disagree about most."""
    data = cx.data.two_moons(train=400, test=1000)
    network = cx.adapters.from_nnx(Classifier)
    problem = cx.Problem(network, cx.Categorical(), weight_decay=1e-4)
    training = cx.Training(epochs=100, batch_size=50, optimiser="adam", learning_rate=0.01)
    ensemble = cx.fit(
        problem, cx.DeepEnsemble(members=5), data.train, key=0, training=training, progress=False
    )

    for name, value in cx.evaluate(ensemble.predict(data.test.x), data.test.y).items():
        print(f"{name:>18}  {value:.4f}")

    axis = np.linspace(-2.5, 3.5, 61, dtype=np.float32)
    plane = np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2)
    disagreement = ensemble.predict(plane).epistemic
    most = int(disagreement.argmax())
    print(f"members disagree most at {plane[most]}, by {disagreement[most]:.4f} nats;")
    for member in ensemble.indices:
        probs = ensemble.member(member).predict(plane[most : most + 1]).probs[0]
        print(f"  member {member} gives class 1 probability {probs[1]:.3f}")


if __name__ == "__main__":
    main()
