"""What a checkpoint remembers of functions: their names, or what they were."""

from __future__ import annotations

import functools
import operator
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from mta import AmortizedMTA, monoids
from mta.errors import ManifestMismatch
from mta.functions import described
from mta.policies import CountWindow, OlderThanMaximum, TimeWindow, While
from stores import open_store


def large(total: int, old: int) -> bool:
    return total - old >= 10


def above(limit: Any) -> Callable[[Any, Any], bool]:
    return lambda total, old: total - old >= limit


@dataclass(frozen=True)
class Budget:
    limit: int

    def __call__(self, total: int, old: int) -> bool:
        return total - old >= self.limit

    def spent(self, total: int, old: int) -> bool:
        return total - old >= self.limit


DIFFERENT: list[Callable[[Any, Any], Any]] = [
    lambda total, old: total - old >= 10,
    lambda total, old: total - old >= 11,
    lambda total, old: total - old > 10,
    lambda total, old: old - total >= 10,
    lambda total, old, limit=10: total - old >= limit,
    lambda total, old, limit=11: total - old >= limit,
    lambda total, old, *, limit=11: total - old >= limit,
    lambda total, old: abs(total - old) >= 10,
    lambda total, old: round(total - old) >= 10,
    lambda total, old: (lambda: total - old >= 10)(),
    lambda total, old: (lambda: total - old >= 12)(),
    lambda total, old: total - old in {1, 2},
    lambda total, old: total - old in {1, 3},
    above(10),
    above(11),
    above(1.0),
    above((1, 2)),
    above(above(3)),
    above(above(4)),
    large,
    functools.partial(large),
    functools.partial(large, old=3),
    Budget(10),
    Budget(11),
    Budget(10).spent,
    Budget(11).spent,
    operator.lt,
    operator.gt,
    max,
]


def test_functions_that_differ_are_told_apart() -> None:
    assert len({described(function) for function in DIFFERENT}) == len(DIFFERENT)
    for make in (While, lambda each: monoids.from_function(each, 0)):
        assert len({make(function).fingerprint() for function in DIFFERENT}) == len(DIFFERENT)
    for key in ("lift", "lower"):
        made = {monoids.from_ufunc(np.add, 0, **{key: each}).fingerprint() for each in DIFFERENT}
        assert len(made) == len(DIFFERENT)


def test_they_say_where_they_come_from() -> None:
    module = __name__
    assert described(large).startswith(f"{module}.large #")
    assert described(DIFFERENT[0]).startswith(f"{module}.<lambda> #")
    assert described(above(3)).startswith(f"{module}.above.<locals>.<lambda> #")
    assert described(Budget(3)).startswith(f"{module}.Budget #")
    assert described(operator.lt) == "operator.lt"
    assert described(max) == "max"
    assert described(np.maximum) == "numpy.maximum"


def test_what_may_change_is_not_looked_at() -> None:
    """A predicate that notes its calls is the same before and after them."""
    calls: list[Any] = []

    def noting(total: int, old: int) -> bool:
        calls.append((total, old))
        return False

    count = 0

    def counting(total: int, old: int) -> bool:  # noqa: ARG001
        nonlocal count
        count += 1
        return False

    class Counter:
        def __init__(self) -> None:
            self.calls = 0

        def __call__(self, total: int, old: int) -> bool:  # noqa: ARG002
            self.calls += 1
            return False

    counter = Counter()
    for predicate in (noting, counting, counter, counter.__call__):
        before = described(predicate)
        predicate(1, 2)
        assert described(predicate) == before
    assert While(large) == While(large) == pickle.loads(pickle.dumps(While(large)))
    assert described(above(np.float64(2.5))) == described(above(2.5))


def test_the_same_in_another_process() -> None:
    text = (
        "from mta.functions import described\n"
        "f = lambda total, old: total - old in {'a', 'b', 'c'} and (lambda: old)()\n"
        "print(described(f), described(max))"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", text],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]
    assert runs[0].startswith("__main__.<lambda> #")


def test_names_stand_for_functions() -> None:
    assert While(large, name="budget-100").fingerprint() == "While(budget-100)"
    assert While(large, name="a") != While(large, name="b")
    assert monoids.from_function(max, 0, lift=abs, name="peak", field="x").fingerprint() == (
        "from_function(peak, field='x')"
    )
    assert monoids.from_ufunc(np.add, 0, lower=lambda a: a, name="total").fingerprint() == (
        "from_ufunc(total, 0)"
    )
    for make in (
        lambda name: While(large, name=name),
        lambda name: monoids.from_function(max, 0, name=name),
        lambda name: monoids.from_ufunc(np.add, 0, name=name),
    ):
        for bad in (3, "", b"x"):
            with pytest.raises(TypeError, match=r"name=.* takes a str that is not empty, got"):
                make(bad)


def test_unions_of_the_same_are_the_same() -> None:
    some = [
        CountWindow(3),
        TimeWindow(5),
        TimeWindow(4, closed="both"),
        While(large, name="b"),
        OlderThanMaximum(),
    ]
    forwards = functools.reduce(operator.or_, some)
    backwards = functools.reduce(operator.or_, some[::-1])
    nested = (some[3] | some[1]) | (some[0] | (some[4] | some[2]))
    assert forwards == backwards == nested
    assert (
        forwards.fingerprint()
        == backwards.fingerprint()
        == nested.fingerprint()
        == (
            "CountWindow(3) | TimeWindow(5, closed='right') | TimeWindow(4, closed='both') | "
            "OlderThanMaximum() | While(b)"
        )
    )
    assert hash(forwards) == hash(nested)
    assert CountWindow(3) | CountWindow(5) == CountWindow(3)
    assert (TimeWindow(9) | TimeWindow(5)).fingerprint() == TimeWindow(5).fingerprint()
    assert While(large, name="a") | While(large, name="a") == While(large, name="a")


def test_restoring_tells_functions_apart() -> None:
    with open_store("memory:") as store:

        def checkpointed(monoid: Any, policy: Any, name: str) -> None:
            with AmortizedMTA(monoid, policy, store=store, name=name) as window:
                window.extend([1, 2, 3])
                window.checkpoint()

        total = monoids.Sum()
        checkpointed(total, While(above(10)), "unnamed")
        AmortizedMTA.restore(store, "unnamed", total, While(above(10))).close()
        was = While(above(10)).fingerprint()
        with pytest.raises(ManifestMismatch, match=r"While\(.*above.*<lambda> #.* told by its code"):
            AmortizedMTA.restore(store, "unnamed", total, While(above(11)))
        inside = was.removeprefix("While(").removesuffix(")")
        AmortizedMTA.restore(store, "unnamed", total, While(above(11), name=inside)).close()

        checkpointed(total, While(above(10), name="budget"), "named")
        AmortizedMTA.restore(store, "named", total, While(above(11), name="budget")).close()
        with pytest.raises(ManifestMismatch, match=r"the policy While\(budget\), not While\(other\)"):
            AmortizedMTA.restore(store, "named", total, While(above(10), name="other"))

        checkpointed(monoids.from_function(lambda a, b: a + b, 0), CountWindow(2), "operator")
        with pytest.raises(ManifestMismatch, match="the monoid from_function"):
            AmortizedMTA.restore(
                store, "operator", monoids.from_function(lambda a, b: a * b, 0), CountWindow(2)
            )

        with AmortizedMTA(total, CountWindow(2) | TimeWindow(5), store=store, name="union") as window:
            window.push(1, 1)
            window.checkpoint()
        AmortizedMTA.restore(store, "union", total, TimeWindow(5) | CountWindow(2)).close()
