"""What a predicate is given: states that it can read, and cannot change, of numbers of any size."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from reference import ALGORITHMS

from mta import monoids, policies
from mta.baselines import DABA
from mta.errors import WindowError
from mta.policies import OlderThanLongestRun, OlderThanMaximum, Policy, SumWindow, While
from stores import open_store

KINDS = list(ALGORITHMS.values())
FIELDS = monoids.Fields(a=monoids.Max("x"), n=monoids.Count())

MISMATCHES: list[tuple[Policy, monoids.Monoid, str]] = [
    (OlderThanMaximum("b"), FIELDS, "reads the field 'b', but .* has only ['a', 'n']"),
    (SumWindow(3, "b"), FIELDS, "reads the field 'b', but .* has only ['a', 'n']"),
    (OlderThanLongestRun("b"), FIELDS, "reads the field 'b', but .* has only ['a', 'n']"),
    (OlderThanMaximum(), FIELDS, "does not say which field"),
    (SumWindow(3), FIELDS, "does not say which field"),
    (OlderThanMaximum("a"), monoids.Max(), "has no fields"),
    (SumWindow(3, "a"), monoids.Sum(), "has no fields"),
    (OlderThanLongestRun(), monoids.Sum(), "reads states of LongestIncreasingRun"),
    (OlderThanLongestRun("a"), FIELDS, "reads states of LongestIncreasingRun"),
    (policies.CountWindow(3) | OlderThanMaximum("b"), FIELDS, "has only ['a', 'n']"),
]


@pytest.mark.parametrize(("policy", "monoid", "message"), MISMATCHES)
@pytest.mark.parametrize("kind", [*KINDS, DABA])
def test_a_field_that_is_not_there(kind: Any, policy: Policy, monoid: Any, message: str) -> None:
    """The window is refused, and not its first element."""
    with pytest.raises(ValueError, match=message.replace("[", r"\[").replace("]", r"\]")):
        kind(monoid, policy)


def test_a_field_that_is_not_there_at_a_restore() -> None:
    with open_store("memory:") as store:
        kind = KINDS[1]
        with kind(FIELDS, OlderThanMaximum("a"), store=store, name="w") as window:
            window.push({"x": 1})
            window.checkpoint()
        with pytest.raises((ValueError, WindowError), match="OlderThanMaximum"):
            kind.restore(store, "w", FIELDS, OlderThanMaximum("b"))
        with kind.restore(store, "w", FIELDS, OlderThanMaximum("a")) as again:
            assert again.push({"x": 0}) == {"a": 1, "n": 2}


@pytest.mark.parametrize("policy", [SumWindow, lambda _, field: OlderThanMaximum(field)])
def test_a_field_has_a_name(policy: Callable[[float, Any], Policy]) -> None:
    with pytest.raises(TypeError, match=re.escape("the name of a field of Fields or none, got 3")):
        policy(5, 3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("page_size", [2, None])
def test_arrays_of_a_predicate_cannot_be_written(kind: Any, page_size: int | None) -> None:
    def wipes(total: Any, old: Any) -> Any:
        if isinstance(total, np.ndarray):
            old[:] = 0
            total[:] = 0
        return total - old >= 10

    window = kind(monoids.Sum(), While(wipes, columns=True, name="wipes"), page_size=page_size)
    for _ in range(50):
        window.push(1)
    with pytest.raises(ValueError, match="read-only"):
        window.slide([1] * 1000)
    assert (len(window), window.query()) == (10, 10)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("page_size", [2, None])
def test_states_that_a_predicate_changes_are_copies(kind: Any, page_size: int | None) -> None:
    class Seen(monoids.Monoid):
        """A list of elements, an array of them, and a mapping with both."""

        identity: Any = None

        def lift(self, value: Any) -> Any:
            return {"list": [value], "pair": ([value], value)}

        def combine(self, older: Any, younger: Any) -> Any:
            pair = (older["pair"][0] + younger["pair"][0], younger["pair"][1])
            return {"list": older["list"] + younger["list"], "pair": pair}

        def lower(self, state: Any) -> Any:
            return (list(state["list"]), list(state["pair"][0]))

    def spoils(total: Any, old: Any) -> bool:
        gone = len(total["list"]) - len(old["list"]) >= 5
        for state in (total, old):
            state["list"].clear()
            state["pair"][0].append("spoilt")
            state.clear()
        return gone

    window = kind(Seen(), While(spoils, name="spoils"), page_size=page_size)
    for number in range(30):
        window.push(number)
    window.slide(list(range(30, 60)))
    window.enforce()
    assert window.query() == (list(range(55, 60)), list(range(55, 60)))


@pytest.mark.parametrize("kind", KINDS)
def test_mappings_of_states_are_copies(kind: Any) -> None:
    def spoils(total: Any, old: Any) -> bool:
        gone = total["n"] - old["n"] >= 5
        total["n"] = old["n"] = -1
        return bool(gone)

    window = kind(monoids.Fields(n=monoids.Count(), s=monoids.Sum()), While(spoils, name="spoils"))
    assert [window.push(1) for _ in range(9)][-1] == {"n": 5, "s": 5}
    assert window.slide([1] * 9)["n"].tolist() == [5] * 9
    assert window.query() == {"n": 5, "s": 5}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("page_size", [4, None])
def test_sums_beyond_64_bits(kind: Any, page_size: int | None) -> None:
    """Functions of NumPy take no objects, of which such a column is; a push gives them plain numbers."""

    def least(total: Any, old: Any) -> Any:
        return np.isfinite(total - old) & (total - old >= 2**61)

    def nearly(total: Any, old: Any) -> Any:
        return np.sqrt(np.abs(total - old)) >= 2.0**30

    for predicate in (least, nearly):
        one, other = (
            kind(monoids.Sum(), While(predicate, columns=True, name="least"), page_size=page_size)
            for _ in range(2)
        )
        values = [2**60 - (i % 3) * 2**58 for i in range(2000)]
        assert one.slide(values).tolist() == [other.push(value) for value in values]
        assert len(one) == len(other)
