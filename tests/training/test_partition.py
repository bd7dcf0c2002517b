"""Members whose arrays are divided over a model axis are those of one device."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credax as cx
from credax.data import Split
from credax.training.engine import build_program
from credax.training.partition import Partition, place
from credax.training.program import Rows, advance, initialise
from credax.training.supply import DeviceSupply, narrow

RULES = {
    "0_dense/kernel": (None, "model"),
    "0_dense/bias": ("model",),
    "1_dense/kernel": ("model", None),
}
TRAINING = cx.Training(epochs=2, batch_size=20, learning_rate=0.05, optimiser="adam")


@pytest.fixture
def problem():
    return cx.Problem(cx.networks.MLP((16,), outputs=3), cx.Categorical(), weight_decay=1e-3)


def mesh(shape=(2, 1, 4), axes=("members", "data", "model")):
    return jax.make_mesh(shape, axes)


def fitted(problem, blobs, **options):
    return cx.fit(problem, cx.DeepEnsemble(3), blobs, training=TRAINING, progress=False, **options)


def test_divided_members_are_those_of_one_device(problem, blobs):
    one = fitted(problem, blobs)
    many = fitted(problem, blobs, mesh=mesh(), partition=RULES)
    assert many.num_members == 3
    for a, b in zip(jax.tree.leaves(one.variables), jax.tree.leaves(many.variables), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)
    placed = place(many, jax.make_mesh((1, 1, 4), ("members", "data", "model")), RULES)
    kernel = placed.variables.params["0_dense"]["kernel"]
    assert {shard.data.shape for shard in kernel.addressable_shards} == {(3, 2, 4)}
    x = blobs[0]
    np.testing.assert_allclose(
        np.asarray(placed.predict(x).log_probs), np.asarray(one.predict(x).log_probs), atol=1e-4
    )


def test_in_training_no_device_has_a_whole_member(problem, blobs):
    """Parameters and both moments of adam: 3 members on 2 rows of devices are padded to 4."""
    split, shape = Split(*blobs), (4, 2, 16)
    dynamics = cx.DeepEnsemble(3).dynamics(problem, split, TRAINING)
    options = (TRAINING, split, jax.random.key(0), mesh(), RULES)
    program = build_program(problem, dynamics, *options)
    carry = initialise(program, Rows(split.x[:1], narrow(split.y[:1])))
    supply = DeviceSupply(split, program)
    carry = advance((program, supply(program, 0), jnp.int32(0), jnp.int32(3), None), carry)
    kernels = [leaf for leaf in jax.tree.leaves(carry.states) if leaf.shape == shape]
    assert len(kernels) == 3
    for kernel in kernels:
        assert {shard.data.shape for shard in kernel.addressable_shards} == {(2, 2, 4)}


def test_states_of_the_optimiser_are_divided_as_their_arrays_are():
    arrays = {"kernel": np.zeros((3, 2, 16)), "bias": np.zeros((3, 16))}
    specs = Partition.of(RULES).specs({"optimiser": {"mu": {"0_dense": arrays}}})
    own = specs["optimiser"]["mu"]["0_dense"]
    assert own["kernel"] == jax.sharding.PartitionSpec("members", None, "model")
    assert own["bias"] == jax.sharding.PartitionSpec("members", "model")


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ({"3_dense": ("model",)}, "no array has such a name; names are 0_dense"),
        ({"0_dense/kernel": ("model",)}, "0_dense/kernel has shape .2, 16."),
        ({"0_dense/kernel": ("model", None)}, "an axis of 2 .* 4 devices"),
        ({"0_dense/kernel": (None, "data")}, "over 'data'; give 'model'"),
    ],
)
def test_rules_that_do_not_fit(problem, blobs, refused, rules, words):
    refused(lambda: fitted(problem, blobs, mesh=mesh(), partition=rules), words)


def test_rules_need_a_mesh_with_an_axis_for_them(problem, blobs, refused):
    refused(lambda: fitted(problem, blobs, partition=RULES), "partition is given without a mesh")
    plain = mesh((4, 2), ("members", "data"))
    refused(lambda: fitted(problem, blobs, mesh=plain, partition=RULES), "give it an axis 'model'")
