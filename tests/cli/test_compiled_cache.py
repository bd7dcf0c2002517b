"""Compiled programs kept between commands: bounded, and off where one wants it."""

import os
from importlib import import_module

cli = import_module("credax.cli.main")  # the package has a function of that name


def test_the_oldest_programs_go_first(tmp_path, monkeypatch):
    monkeypatch.setattr(cli, "MOST_COMPILED", 25)
    for age, name in enumerate(("new", "middle", "old")):
        (tmp_path / name).write_bytes(b"0123456789")
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    cli._bound(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["middle", "new"]
    cli._bound(tmp_path / "absent")


def test_the_switch_leaves_jax_alone(monkeypatch):
    for name in ("JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CREDAX_COMPILED", "off")
    cli._keep_compiled_programs()
    assert "JAX_COMPILATION_CACHE_DIR" not in os.environ
    monkeypatch.setattr(cli.atexit, "register", lambda *_: None)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    monkeypatch.setenv("CREDAX_COMPILED", "")
    cli._keep_compiled_programs()
    assert os.environ.pop("JAX_COMPILATION_CACHE_DIR").startswith("/somewhere")
    assert os.environ.pop("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS") == "0"
