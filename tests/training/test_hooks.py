"""What a method may have beside its three functions: when it is asked for, and with which rows."""

import dataclasses
from dataclasses import dataclass

import jax
import numpy as np
import pytest

import credax as cx
from credax.data import Split
from credax.errors import InputError
from credax.methods.ensembles.single import Single
from credax.posterior import Population
from credax.training.hooks import SetsTraining, TunedOnValidation, settings_of, wants_tuning

PROBLEM = cx.Problem(cx.networks.MLP((4,), outputs=3), cx.Categorical())
TRAINING = cx.Training(epochs=1, batch_size=20)
CALLS = []


@dataclass(frozen=True)
class Shifted(Single):
    """A network whose weights move by one for each row held out, so that tuning is seen."""

    needs_validation: bool = True

    def tuned(self, posterior: Population, validation: Split) -> Population:
        CALLS.append(np.asarray(validation.x))
        variables = jax.tree.map(lambda leaf: leaf + len(validation), posterior.variables)
        return dataclasses.replace(posterior, variables=variables)


@pytest.fixture
def splits(blobs):
    CALLS.clear()
    x, y = blobs
    return Split(x[:50], y[:50]), Split(x[50:], y[50:])


def run(method, splits, **options):
    options = {"training": TRAINING, "progress": False, "key": 1, **options}
    return cx.fit(PROBLEM, method, splits[0], **options)


@pytest.mark.slow
def test_the_posterior_is_tuned_on_the_rows_held_out_and_once(splits, tmp_path):
    plain = run(Single(), splits, validation=splits[1])
    tuned = run(Shifted(), splits, validation=splits[1], folder=tmp_path / "run")
    assert len(CALLS) == 1
    np.testing.assert_array_equal(CALLS[0], splits[1].x)
    read = run(Shifted(), splits, validation=splits[1], folder=tmp_path / "run")
    assert len(CALLS) == 1  # a finished run is only read
    for a, b, c in zip(*(jax.tree.leaves(p.variables) for p in (plain, tuned, read)), strict=True):
        np.testing.assert_allclose(np.asarray(a) + 10, b, rtol=1e-6)
        np.testing.assert_array_equal(b, c)


def test_a_method_that_does_not_ask_is_left_alone(splits):
    run(Shifted(needs_validation=False), splits, validation=splits[1])
    run(Shifted(needs_validation=False), splits)
    assert CALLS == []


@pytest.mark.parametrize("rows", [None, slice(0, 0)])
def test_without_rows_it_is_refused_before_training(splits, rows, monkeypatch):
    monkeypatch.setattr(Shifted, "dynamics", lambda *_: pytest.fail("training has begun"))
    held = None if rows is None else splits[1][rows]
    with pytest.raises(InputError, match=r"Single network is to be tuned on validation rows.*0\.1"):
        run(Shifted(), splits, validation=held)


def test_members_that_cannot_be_scored_still_give_the_rows(splits):
    """Infinite width is not scored along the way; its posterior may be tuned all the same."""

    @dataclass(frozen=True)
    class TunedKernel(cx.NTK):
        needs_validation = True

        def tuned(self, posterior, validation):
            CALLS.append(validation.x)
            return posterior

    run(TunedKernel(members=2), splits, validation=splits[1])
    assert len(CALLS) == 1


def test_which_methods_have_what():
    assert isinstance(cx.HMC(), SetsTraining)
    assert not isinstance(Single(), SetsTraining)
    assert settings_of(Single(), TRAINING, 60) is TRAINING
    assert settings_of(cx.HMC(samples=3), TRAINING, 60).batch_size == 60
    assert isinstance(cx.Laplace(), TunedOnValidation)
    assert not wants_tuning(cx.Laplace())
    assert wants_tuning(cx.Laplace(prior_precision="validation"))
    assert not wants_tuning(cx.SWAG())
