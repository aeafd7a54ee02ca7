"""Buckets of many keys without Spark: short and long windows, segments, keys that fall silent and return."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from chance import seeds
from rolled import roll
from simulated import END, SCHEMA, Simulated
from stream_reference import (
    assert_as_wanted,
    same,
    wanted_with_watermark,
    wanted_without_watermark,
    watermarks,
)
from streams import AGGREGATES, NUMBER, POLICY, START, opened, seconds_of

from mta import monoids, policies
from mta.durability.coding import decode_root
from mta.durability.operations import collect
from mta.keyed import long, segments, table, windows
from spark_integration.streaming import backlog
from stores import Store, open_store

NAMES = ["sum_x", "max_x", "min_i", "first_s", "last_s", "count", "sum_i"]


def make_files(rng: np.random.Generator, keys: int, count: int) -> list[pa.Table]:
    """A minute a file. Some keys are hot for a while, and most are silent most of the time."""
    files, first = [], 0
    for number in range(count):
        come = rng.choice(keys, max(1, int(keys * rng.choice([0.05, 0.3, 1.0]))), replace=False)
        times = rng.choice([1, 1, 2, 3, 7], len(come))
        ids = np.repeat(come, times)
        for hot in range(min(3, keys)):
            if rng.random() < 0.4:
                ids = np.concatenate([ids, np.full(rng.integers(10, 90), hot)])
        rng.shuffle(ids)
        seconds = number * 60 + rng.integers(0, 240, len(ids)) / 4
        seconds[rng.random(len(ids)) < 0.05] -= 130
        micros = ((START + seconds) * 1_000_000).astype(np.int64)
        there = rng.random(len(ids)) > 0.03
        files.append(
            pa.table(
                {
                    NUMBER: np.arange(first, first + len(ids)),
                    "k": pa.array(ids, pa.int64(), mask=ids == 4),
                    "o": pa.array(micros, pa.timestamp("us"), mask=~there).cast(pa.timestamp("us", "UTC")),
                    "x": pa.array(rng.integers(-50, 50, len(ids)) / 4, mask=rng.random(len(ids)) < 0.1),
                    "i": pa.array(rng.integers(-(2**40), 2**40, len(ids))),
                    "s": pa.array(
                        [f"s{value}" * int(rng.integers(1, 9)) for value in rng.integers(0, 40, len(ids))]
                    ),
                },
                schema=SCHEMA,
            )
        )
        first += len(ids)
    return files


@contextmanager
def small(rng: np.random.Generator) -> Iterator[None]:
    """Keys go to the store, into segments of a few keys, and rows that wait into documents."""
    size = int(rng.choice([100, 1000, 8000]))
    with (
        mock.patch.object(table, "INLINE", size),
        mock.patch.object(segments, "BYTES", int(rng.choice([60, 300]))),
        mock.patch.object(segments, "DENSE_BYTES", int(rng.choice([60, 2000]))),
        mock.patch.object(table, "SPREAD", int(rng.choice([1, 2, 16]))),
        mock.patch.object(table, "SHARE", 3),
        mock.patch.object(table, "EPOCHS", int(rng.choice([1, 32]))),
        mock.patch.object(table, "LOOKED_AT", int(rng.choice([8, 16]))),
        mock.patch.object(backlog, "INLINE", int(rng.choice([100, 16_000]))),
        mock.patch.object(backlog, "DOCUMENT_ROWS", 20),
        mock.patch.object(backlog, "HELD_ROWS", 200),
        mock.patch.object(long, "SHORT_AGAIN", 5),
        mock.patch.object(windows, "PART_ROWS", int(rng.choice([1, 5, 40, 1 << 15]))),
    ):
        yield


def frame_of(rng: np.random.Generator, seed: int) -> dict[str, Any]:
    frames: list[dict[str, Any]] = [
        {"rows": int(rng.integers(1, 30))},
        {"window": f"{rng.integers(1, 400)} seconds"},
        {"window": f"{rng.integers(1, 400)} seconds", "closed": "right"},
        {"policy": policies.CountWindow(9) | policies.TimeWindow(100_000_000)},
        {"policy": POLICY | policies.TimeWindow(60_000_000)},
    ]
    names = rng.choice(NAMES, int(rng.integers(1, 5)), replace=False).tolist()
    return {
        "partition_by": [["k"], "k", None][int(rng.choice(3, p=[0.45, 0.45, 0.1]))],
        "order_by": [["o"], ["o", "s"], ["o", NUMBER]][rng.integers(3)],
        "aggregates": {name: AGGREGATES[name] for name in (*names, "count")},
        "algorithm": str(rng.choice(["amta", "lmta"])),
        "page_size": [4, 8, 32, None][rng.integers(4)],
        **frames[seed % len(frames)],
    }


def check_stored(store: Store, blobs: list[bytes]) -> int:
    """The store has what the states name, what these were made from, and nothing else; segments in use."""
    collect(store, grace=0)
    states = [opened(blob, [store]) for blob in blobs]
    stored = set(store.list_keys(""))
    named = {key for state in states for key in state.keys}
    assert named <= stored
    known = {name for state in states for name in state.in_store}
    roots = set(store.list_roots())
    assert roots == known
    needed = set(named)
    for name in roots:
        found = store.read_root(name)
        assert found is not None
        for version in decode_root(name, found[0]).retained:
            needed |= set(version.keys(name))
    assert stored <= needed
    return sum(state.segments for state in states)


@pytest.mark.parametrize("seed", seeds(15))
def test_random_streams_of_many_keys(seed: int) -> None:
    rng = np.random.default_rng(seed)
    how = frame_of(rng, seed)
    keys = int(rng.choice([1, 5, 40, 300]))
    files = make_files(rng, keys, int(rng.integers(2, 9)))
    delay = int(rng.choice([0, 15_500, 90_000]))
    with open_store(f"memory:{uuid.uuid4().hex}") as store, small(rng):
        stream = Simulated(SCHEMA, store, seed, buckets=int(rng.choice([1, 3, 16])), **how)
        marks = watermarks(files, delay)
        most = 0
        for file, mark in zip(files, marks, strict=False):
            if rng.random() < 0.3:
                # the query is started again with what may change
                pages = int(rng.choice([4, 16, 64]))
                stream.start(SCHEMA, page_size=pages, algorithm=str(rng.choice(["amta", "lmta"])))
            stream.play(file, mark)
            most = max(most, check_stored(store, stream.blobs()))
        # keys with windows of their own go a few at a time
        for later in range(40):
            stream.play(None, END + later)
        wanted = wanted_with_watermark(files, delay, end=END, **how)
        assert_as_wanted(stream.rows, wanted.rows, [*how["aggregates"], "x", "s", "k"])
        assert stream.late[: len(files)] == wanted.late
        if keys == 300 and "policy" not in how:
            assert most > 0
        if "rows" not in how:
            assert not stream.blobs()
            collect(store, grace=0)
            assert not list(store.list_keys(""))
            assert not list(store.list_roots())


@pytest.mark.parametrize("seed", seeds(5))
def test_random_streams_of_many_keys_without_a_watermark(seed: int) -> None:
    rng = np.random.default_rng(seed)
    how = frame_of(rng, seed)
    files = make_files(rng, int(rng.choice([5, 40, 300])), int(rng.integers(2, 9)))
    with open_store(f"memory:{uuid.uuid4().hex}") as store, small(rng):
        stream = Simulated(SCHEMA, store, seed, waits=False, buckets=int(rng.choice([1, 3, 16])), **how)
        for file in files:
            stream.play(file, 0)
            check_stored(store, stream.blobs())
        wanted = wanted_without_watermark(files, **how)
        assert_as_wanted(stream.rows, wanted.rows, [*how["aggregates"], "x", "s", "k"])
        assert stream.late == wanted.late


def plain_file(number: int, ids: np.ndarray, second: int, *, first: int) -> pa.Table:
    """Rows of some keys at one time."""
    count = len(ids)
    moment = dt.datetime.fromtimestamp(START + second, dt.UTC)
    return pa.table(
        {
            NUMBER: np.arange(first, first + count),
            "k": ids,
            "o": pa.array([moment] * count, pa.timestamp("us", "UTC")),
            "x": np.full(count, float(number)),
            "i": np.arange(count),
            "s": ["a"] * count,
        },
        schema=SCHEMA,
    )


def test_twenty_thousand_keys_are_as_in_a_batch_job() -> None:
    """With hot keys among them; half of the keys come back after two micro-batches."""
    rng = np.random.default_rng(3)
    keys = 20_000
    how: dict[str, Any] = {
        "order_by": ["o", NUMBER],
        "rows": 6,
        "aggregates": {
            "total": monoids.Sum("i"), "peak": monoids.Max("x"), "n": monoids.Count(),
            "first": monoids.First("i"),
        },
    }  # fmt: skip
    parts = [np.arange(keys), np.arange(0, keys, 97), np.arange(0, keys, 2)]
    ids = [np.concatenate([np.repeat(part, 2), np.full(6_000, 7)]) for part in parts]
    files, first = [], 0
    for number, each in enumerate(ids):
        rng.shuffle(each)
        micros = (START + number * 100) * 1_000_000 + rng.integers(0, 60_000_000, len(each))
        columns = {
            NUMBER: np.arange(first, first + len(each)),
            "k": each,
            "o": pa.array(micros, pa.timestamp("us", "UTC")),
            "x": rng.random(len(each)),
            "i": rng.integers(-(2**40), 2**40, len(each)),
            "s": pa.nulls(len(each), pa.string()),
        }
        files.append(pa.table(columns, schema=SCHEMA))
        first += len(each)
    with open_store(f"memory:{uuid.uuid4().hex}") as store:
        stream = Simulated(SCHEMA, store, 5, partition_by="k", buckets=4, **how)
        for file, mark in zip(files, watermarks(files, 0), strict=False):
            stream.play(file, mark)
        used = check_stored(store, stream.blobs())
        stream.play(None, END)
    assert used > 100
    whole = pa.concat_tables(files).sort_by([("k", "ascending"), ("o", "ascending"), (NUMBER, "ascending")])
    batch = {row[NUMBER]: row for row in roll(whole, batch=10_000, **how).to_pylist()}
    assert stream.rows.keys() == batch.keys()
    for number, row in batch.items():
        assert all(same(stream.rows[number][name], row[name]) for name in how["aggregates"])


def test_equal_rows_are_not_all_in_the_state_though_they_take_no_bytes_there() -> None:
    """Whichever keys come, the rows of a state are in memory."""
    keys, rows = 32, 3000
    with open_store(f"memory:{uuid.uuid4().hex}") as store:
        stream = Simulated(
            SCHEMA, store, 1, partition_by="k", order_by="o", rows=rows, buckets=1,
            aggregates={"n": monoids.Count("x")},
        )  # fmt: skip
        stream.play(plain_file(1, np.repeat(np.arange(keys), rows), 0, first=0), 0)
        stream.play(None, (START + 1) * 1000)
        (blob,) = stream.blobs()
        assert opened(blob, [store]).segments
        stream.play(plain_file(1, np.arange(keys), 2, first=keys * rows), (START + 1) * 1000)
        stream.play(None, END)
        assert {row["n"] for number, row in stream.rows.items() if number >= keys * rows} == {rows}


MOMENT = dt.datetime(2024, 3, 10, 7, 30)
KEYS: dict[str, pa.Array] = {
    "boolean": pa.array([True, False, None]),
    "byte": pa.array([-128, 0, 127, None], pa.int8()),
    "long": pa.array([-(2**63), 2**63 - 1, 0, 256, 65536, None]),
    "float": pa.array([0.0, -0.5, math.nan, math.inf, None], pa.float32(), from_pandas=False),
    "double": pa.array([0.0, 1e308, math.nan, -math.inf, None], from_pandas=False),
    "decimal": pa.array([decimal.Decimal("1.50"), decimal.Decimal("-0.01"), None], pa.decimal128(38, 2)),
    "string": pa.array(["", "a", "a\0", "a\0\0", "\N{SNOWMAN}", None]),
    "binary": pa.array([b"", b"\0", b"\0\0", b"\xff", None]),
    "date": pa.array([dt.date(1, 1, 1), dt.date(9999, 12, 31), None]),
    "timestamp": pa.array([MOMENT, dt.datetime(1969, 12, 31), None], pa.timestamp("us", "UTC")),
    "timestamp_ntz": pa.array([MOMENT, dt.datetime(9999, 12, 31), None], pa.timestamp("us")),
    "duration": pa.array([dt.timedelta(days=-1), dt.timedelta(microseconds=1), None], pa.duration("us")),
    "struct": pa.array([{"a": 1, "b": "x"}, {"a": None, "b": "x"}, {"a": 1, "b": None}, None]),
    "array": pa.array([[], [None], [1], [1, 1], None], pa.list_(pa.int64())),
    "map": pa.array([[], [("a", 1)], [("a", None)], None], pa.map_(pa.string(), pa.int64())),
    "no rows but null": pa.array([None, None], pa.string()),
}


@pytest.mark.parametrize("inline", [True, False])
def test_keys_of_every_type_are_told_apart(inline: bool) -> None:
    """Null is a key like others; each micro-batch brings each key twice."""
    for name, column in KEYS.items():
        count = len(column.to_pylist()) if name != "no rows but null" else 1
        rows = len(column)
        files = []
        for number in range(3):
            places = pa.array(np.tile(np.arange(rows), 2))
            seconds = [number * 10 + row // rows for row in range(2 * rows)]
            file = seconds_of(2 * rows * number, seconds)
            files.append(file.append_column("key", column.take(places)))
        with (
            open_store(f"memory:{uuid.uuid4().hex}") as store,
            mock.patch.object(table, "INLINE", 1 << 15 if inline else 1),
            mock.patch.object(segments, "BYTES", 1),
        ):
            stream = Simulated(
                files[0].schema, store, 1, partition_by="key", order_by=["o", NUMBER], rows=5,
                aggregates={"n": monoids.Count()}, buckets=2,
            )  # fmt: skip
            for file, mark in zip(files, watermarks(files, 0), strict=False):
                stream.play(file, mark)
            stream.play(None, END)
            check_stored(store, stream.blobs())
            found = {number: row["n"] for number, row in stream.rows.items()}
        of_a_key = rows // count
        for number, n in found.items():
            before = number // rows * of_a_key + (number % rows) % of_a_key + 1
            assert n == min(5, before), (name, number)
        assert len(found) == 6 * rows


@pytest.mark.parametrize("share", [0.05, 0.4])
def test_segments_are_no_more_than_a_state_has_room_for(share: float) -> None:
    """Large ones, of micro-batches in which all keys come, are halved when a few come, but not too often."""
    rng = np.random.default_rng(1)
    keys, rows = 3000, 0
    with (
        open_store(f"memory:{uuid.uuid4().hex}") as store,
        mock.patch.object(segments, "MANY", 60),
        mock.patch.object(segments, "MOST", 90),
        mock.patch.object(table, "INLINE", 1000),
    ):
        stream = Simulated(
            SCHEMA, store, 1, partition_by="k", order_by="o", rows=2, buckets=1,
            aggregates={"n": monoids.Count(), "last": monoids.Last("i")},
        )  # fmt: skip
        found = []
        for number in range(12):
            come = keys if number % 6 == 0 else int(share * keys)
            file = plain_file(number, rng.choice(keys, come, replace=False), number, first=rows)
            stream.play(file, (START + number - 1) * 1000)
            found.append(check_stored(store, stream.blobs()))
            rows += come
        assert 20 < max(found) <= 90
        stream.play(None, END)
        assert len(stream.rows) == rows


@pytest.mark.parametrize("text", ["", "long enough to be looked at by itself"])
def test_a_window_of_many_bytes_is_one_of_its_own_whatever_texts_it_has(text: str) -> None:
    """Numbers count beside short texts."""
    rng, rows = np.random.default_rng(1), 900
    file = plain_file(1, np.zeros(rows, dtype=np.int64), 0, first=0)
    columns = {"i": rng.integers(-(2**50), 2**50, rows), "x": rng.random(rows), "s": [text] * rows}
    for name, values in columns.items():
        file = file.set_column(file.column_names.index(name), name, pa.array(values))
    with open_store(f"memory:{uuid.uuid4().hex}") as store:
        stream = Simulated(
            SCHEMA, store, 1, partition_by="k", order_by="o", rows=rows, buckets=1,
            aggregates={name: AGGREGATES[name] for name in ("sum_i", "max_x", "last_s")},
        )  # fmt: skip
        stream.play(file, 0)
        stream.play(None, START * 1000)
        (blob,) = stream.blobs()
        assert opened(blob, [store]).versions
