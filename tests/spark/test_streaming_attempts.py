"""Attempts at a bucket that run beside each other, fail, or are given bytes that nobody wrote."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from chance import seeds
from simulated import END, SCHEMA, Simulated
from stream_reference import assert_as_wanted, wanted_with_watermark, watermarks
from streams import AGGREGATES, NUMBER, START, opened, seconds_of
from test_streaming_buckets import check_stored, make_files, small

from mta import monoids
from mta.durability.operations import collect
from mta.errors import WindowError
from mta.keyed import segments, table
from spark_integration.streaming import packing
from spark_integration.streaming.packing import MOST_ADDED, QUERY_KEY, pack
from stores import Store, StoreError, open_store

HOW: dict[str, Any] = {
    "partition_by": "k",
    "order_by": ["o", NUMBER],
    "window": "200 seconds",
    "aggregates": {name: AGGREGATES[name] for name in ("sum_x", "last_s", "count")},
    "page_size": 8,
}


class Calls(Store):
    """Hands on to a store, and does something before a call of it."""

    def __init__(self, inner: Store, before: Callable[[str], None]) -> None:
        super().__init__(inner.url)
        self._inner, self._before = inner, before

    def _do(self, name: str, *args: Any) -> Any:
        self._before(name)
        return getattr(self._inner, name)(*args)

    def _put_many(self, items: Any) -> None:
        self._do("put_many", items)

    def _get_many(self, keys: Any) -> Any:
        return self._do("get_many", keys)

    def _delete_many(self, keys: Any) -> None:
        self._do("delete_many", keys)

    def _delete_range(self, prefix: str, start: int, stop: int) -> None:
        self._do("delete_range", prefix, start, stop)

    def _list_keys(self, prefix: str) -> Iterator[str]:
        return self._do("list_keys", prefix)  # type: ignore[no-any-return]

    def _read_root(self, name: str) -> Any:
        return self._do("read_root", name)

    def _swap_root(self, name: str, data: bytes, token: Any) -> Any:
        return self._do("swap_root", name, data, token)

    def _delete_root(self, name: str, token: Any) -> None:
        self._do("delete_root", name, token)

    def _list_roots(self, prefix: str) -> Iterator[str]:
        return self._do("list_roots", prefix)  # type: ignore[no-any-return]

    def _close(self) -> None:
        pass


def files_of(seed: int) -> list[pa.Table]:
    return make_files(np.random.default_rng(seed), 60, 5)


def finish(stream: Simulated, store: Store, files: list[pa.Table]) -> None:
    """All rows are out as they should be, and nothing is left."""
    for later in range(6):
        stream.play(None, END + later)
    wanted = wanted_with_watermark(files, 0, end=END, **HOW)
    assert_as_wanted(stream.rows, wanted.rows, list(HOW["aggregates"]))
    collect(store, grace=0)
    assert not list(store.list_keys(""))
    assert not list(store.list_roots())


@pytest.mark.parametrize("seed", seeds(6))
def test_a_zombie_beside_its_successor_changes_nothing(seed: int) -> None:
    """An attempt stops before some call of the store, another does the whole, and the first goes on."""
    rng = random.Random(seed)
    files = files_of(seed)
    with open_store(f"memory:{uuid.uuid4().hex}") as inner, small(np.random.default_rng(seed)):
        calls, stop_at, inside = 0, -1, False
        zombies = 0

        def before(_name: str) -> None:
            nonlocal calls, inside, zombies
            calls += 1
            if calls == stop_at and not inside:
                inside = True
                zombies += 1
                # Spark's next run of the query, or a speculative copy of the task, which then counts
                answer.append(successor())
                inside = False

        store = Calls(inner, before)
        stream = Simulated(SCHEMA, store, seed, buckets=2, **HOW)
        attempt = stream._attempt
        answer: list[Any] = []
        successor: Callable[[], Any] = list

        def beside(call: Any, key: bytes, arrived: Any, watermark: int) -> Any:
            """The zombie's answer, or its error, does not count where there is a successor."""
            nonlocal calls, stop_at, successor
            if inside or key == QUERY_KEY:
                return attempt(call, key, arrived, watermark)
            calls, stop_at = 0, rng.randrange(1, 14)
            answer.clear()
            successor = lambda: attempt(call, key, arrived, watermark)  # noqa: E731
            try:
                found = attempt(call, key, arrived, watermark)
            except (WindowError, StoreError):
                assert answer
            return answer[0] if answer else found

        with mock.patch.object(stream, "_attempt", beside):
            for file, mark in zip(files, watermarks(files, 0), strict=False):
                stream.play(file, mark)
                check_stored(inner, stream.blobs())
            assert zombies > 3
        finish(stream, inner, files)


@pytest.mark.parametrize("seed", seeds(4))
def test_an_attempt_that_fails_leaves_nothing_behind(seed: int) -> None:
    """At whichever call of the store; the next one gives what it should."""
    files = files_of(seed)
    with open_store(f"memory:{uuid.uuid4().hex}") as inner, small(np.random.default_rng(seed)):
        calls, fail_at = 0, -1

        def before(name: str) -> None:
            nonlocal calls, fail_at
            calls += 1
            if calls == fail_at:
                fail_at = -1
                raise StoreError(f"no {name} today")

        stream = Simulated(SCHEMA, Calls(inner, before), seed, buckets=2, **HOW)
        attempt, failures = stream._attempt, 0

        def failing(call: Any, key: bytes, arrived: Any, watermark: int) -> Any:
            nonlocal calls, fail_at, failures
            for number in range(1, 40, 3):
                calls, fail_at = 0, number
                try:
                    found = attempt(call, key, arrived, watermark)
                except StoreError:
                    failures += 1
                    continue
                fail_at = -1
                return found
            calls, fail_at = 0, -1
            return attempt(call, key, arrived, watermark)

        with mock.patch.object(stream, "_attempt", failing):
            for file, mark in zip(files, watermarks(files, 0), strict=False):
                stream.play(file, mark)
                check_stored(inner, stream.blobs())
        assert failures > 10
        finish(stream, inner, files)


# -- forgetting -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inline", [True, False])
def test_each_key_is_forgotten_for_itself(inline: bool) -> None:
    """In one bucket: a key that comes back in time goes on, and one that comes too late begins anew."""
    every, often, late = 40, 1, 2
    keys = {number: [key for key in range(every) if _comes(key, number, often, late)] for number in range(8)}
    files, first = [], 0
    for number, come in keys.items():
        files.append(seconds_of(first, [number * 60] * len(come), k=come, x=[1.0] * len(come)))
        first += len(come)
    how: dict[str, Any] = {
        "partition_by": "k",
        "order_by": "o",
        "rows": 100,
        "aggregates": {"n": monoids.Count(), "total": monoids.Sum("x")},
    }
    with (
        open_store(f"memory:{uuid.uuid4().hex}") as store,
        mock.patch.object(table, "INLINE", 1 << 15 if inline else 100),
        mock.patch.object(segments, "BYTES", 60),
    ):
        stream = Simulated(files[0].schema, store, 1, forget_after="150 seconds", buckets=1, **how)
        for file, mark in zip(files, watermarks(files, 0), strict=False):
            stream.play(file, mark)
            assert (opened(stream.blobs()[0], [store]).segments > 0) is not inline or not stream.rows
        for later in (60, 120):
            stream.play(None, (START + 7 * 60 + later) * 1000)
        found = {(row["k"], (row["o"].timestamp() - START) // 60): row["n"] for row in stream.rows.values()}
        assert [found[often, number] for number in range(8)] == list(range(1, 9))
        # silent from the first minute to the sixth: by then the watermark has passed 150 s
        assert [found[late, number] for number in (0, 1, 6, 7)] == [1, 2, 1, 2]
        for later in range(6):
            stream.play(None, END + later)
        assert not stream.blobs()
        assert not list(store.list_roots())


def _comes(key: int, number: int, often: int, late: int) -> bool:
    if key == often:
        return True
    if key == late:
        return number not in (2, 3, 4, 5)
    return number < 2


def test_keys_are_forgotten_by_the_clock_where_there_is_no_watermark() -> None:
    how: dict[str, Any] = {
        "partition_by": "k", "order_by": "o", "rows": 100, "aggregates": {"n": monoids.Count()},
    }  # fmt: skip
    come = [["a", "b"], ["a"], ["a"], ["a", "b"], ["b"]]
    files = [seconds_of(2 * n, [n] * len(ks), k=ks) for n, ks in enumerate(come)]
    with open_store(f"memory:{uuid.uuid4().hex}") as store:
        stream = Simulated(
            files[0].schema, store, 1, forget_after="25 seconds", buckets=1, waits=False, **how
        )
        for number, file in enumerate(files):
            stream.play(file, 1_000_000 + 10_000 * number)
        found = sorted((row["k"], row["o"].timestamp() - START, row["n"]) for row in stream.rows.values())
        assert [n for k, _, n in found if k == "a"] == [1, 2, 3, 4]
        assert [n for k, _, n in found if k == "b"] == [1, 1, 2]
        stream.play(None, 2_000_000)
        stream.play(None, 2_000_001)
        assert not stream.blobs()


# -- packing ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gathered", [-1, 0, 7, 1_000, MOST_ADDED, MOST_ADDED + 1])
def test_what_comes_in_is_packed_by_bucket(gathered: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row once, with the digest of its key, whatever the batches; and rows of nothing by their bytes."""
    monkeypatch.setattr(packing, "GATHERED_BYTES", 5_000)
    file = files_of(2)[0]
    with open_store("memory:") as store:
        stream = Simulated(SCHEMA, store, 1, buckets=3, **HOW)
    cells = [
        cell
        for packed in pack(stream._plan.keys, stream._schema, 3, True, gathered, file.to_batches(50))
        for cell in packed.to_pylist()
    ]
    added = [cell for cell in cells if cell["packed"] is None]
    cells = [cell for cell in cells if cell["packed"] is not None]
    size = sum(len(cell["packed"]) for cell in cells)
    wanted = (size - 5_000) * gathered // 5_000 if 0 < gathered <= MOST_ADDED else 0
    # which is counted in floats
    assert abs(len(added) - wanted) <= 1
    assert bool(added) == bool(wanted)
    assert {cell["position"] for cell in added} <= {cell["position"] for cell in cells}
    assert sum(cell["key"] == QUERY_KEY for cell in cells) == 1
    found: dict[int, tuple[bytes, bytes]] = {}
    for cell in cells:
        if cell["key"] == QUERY_KEY:
            continue
        for row in pa.ipc.read_record_batch(pa.py_buffer(cell["packed"]), stream._schema.keyed).to_pylist():
            found[row["c0"]] = cell["key"], row["key"]
    assert found.keys() == set(file[NUMBER].to_pylist())
    keys = dict(zip(file[NUMBER].to_pylist(), file["k"].to_pylist(), strict=True))
    of_key: dict[Any, set[tuple[bytes, bytes]]] = {}
    for number, both in found.items():
        of_key.setdefault(keys[number], set()).add(both)
    assert all(len(each) == 1 for each in of_key.values())
    assert len({next(iter(each)) for each in of_key.values()}) == len(of_key)
    assert len({bucket for bucket, _ in found.values()}) == 3


def test_no_more_is_added_than_makes_spark_hand_on_all_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "GATHERED_BYTES", 1_000)
    filling = packing.Filling(7)
    assert [filling.behind(size) for size in (999, 1, 500, 500, 10**9, 0, 1_000)] == [0, 0, 3, 4, 7, 0, 7]


def test_many_tasks_of_few_rows_fill_up_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "GATHERED_BYTES", 1_000)
    tasks = 2_000
    added = sum(packing.Filling(100, task).behind(900) for task in range(tasks))
    assert (tasks * 0.9 - 2) * 100 - tasks <= added <= tasks * 90


@pytest.mark.parametrize("waits", [True, False])
def test_rows_of_one_time_come_as_they_were_in_whatever_parts_they_are_handed_on(waits: bool) -> None:
    """Many batches of one key and time, with what fills up between them."""
    count = 400
    file = seconds_of(0, [1] * count, k=[1] * count, s=[f"{number:0200}" for number in range(count)])
    how: dict[str, Any] = {
        "partition_by": "k", "order_by": "o", "rows": 2,
        "aggregates": {"before": monoids.First("s")},
    }  # fmt: skip
    batches = pa.Table.from_batches(file.to_batches(max_chunksize=10))
    with open_store(f"memory:{uuid.uuid4().hex}") as store:
        stream = Simulated(file.schema, store, 1, waits=waits, **how)
        stream.play(batches, 0)
        stream.play(None, END)
    assert len(stream.rows) == count
    for number, row in stream.rows.items():
        assert int(row["before"]) == max(0, number - 1)
