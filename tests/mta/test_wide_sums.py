"""Sums of whole numbers beyond 64 bits: the same whole numbers by every call, and in few calls of Python."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mta import AmortizedMTA, LogMTA, monoids
from mta.policies import CountWindow, TimeWindow
from stores import open_store

WORD = 2**63
KINDS = [LogMTA, AmortizedMTA]


class Shown(monoids.Sum):
    """Sums as text, so that they may be of any size."""

    def lower(self, state: Any) -> Any:
        return str(state)

    def lower_columns(self, states: Any) -> Any:
        return np.array(list(map(str, self.state_list(states))), dtype=object)


ELEMENTS = st.one_of(
    st.sampled_from([WORD - 1, -WORD, 2**62, -(2**62), 1, -1, 0]), st.integers(-WORD, WORD - 1)
)
CALLS = st.one_of(
    st.tuples(st.sampled_from(["push", "insert"]), st.lists(ELEMENTS, min_size=1, max_size=1)),
    st.tuples(st.sampled_from(["slide", "extend"]), st.lists(ELEMENTS, max_size=40)),
    st.tuples(st.sampled_from(["slide", "extend"]), ELEMENTS.map(lambda value: [value] * 30)),
    st.tuples(st.just("evict"), st.integers(0, 30)),
    st.tuples(st.just("restore"), st.none()),
)


def both() -> Any:
    return monoids.Fields(sum=Shown("x"), mean=monoids.Mean("x"), n=monoids.Count())


def wanted(held: list[int]) -> dict[str, Any]:
    mean = sum(held) / len(held) if held else None
    return {"sum": str(sum(held)), "mean": mean, "n": len(held)}


def same(found: dict[str, Any], held: list[int]) -> None:
    expected = wanted(held)
    if not held:
        found = {**found, "mean": None}
    assert found == expected


@pytest.mark.parametrize("size", [2, 4, None])
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40)
@given(data=st.data())
def test_like_pythons_numbers(kind: Any, size: int | None, data: st.DataObject) -> None:
    width = data.draw(st.sampled_from([1, 5, 33, 200]))
    policy = CountWindow(width)
    held: list[int] = []
    with open_store("memory:") as store:
        window = kind(both(), policy, store=store, name="wide", page_size=size)
        for call, argument in data.draw(st.lists(CALLS, max_size=15)):
            if call in ("push", "insert"):
                held.append(argument[0])
                result = getattr(window, call)({"x": argument[0]})
                if call == "push":
                    held = held[-width:]
                    same(result, held)
            elif call in ("slide", "extend"):
                results = getattr(window, call)({"x": np.array(argument, dtype=np.int64)})
                for row, value in enumerate(argument):
                    held.append(value)
                    if call == "slide":
                        held = held[-width:]
                        same({name: column[row] for name, column in results.items()}, held)
                if argument or call == "extend":  # to slide nothing asks no policy
                    held = held[-width:]
            elif call == "evict":
                count = min(argument, len(held))
                window.evict(count)
                del held[:count]
            else:
                window.checkpoint()
                window.close()
                window = kind.restore(store, "wide", both(), policy)
            same(window.query(), held)
            first, last = window.oldest, window.youngest
            if held and len(held) > 3:
                same(window.range_query(first + 1, last - 1), held[1:-1])
        window.close()


COLUMNS: dict[str, Any] = {
    "timestamps": lambda count: 1_700_000_000_000_000_000 + np.arange(count) * 12_345,
    "least and greatest": lambda count: np.where(np.arange(count) % 3 < 2, -WORD, WORD - 1),
    "up and down": lambda count: np.where(np.arange(count) // 5000 % 2, -(2**62) - 7, 2**62 + 1),
}


@pytest.mark.parametrize("policy", [CountWindow, TimeWindow])
@pytest.mark.parametrize("label", COLUMNS)
@pytest.mark.parametrize("kind", KINDS)
def test_whole_pages(kind: Any, label: str, policy: Any) -> None:
    count, width = 60_000, 20_000
    values = COLUMNS[label](count)
    sums = [0, *accumulate(values.tolist())]
    with open_store("memory:") as store:
        window = kind(both(), policy(width), store=store, name="wide")
        done = 0
        for rows in (25_000, 10, 17_000, 1, 17_989):
            results = window.slide({"x": values[done : done + rows]}, np.arange(done, done + rows))
            ends = range(done + 1, done + rows + 1)
            expected = [sums[end] - sums[max(0, end - width)] for end in ends]
            assert results["sum"].tolist() == list(map(str, expected))
            means = [total / min(end, width) for end, total in zip(ends, expected, strict=True)]
            assert results["mean"].tolist() == means
            done += rows
            window.checkpoint()
            window.close()
            window = kind.restore(store, "wide", both(), policy(width))
            assert window.query()["sum"] == str(expected[-1])
        window.close()


@pytest.mark.parametrize("policy", [CountWindow, TimeWindow])
@pytest.mark.parametrize("label", COLUMNS)
@pytest.mark.parametrize("kind", KINDS)
def test_sums_are_made_without_a_call_for_each(kind: Any, policy: Any, label: str) -> None:
    """An object column costs at least a step of Python for each entry: none has more than a few of them."""
    longest = 0

    class Counted(monoids.Mean):
        def _looked_at(self, states: Any) -> Any:
            nonlocal longest
            longest = max([longest, *(len(column) for column in states if column.dtype == object)])
            return states

        def prefix_columns(self, states: Any) -> Any:
            return self._looked_at(super().prefix_columns(states))

        def suffix_columns(self, states: Any) -> Any:
            return self._looked_at(super().suffix_columns(states))

        def combine_columns(self, older: Any, younger: Any) -> Any:
            return self._looked_at(super().combine_columns(older, younger))

    window = kind(Counted(), policy(40_000))
    values = COLUMNS[label](60_000)
    window.extend(values[:40_000], np.arange(40_000))
    for start in range(40_000, 160_000, 20_000):
        window.slide(values[:20_000], np.arange(start, start + 20_000))
    assert longest <= 20
