"""`rolling` and `Roller` against plain recomputation of each window from the rows of its key."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from recomputed import Affine, Fold, Frame, Recomputed, Row

import mta
from mta import monoids
from mta.core import blocks
from mta.policies import CountWindow, Policy, TimeWindow
from mta.tables import folding, older, tree
from stores import open_store


def affine(held: list[Row]) -> int:
    b = 0
    for row in held:
        b = (b * (row.a % 97 + 1) + row.a % 89) % 10_007
    return b


def mean(held: list[Row]) -> float:
    return sum(row.a for row in held) / len(held) if held else math.nan


KINDS: dict[str, tuple[Callable[[], monoids.Monoid], Fold]] = {
    "affine": (lambda: Affine("a"), affine),
    "count": (monoids.Count, len),
    "sum": (lambda: monoids.Sum("a"), lambda held: sum(row.a for row in held)),
    "max": (lambda: monoids.Max("a"), lambda held: max((row.a for row in held), default=None)),
    "mean": (lambda: monoids.Mean("a"), mean),
    "text": (lambda: monoids.Concat("label"), lambda held: "".join(row.label for row in held)),
    "list": (lambda: monoids.Collect("a"), lambda held: [row.a for row in held]),
}

FRAMES = st.builds(
    Frame,
    st.sampled_from([None, None, 1, 2, 5, 40]),
    st.sampled_from([None, 1, 3, 10, 60, 1000]),
    st.sampled_from(["right", "right", "both", "left", "neither"]),
    st.sampled_from([0, 0, 0, 1, 7, 50]),
    st.sampled_from([0, 0, 0, 2, 4]),
)


def policy_of(frame: Frame) -> Policy | None:
    parts: list[Policy] = []
    if frame.count is not None:
        parts.append(CountWindow(frame.count, min_count=frame.least))
    if frame.d is not None:
        parts.append(TimeWindow(frame.d, frame.closed, delay=frame.delay, min_count=frame.least))  # type: ignore[arg-type]
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else parts[0] | parts[1]


AGGREGATES = st.dictionaries(
    st.sampled_from(["p", "q", "r", "s", "t"]),
    st.tuples(st.sampled_from(sorted(KINDS)), FRAMES),
    min_size=1,
)
BATCHES = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 4), st.integers(0, 30), st.integers(0, 99)), max_size=60),
        st.sampled_from([0, 0, 1, 40, 500]),
        st.sampled_from(["table", "table", "reader"]),
    ),
    min_size=1,
    max_size=5,
)
KEYS = {
    "number": [3, -1, 2**62, 0, None],
    "text": ["a", "", "ä", "b" * 20, None],
    "real": [0.5, -0.0, math.inf, math.nan, None],
    "two": [(1, "x"), (1, "y"), (2, "x"), (None, "x"), (1, None)],
    "none": [0] * 5,
}


@pytest.fixture(params=[2, 4, None], ids=["2", "4", "usual"])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    block = request.param
    if block is None:
        return
    for module in (blocks, folding, older):
        monkeypatch.setattr(module, "BLOCK", block)
    monkeypatch.setattr(blocks, "FEW_ENTRIES", 4 * block)
    monkeypatch.setattr(folding, "FEW_ENTRIES", 4 * block)
    monkeypatch.setattr(older, "PART_ROWS", 8 * block)
    monkeypatch.setattr("mta.tables.leaf.PART_ROWS", 4 * block)
    monkeypatch.setattr(tree, "LEAF_ROWS", 32)
    monkeypatch.setattr("mta.tables.roller.BLOCK_VALUES", 200)


def frame_of(batch: list[Row], keys: str) -> tuple[pa.Table, list[str] | None]:
    columns: dict[str, Any] = {
        "ts": pa.array([row.time for row in batch], pa.int64()),
        "a": pa.array([row.a for row in batch], pa.int64()),
        "label": pa.array([row.label for row in batch], pa.string()),
    }
    found = [KEYS[keys][row.key] for row in batch]
    if keys == "none":
        return pa.table(columns), None
    if keys == "two":
        columns["k"] = pa.array([key[0] for key in found], pa.int32())
        columns["l"] = pa.array([key[1] for key in found], pa.string())
        return pa.table(columns), ["k", "l"]
    kind = {"number": pa.int64(), "text": pa.string(), "real": pa.float64()}[keys]
    columns["k"] = pa.array(found, kind, from_pandas=False)
    return pa.table(columns), ["k"]


def batches_of(drawn: list[Any], keys: str) -> Iterator[tuple[list[Row], str]]:
    """Rows in any order, but after the rows of the batches before."""
    start = 0
    for numbers, gap, kind in drawn:
        start += gap
        one = [Row(0 if keys == "none" else key, start + time, a, f"{a}.") for key, time, a in numbers]
        if kind == "reader":  # of which a key may have more rows than can be sorted in memory
            one.sort(key=lambda row: row.time)
        yield one, kind
        start = max([start, *(row.time for row in one)])


def equal(found: list[Any], expected: list[Any]) -> bool:
    return len(found) == len(expected) and all(
        a == b or (isinstance(a, float) and (math.isnan(a) or math.isclose(a, b)) and isinstance(b, float))
        for a, b in zip(found, expected, strict=True)
    )


@pytest.mark.usefixtures("size")
@pytest.mark.parametrize("keys", sorted(KEYS))
def test_each_window_is_that_of_plain_recomputation(keys: str) -> None:
    @settings(max_examples=examples(25), deadline=None, derandomize=True)
    @given(AGGREGATES, BATCHES)
    def check(chosen: dict[str, Any], drawn: list[Any]) -> None:
        if all(kind == "count" for kind, _ in chosen.values()):
            chosen["u"] = ("sum", Frame(count=3))
        features: dict[str, Any] = {}
        for name, (kind, frame) in chosen.items():
            policy = policy_of(frame)
            if policy is None:
                chosen[name] = (kind, Frame())
            features[name] = KINDS[kind][0]() if policy is None else KINDS[kind][0]().over(policy)
        plain = Recomputed({name: (frame, KINDS[kind][1]) for name, (kind, frame) in chosen.items()})
        first: list[Any] = []
        store = open_store("memory:")
        with mta.Roller(
            on="ts", by=None if keys == "none" else frame_of([], keys)[1], aggregates=features
        ) as roller:
            for batch, kind in batches_of(drawn, keys):
                frame, by = frame_of(batch, keys)
                given_frame = frame if kind == "table" else frame.to_reader(max_chunksize=7)
                out = roller.append(given_frame)
                table = out if kind == "table" else out.read_all()
                expected = plain.append(batch)
                for name in frame.column_names:
                    assert str(table[name].to_pylist()) == str(frame[name].to_pylist())
                for name, column in expected.items():
                    assert equal(table[name].to_pylist(), column), (name, table[name].to_pylist(), column)
                first = first or [frame, by, {name: table[name] for name in expected}]
            assert len(roller) == sum(len(numbers) for numbers, _, _ in drawn)
        frame, by, expected = first
        assert not list(store.list_roots())
        assert not list(store.list_keys(""))
        alone = mta.rolling(frame, on="ts", by=by, aggregates=features, store=store)
        for name, column in expected.items():
            assert alone[name].to_pylist() == column.to_pylist() or np.array_equal(
                alone[name].to_numpy(), column.to_numpy(), equal_nan=True
            )

    check()
