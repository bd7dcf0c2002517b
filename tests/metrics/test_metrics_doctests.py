"""The examples in the docstrings; a metric's own function is wrapped, which doctest would skip."""

import doctest
import importlib
import inspect
import pkgutil

import jax.numpy as jnp
import numpy as np
import pytest

import credax.metrics
from credax.prediction import ClassPrediction, GaussianPrediction

MODULES = sorted(module.name for module in pkgutil.iter_modules(credax.metrics.__path__))


def examples(module):
    for name, value in vars(module).items():
        if getattr(value, "__module__", None) != module.__name__:
            continue
        if inspect.isfunction(value) or inspect.isclass(value):
            yield name, inspect.getdoc(value) or ""


@pytest.mark.parametrize("name", MODULES)
def test_examples_print_what_they_say(name):
    module = importlib.import_module(f"credax.metrics.{name}")
    names = {"jnp": jnp, "np": np}
    names |= {"ClassPrediction": ClassPrediction, "GaussianPrediction": GaussianPrediction}
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(verbose=False)
    for title, text in examples(module):
        test = parser.get_doctest(text, names | vars(module), f"{name}.{title}", module.__file__, 0)
        failures = []
        runner.run(test, out=failures.append)
        assert not failures, "".join(failures)


def test_every_metric_has_an_example():
    for name, metric in credax.metrics.METRICS.items():
        if metric.task != "shift":
            assert ">>> " in metric.function.__doc__, name
