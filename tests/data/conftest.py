import pooch
import pytest

from credax.data.places import ENVIRONMENT


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path_factory):
    """No test sees the user's own data folder or asks the network for anything."""
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path_factory.mktemp("no_data")))

    def refuse(*_args, **_kwargs):
        raise AssertionError("a test tried to download")

    monkeypatch.setattr(pooch, "retrieve", refuse)
