"""Keys that are forgotten, each for itself: whatever waits, wherever it is, and however many there are."""

from __future__ import annotations

import uuid
from collections import defaultdict
from typing import Any
from unittest import mock

import msgpack
import numpy as np
import pyarrow as pa
import pytest
from chance import seeds
from simulated import Simulated
from stream_reference import watermarks
from streams import NUMBER, START, opened, seconds_of
from test_streaming_buckets import check_stored, small

from mta import monoids
from mta.durability.operations import collect
from mta.keyed import segments, table
from spark_integration.errors import RollingError
from stores import Store, open_store

END = (START + 360_000) * 1000


def make_files(rng: np.random.Generator, keys: int, count: int) -> list[pa.Table]:
    """A minute a file; keys come in bursts, with rows up to some minutes ahead of others."""
    files, first = [], 0
    for number in range(count):
        come = rng.choice(keys, max(1, int(keys * rng.choice([0.1, 0.4, 1.0]))), replace=False)
        ids = np.repeat(come, rng.choice([1, 1, 3, 20], len(come)))
        rng.shuffle(ids)
        seconds = number * 60 + rng.integers(0, 60, len(ids))
        seconds[rng.random(len(ids)) < 0.1] += 200
        seconds[rng.random(len(ids)) < 0.05] -= 130
        files.append(seconds_of(first, seconds.tolist(), k=ids, x=rng.integers(0, 100, len(ids))))
        first += len(ids)
    return files


def wanted(files: list[pa.Table], marks: list[int], rows: int, least: int) -> dict[int, tuple[int, int]]:
    """Number and sum of each row's window, by the rules alone; times are seconds."""
    held: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    waiting: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    found = {}
    for number, mark in enumerate(marks):
        clock = mark / 1000
        for key, late in waiting.items():
            for time, row, x in sorted(each for each in late if each[0] <= clock):
                held[key] = [*held[key], (time, row, x)][-rows:]
                found[row] = len(held[key]), sum(value for _, _, value in held[key])
            late[:] = [each for each in late if each[0] > clock]
        for key, window in held.items():
            if window and window[-1][0] + least <= clock and not waiting[key]:
                window.clear()
        for row in files[number].to_pylist() if number < len(files) else []:
            time = int(row["o"].timestamp())
            if mark <= 0 or time > clock:
                waiting[row["k"]].append((time, row[NUMBER], row["x"]))
    return found


@pytest.mark.parametrize("seed", seeds(12))
def test_random_streams_whose_keys_are_forgotten(seed: int) -> None:
    """With delays longer and shorter than the silence, and rows that wait in states and in documents."""
    rng = np.random.default_rng(seed)
    files = make_files(rng, int(rng.choice([1, 5, 40, 200])), int(rng.integers(3, 14)))
    rows, least = int(rng.choice([1, 3, 12, 50])), int(rng.choice([45, 150, 400]))
    delay = [0, 50, 150, 600][seed % 4] * 1000
    how: dict[str, Any] = {
        "partition_by": "k",
        "order_by": ["o", NUMBER],
        "rows": rows,
        "aggregates": {"n": monoids.Count(), "total": monoids.Sum("x")},
        "page_size": [4, 16, None][rng.integers(3)],
    }
    marks = [*watermarks(files, delay)[: len(files)], END, END + 1]
    with open_store(f"memory:{uuid.uuid4().hex}") as store, small(rng):
        buckets = int(rng.choice([1, 3]))
        stream = Simulated(
            files[0].schema, store, seed, forget_after=f"{least} seconds", buckets=buckets, **how
        )
        for file, mark in zip(files, marks, strict=False):
            stream.play(file, mark)
            check_stored(store, stream.blobs())
        for mark in marks[len(files) :]:
            stream.play(None, mark)
        found = {row[NUMBER]: (row["n"], row["total"]) for row in stream.rows.values()}
        assert found == wanted(files, marks, rows, least)
        nothing_is_left(stream, store)


def wanted_by_the_clock(
    files: list[pa.Table], clocks: list[int], rows: int, least: int
) -> dict[int, tuple[int, int]]:
    """As `wanted`, where rows come out at once; clocks are milliseconds."""
    held: dict[int, list[tuple[int, int, int]]] = {}
    seen: dict[int, int] = {}
    found = {}
    for file, clock in zip(files, clocks, strict=True):
        came: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
        for row in file.to_pylist():
            came[row["k"]].append((int(row["o"].timestamp()), row[NUMBER], row["x"]))
        for key, new in came.items():
            if key in seen and seen[key] + least * 1000 <= clock:
                del held[key], seen[key]
            oldest = held[key][-1][0] if key in held else -1
            for time, number, x in sorted(each for each in new if each[0] >= oldest):
                held[key] = [*held.get(key, []), (time, number, x)][-rows:]
                seen[key] = clock
                found[number] = len(held[key]), sum(value for _, _, value in held[key])
    return found


@pytest.mark.parametrize("seed", seeds(6))
def test_random_streams_whose_keys_are_forgotten_by_the_clock(seed: int) -> None:
    rng = np.random.default_rng(seed)
    files = make_files(rng, int(rng.choice([5, 40, 200])), int(rng.integers(4, 14)))
    rows, least = int(rng.choice([1, 3, 12, 50])), int(rng.choice([45, 150, 400]))
    how: dict[str, Any] = {
        "partition_by": "k",
        "order_by": ["o", NUMBER],
        "rows": rows,
        "aggregates": {"n": monoids.Count(), "total": monoids.Sum("x")},
        "page_size": [4, 16, None][rng.integers(3)],
    }
    clocks = (np.cumsum(rng.integers(1, 120, len(files))) * 1000 + 10**12).tolist()
    with open_store(f"memory:{uuid.uuid4().hex}") as store, small(rng):
        stream = Simulated(
            files[0].schema, store, seed, forget_after=f"{least} seconds", buckets=2, waits=False, **how
        )
        for file, clock in zip(files, clocks, strict=True):
            stream.play(file, clock)
            check_stored(store, stream.blobs())
        found = {row[NUMBER]: (row["n"], row["total"]) for row in stream.rows.values()}
        assert found == wanted_by_the_clock(files, clocks, rows, least)
        nothing_is_left(stream, store)


def nothing_is_left(stream: Simulated, store: Store) -> None:
    for later in range(40):
        stream.play(None, END + 10 + later)
    assert not stream.blobs()
    collect(store, grace=0)
    assert not list(store.list_keys(""))
    assert not list(store.list_roots())


@pytest.mark.parametrize("come_back", [False, True])
def test_thousands_of_long_windows_in_one_bucket_are_forgotten(come_back: bool) -> None:
    """Its state stays small, and the names of what is to be removed are in a document."""
    keys = 120
    rng = np.random.default_rng(1)
    ids = np.repeat(np.arange(keys), 6)
    files = [seconds_of(len(ids) * number, [number * 10] * len(ids), k=ids) for number in range(3)]
    how: dict[str, Any] = {
        "partition_by": "k",
        "order_by": ["o", NUMBER],
        "rows": 10,
        "aggregates": {"n": monoids.Count()},
        "page_size": 2,
    }
    with open_store(f"memory:{uuid.uuid4().hex}") as store, mock.patch.object(table, "LOOKED_AT", 60):
        stream = Simulated(files[0].schema, store, 1, forget_after="100 seconds", buckets=1, **how)
        for file, mark in zip(files, [0, *watermarks(files, 0)[1:]], strict=False):
            stream.play(file, mark)
        stream.play(None, (START + 20) * 1000)
        (blob,) = stream.blobs()
        state = opened(blob, [store])
        assert len(state.stored) == keys + 1
        assert len(blob) < 4_000
        if come_back:
            again = seconds_of(len(ids) * 3, [500] * keys, k=rng.permutation(keys))
            stream.play(again, (START + 200) * 1000)
        else:
            stream.play(None, (START + 200) * 1000)
        (blob,) = stream.blobs()
        assert len(opened(blob, [store]).retired) >= 60
        assert isinstance(msgpack.unpackb(blob, strict_map_key=False)[-1][0], int)
        check_stored(store, stream.blobs())
        nothing_is_left(stream, store)
        if come_back:
            assert {row["n"] for row in stream.rows.values() if row[NUMBER] >= len(ids) * 3} == {1}


@pytest.mark.parametrize("waits", [True, False])
def test_silent_keys_whose_segments_are_written_again_are_forgotten_all_the_same(waits: bool) -> None:
    """Each time they are, before the marks of their segments say that they are over."""
    silent, rounds = 10, 130
    how: dict[str, Any] = {
        "partition_by": "k", "order_by": "o", "rows": 3, "aggregates": {"n": monoids.Count()},
    }  # fmt: skip
    first = seconds_of(0, [0] * silent, k=np.arange(silent))
    with (
        open_store(f"memory:{uuid.uuid4().hex}") as store,
        mock.patch.object(table, "INLINE", 100),
        mock.patch.object(table, "SPREAD", 1),
        mock.patch.object(segments, "BYTES", 60),
    ):
        stream = Simulated(
            first.schema, store, 1, forget_after="50 seconds", buckets=1, waits=waits, **how
        )  # fmt: skip
        stream.play(first, START * 1000)
        for number in range(1, rounds):
            file = seconds_of(silent + number, [number + 1], k=np.array([silent]))
            stream.play(file, (START + number) * 1000)
        (blob,) = stream.blobs()
        assert opened(blob, [store]).segments <= 1


@pytest.mark.parametrize("inline", [True, False])
@pytest.mark.parametrize("page_size", [2, None])
def test_keys_of_a_run_that_forgot_none_are_forgotten_by_a_later_one(
    inline: bool, page_size: int | None
) -> None:
    """Where nobody looked at the clock, it counts from when somebody does; windows are long and short."""
    silent = 40
    how: dict[str, Any] = {
        "partition_by": "k",
        "order_by": ["o", NUMBER],
        "rows": 5,
        "aggregates": {"n": monoids.Count()},
        "page_size": page_size,
    }
    file = seconds_of(0, [0] * 3 * silent, k=np.repeat(np.arange(silent), 3))
    with (
        open_store(f"memory:{uuid.uuid4().hex}") as store,
        mock.patch.object(table, "INLINE", 1 << 15 if inline else 100),
        mock.patch.object(segments, "BYTES", 60),
    ):
        stream = Simulated(file.schema, store, 1, buckets=1, waits=False, **how)
        stream.play(file, START * 1000)
        stream._forget_after = "20 seconds"
        stream.start(file.schema)
        for number in range(60):
            one = seconds_of(3 * silent + number, [number + 1], k=np.array([silent]))
            stream.play(one, (START + 1 + number) * 1000)
        (blob,) = stream.blobs()
        state = opened(blob, [store])
        assert max(state.segments, state.keys_inline) == 1
        assert len(state.stored) <= 2
        back = seconds_of(4 * silent + number, [100] * silent, k=np.arange(silent))
        stream.play(back, (START + 61) * 1000)
        assert {row["n"] for row in stream.rows.values() if row[NUMBER] >= 4 * silent + number} == {1}
        for later in range(60):
            stream.play(None, END + 20_001 * later)
        nothing_is_left(stream, store)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"forget_after": "1 year"}, "forget_after= takes .* a fixed length, which months, .*, got '1 year'"),
        ({"forget_after": "0 seconds", "waits": False}, "forget_after= must be longer than 0"),
        ({"forget_after": "1.5 us"}, "forget_after= takes a duration of whole microseconds, got '1.5 us'"),
        ({"order_by": "s"}, "order_by='s' is of type string, and a stream, which tells by it what is late,"),
    ],
)
def test_what_is_wrong_with_a_call_is_told_of_the_argument_that_has_it(
    changed: dict[str, Any], message: str
) -> None:
    schema = seconds_of(0, [0], k=["a"], s=["a"]).schema
    how: dict[str, Any] = {
        "partition_by": "k",
        "order_by": "o",
        "rows": 2,
        "aggregates": {"n": monoids.Count()},
    }
    with open_store("memory:") as store, pytest.raises(RollingError, match=message):
        Simulated(schema, store, 1, **how | changed)
