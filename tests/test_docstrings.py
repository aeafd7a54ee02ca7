"""The examples in docstrings do what they say, and what users import has some."""

from __future__ import annotations

import doctest
import importlib
import inspect
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mta import baselines, monoids

ROOT = Path(__file__).parents[1]

#: Modules with examples are found by their text, so that none is imported only to be looked at.
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for package in ("mta", "stores", "spark_integration")
    for path in (ROOT / package).rglob("*.py")
    if ">>> " in path.read_text()
)
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def imported(name: str) -> ModuleType:
    """A module, or a skip where it needs a package of an extra that is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("mta", "stores", "spark_integration"):
            raise
        pytest.skip(f"{name} needs the package {package}")


def test_there_are_examples() -> None:
    assert len(MODULES) >= 15


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    module = imported(name)
    tests = [test for test in doctest.DocTestFinder().find(module) if test.examples]
    assert tests, "the examples are in no docstring"
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    said: list[str] = []
    for test in tests:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            runner.run(test, out=said.append)
    assert runner.failures == 0, "".join(said)
    assert runner.tries >= len(tests)


#: Monoids and algorithms that nobody makes by hand, or that are only to subclass.
WITHOUT = {"Baseline"}


def public() -> list[Any]:
    return [
        pytest.param(getattr(package, name), id=f"{package.__name__}.{name}")
        for package in (monoids, baselines)
        for name in package.__all__
        if name not in WITHOUT
    ]


@pytest.mark.parametrize("thing", public())
def test_what_users_import_has_an_example(thing: Any) -> None:
    examples = doctest.DocTestParser().get_examples(inspect.getdoc(thing) or "")
    own = thing.__doc__ if inspect.isclass(thing) else inspect.getdoc(thing)
    assert own, thing
    assert examples, f"{thing.__name__} has no example"
    assert any(thing.__name__ in example.source or example.want for example in examples)
