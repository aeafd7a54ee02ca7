"""A window shares no memory with its user: what came in may be changed after the call, and so may results."""

from __future__ import annotations

import copy
import math
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from reference import rows_of

from mta import AmortizedMTA, LogMTA, baselines, monoids
from mta.policies import CountWindow
from stores import open_store

WIDTH = 5


class Case(NamedTuple):
    make: Callable[[], Any]
    #: an element out of a whole number, made anew each time
    element: Callable[[int], Any]
    #: the result of a window of such elements, by nothing of ours
    wanted: Callable[[list[Any]], Any]


def number(i: int) -> float:
    return float(i * 7 % 11)


def listed(i: int) -> list[Any]:
    return [i, [str(i)], {"k": i}]


def pair(i: int) -> tuple[float, list[Any]]:
    return (number(i), listed(i))


def record(i: int) -> dict[str, Any]:
    return {"x": number(i), "who": listed(i)}


def both(i: int) -> dict[str, Any]:
    return {"x": number(i), "y": -number(i)}


def in_place(column: Any) -> Any:
    """A function that spoils what it is given, as a careless one may."""
    if isinstance(column, np.ndarray):
        column += 1
        return column
    return None if column is None else column + 1


def joined(older: Any, younger: Any) -> Any:
    return [*older, *younger]


CASES = {
    "Last": Case(monoids.Last, number, lambda some: some[-1]),
    "First": Case(monoids.First, number, lambda some: some[0]),
    "Last of lists": Case(monoids.Last, listed, lambda some: some[-1]),
    "First of lists": Case(monoids.First, listed, lambda some: some[0]),
    "Last of arrays": Case(monoids.Last, lambda i: (i, np.arange(3) + i), lambda some: some[-1]),
    "Last of bytes": Case(monoids.Last, lambda i: bytearray([i % 200, 1]), lambda some: some[-1]),
    "Max": Case(monoids.Max, number, max),
    "Min": Case(monoids.Min, number, min),
    "Sum": Case(monoids.Sum, number, sum),
    "Product": Case(monoids.Product, number, math.prod),
    "Count": Case(monoids.Count, listed, len),
    "Mean": Case(monoids.Mean, number, lambda some: sum(some) / len(some)),
    "GeometricMean": Case(
        monoids.GeometricMean, lambda i: number(i) + 1, lambda some: math.prod(some) ** (1 / len(some))
    ),
    "PopulationStdDev": Case(monoids.PopulationStdDev, number, lambda some: float(np.std(some))),
    "MaxCount": Case(monoids.MaxCount, number, lambda some: some.count(max(some))),
    "ArgMax": Case(monoids.ArgMax, pair, lambda some: max(some, key=lambda each: each[0])[1]),
    "ArgMin": Case(
        lambda: monoids.ArgMin("x", "who"), record, lambda some: min(some, key=lambda each: each["x"])["who"]
    ),
    "Collect": Case(monoids.Collect, listed, lambda some: some),
    "Collect of deques": Case(monoids.Collect, lambda i: deque([[i]]), lambda some: some),
    "CollectDistinct": Case(monoids.CollectDistinct, lambda i: (i % 4, ("a",)), set),
    "Concat": Case(monoids.Concat, str, "".join),
    "Fields": Case(
        lambda: monoids.Fields(last=monoids.Last("x"), top=monoids.Max("y"), first=monoids.First("x")),
        both,
        lambda some: {"last": some[-1]["x"], "top": max(e["y"] for e in some), "first": some[0]["x"]},
    ),
    "Fields of objects": Case(
        lambda: monoids.Fields(all=monoids.Collect("who"), top=monoids.Max("x"), last=monoids.Last("who")),
        record,
        lambda some: {
            "all": [e["who"] for e in some],
            "top": max(e["x"] for e in some),
            "last": some[-1]["who"],
        },
    ),
    "Fields of plain objects": Case(
        lambda: monoids.Fields(all=monoids.Collect(), n=monoids.Count()),
        listed,
        lambda some: {"all": some, "n": len(some)},
    ),
    "from_function": Case(
        lambda: monoids.from_function(joined, [], name="join"),
        listed,
        lambda some: [part for each in some for part in each],
    ),
    "from_function of arrays": Case(
        lambda: monoids.from_function(np.add, 0, name="sum of arrays"),
        lambda i: np.arange(3.0) + i,
        lambda some: np.sum(some, axis=0),
    ),
    "from_ufunc": Case(lambda: monoids.from_ufunc(np.maximum, None), number, max),
    "from_ufunc in place": Case(
        lambda: monoids.from_ufunc(np.maximum, None, lift=in_place, lower=in_place, name="spoiling"),
        number,
        lambda some: max(some) + 2,
    ),
}


def maker(kind: Any, **options: Any) -> Callable[[Any], Any]:
    return lambda monoid: kind(monoid, CountWindow(WIDTH), **options)


ALGORITHMS = {
    f"{kind.__name__} by {size}": maker(kind, page_size=size)
    for kind in (LogMTA, AmortizedMTA)
    for size in (2, 4, None)
}
ALGORITHMS |= {
    name: maker(getattr(baselines, name))
    for name in baselines.__all__
    if name not in ("Baseline", "FlatFAT", "SubtractOnEvict")
}


def spoil(value: Any) -> None:
    """Changes all that can be changed in a value."""
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            for each in value.reshape(-1).tolist():
                spoil(each)
            value[...] = None
        else:
            value[...] = 99
    elif isinstance(value, dict):
        for each in value.values():
            spoil(each)
        value.clear()
    elif isinstance(value, (list, deque)):
        for each in value:
            spoil(each)
        value.clear()
    elif isinstance(value, bytearray):
        value[:] = b"spoiled"
    elif isinstance(value, set):
        value.clear()
    elif isinstance(value, tuple):
        for each in value:
            spoil(each)


def same(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(same(found[key], wanted[key]) for key in wanted)
    if isinstance(wanted, (list, tuple, deque)):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    if isinstance(wanted, np.ndarray):
        return bool(np.array_equal(found, wanted))
    return bool(found == wanted or (isinstance(wanted, float) and math.isclose(found, wanted, rel_tol=1e-9)))


class Checked:
    """A window whose inputs and results are spoiled after every call, beside its elements in a list."""

    def __init__(self, case: Case, window: Any) -> None:
        self.case, self.window, self.count = case, window, 0
        self.held: list[Any] = []

    def elements(self, count: int) -> list[Any]:
        some = range(self.count, self.count + count)
        self.count += count
        return [self.case.element(i) for i in some]

    def check(self, result: Any) -> None:
        wanted = self.case.wanted(copy.deepcopy(self.held))
        assert same(result, wanted), (result, wanted)
        spoil(result)

    def push(self) -> None:
        (element,) = self.elements(1)
        self.held = [*self.held, copy.deepcopy(element)][-WIDTH:]
        result = self.window.push(element)
        spoil(element)
        self.check(result)
        for _ in range(2):
            self.check(self.window.query())

    def batch(self, count: int, slide: bool) -> None:
        some = self.elements(count)
        wanted = []
        for element in some:
            self.held = [*self.held, copy.deepcopy(element)][-WIDTH:]
            wanted.append(self.case.wanted(copy.deepcopy(self.held)))
        batch = self.as_batch(some)
        results = (self.window.slide if slide else self.window.extend)(batch)
        spoil(batch)
        spoil(some)
        if slide:
            rows = rows_of(results)
            assert len(rows) == count
            assert all(map(same, rows, wanted)), (rows, wanted)
            spoil(results)
        for _ in range(2):
            self.check(self.window.query())

    def as_batch(self, some: list[Any]) -> Any:
        fields = self.window.monoid.fields
        if fields:
            return {field: column([each[field] for each in some]) for field in fields}
        if isinstance(self.window.monoid, monoids.ArgMax):
            return column([each[0] for each in some]), column([each[1] for each in some])
        return column(some)


def column(some: list[Any]) -> Any:
    if isinstance(some[0], float):
        return np.array(some)
    out = np.empty(len(some), dtype=object)
    out[:] = some
    return out if not isinstance(some[0], np.ndarray) else list(some)


@pytest.mark.parametrize("label", CASES)
@pytest.mark.parametrize("make", ALGORITHMS.values(), ids=ALGORITHMS)
def test_inputs_and_results_may_be_changed(label: str, make: Any) -> None:
    case = CASES[label]
    checked = Checked(case, make(case.make()))
    for _ in range(7):
        checked.push()
    for count in (1, 3, 30, 2):
        checked.batch(count, slide=True)
        checked.push()
        checked.batch(count, slide=False)
        checked.push()
    window = checked.window
    if hasattr(window, "range_query"):
        spoil(window.range_query(-1, 10**6))
        spoil(window.range_query(10**6, 10**6))
        checked.check(window.range_query(0, 10**6))
    window.evict(len(window))
    nothing = case.make()
    for _ in range(2):
        empty = window.query()
        assert same(empty, nothing.lower(copy.deepcopy(nothing.identity))) or empty != empty
        spoil(empty)
    checked.held = []
    checked.push()


@pytest.mark.parametrize(
    "label", [label for label in CASES if "deques" not in label and "bytes" not in label]
)
@pytest.mark.parametrize("kind", [LogMTA, AmortizedMTA])
def test_in_a_store_and_after_a_restore(label: str, kind: Any) -> None:
    case = CASES[label]
    with open_store("memory:") as store:
        window = kind(case.make(), CountWindow(WIDTH), store=store, name="own", page_size=2)
        checked = Checked(case, window)
        for _ in range(6):
            checked.push()
        checked.batch(20, slide=True)
        offset = {"row": [1]}
        window.checkpoint(offset)
        spoil(offset)
        assert window.offset == {"row": [1]}
        window.close()
        checked.window = kind.restore(store, "own", case.make(), CountWindow(WIDTH))
        assert checked.window.offset == {"row": [1]}
        checked.batch(9, slide=True)
        checked.push()
        checked.window.close()
