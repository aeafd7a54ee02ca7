"""Random streams without Spark: tasks that run twice, micro-batches played again, silence at the end."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from chance import seeds
from simulated import Simulated
from stream_reference import assert_as_wanted, wanted_with_watermark, watermarks
from streams import AGGREGATES, NUMBER, POLICY, SCHEMA, START, make_files, opened

from mta import policies
from mta.durability.operations import collect
from mta.keyed import table
from spark_integration.streaming import backlog
from stores import open_store


@pytest.mark.parametrize("seed", seeds(12))
def test_random_streams(seed: int) -> None:
    rng = np.random.default_rng(seed)
    frames: list[dict[str, Any]] = [
        {"rows": int(rng.integers(1, 100)), "forget_after": "10 minutes"},
        {"window": f"{rng.integers(1, 200)} seconds"},
        {"window": f"{rng.integers(1, 200)} seconds", "closed": "right"},
        {"policy": POLICY | policies.TimeWindow(60_000_000)},
    ]
    names = rng.choice(list(AGGREGATES), int(rng.integers(1, 6)), replace=False).tolist()
    how: dict[str, Any] = {
        "partition_by": [None, "k", ["f", "k"]][rng.integers(3)],
        "order_by": [["o"], ["o", "tie"], ["o", "x", "s"], ["o", NUMBER]][rng.integers(4)],
        "aggregates": {name: AGGREGATES[name] for name in (*names, "count")},
        "algorithm": str(rng.choice(["amta", "lmta"])),
        "page_size": [2, 4, 32, None][rng.integers(4)],
        **frames[seed % 4],
    }
    files = make_files(seed, int(rng.integers(1, 9)), int(rng.integers(1, 200)))
    delay = int(rng.choice([0, 1, 15_500, 70_000]))
    end = (START + 3600) * 1000
    name = f"memory:{uuid.uuid4().hex}"
    # a page or two of rows that wait are documents, as are lists of them
    with open_store(name) as store, documents_of(int(rng.choice([100, 2000, 12 << 10])), 5):
        stream = Simulated(SCHEMA, store, seed, **how)
        marks = watermarks(files, delay)
        for file, mark in zip(files, marks, strict=False):
            stream.play(file, mark)
        for later in range(6):
            stream.play(None, end + later)
        how.pop("forget_after", None)
        wanted = wanted_with_watermark(files, delay, end=end, **how)
        assert_as_wanted(stream.rows, wanted.rows, list(how["aggregates"]))
        assert stream.late[: len(files)] == wanted.late
        assert not stream.blobs()
        collect(store, grace=0)
        assert not list(store.list_keys(""))
        assert not list(store.list_roots())


def in_any_order(rng: np.random.Generator, file: pa.Table) -> pa.Table:
    return file.select(rng.permutation(file.column_names).tolist())


@pytest.mark.parametrize("seed", seeds(4))
def test_columns_change_while_rows_of_before_wait(seed: int) -> None:
    """Most rows wait in documents, some of which are passed on in part before the columns change."""
    rng = np.random.default_rng(seed)
    how: dict[str, Any] = {
        "partition_by": ["f", "k"],
        "order_by": ["o", "tie"],
        "window": "50 seconds",
        "aggregates": {name: AGGREGATES[name] for name in ("sum_x", "min_i", "last_s", "newest", "count")},
        "page_size": 4,
    }
    files = make_files(seed, 6, 120)
    played = []
    for number, file in enumerate(files):
        old = number < 3
        file = in_any_order(rng, file)
        if old:
            # its values are quarters
            file = file.set_column(file.column_names.index("x"), "x", file["x"].cast(pa.float32()))
        new = pa.array([f"{number}"] * file.num_rows)
        wide = pa.array([number] * file.num_rows, pa.int16() if old else pa.float64())
        file = file.add_column(int(rng.integers(8)), "old" if old else "new", new)
        played.append(file.add_column(int(rng.integers(8)), "wide", wide))
    with (
        open_store(f"memory:{uuid.uuid4().hex}") as store,
        documents_of(100, 5),
        # keys are in segments
        mock.patch.object(table, "INLINE", 100),
    ):
        stream = Simulated(played[0].schema, store, seed, **how)
        marks, segments = watermarks(files, 90_000), 0
        for file, mark in zip(played, marks, strict=False):
            stream.start(file.schema)
            stream.play(file, mark)
            segments += sum(opened(blob, [store]).segments for blob in stream.blobs())
        assert segments
        end = (START + 3600) * 1000
        for later in range(6):
            stream.play(None, end + later)
        wanted = wanted_with_watermark(files, 90_000, end=end, **how)
        assert_as_wanted(stream.rows, wanted.rows, ["x", "i", "s", "k", *how["aggregates"]])
        waited = 0
        for number, row in stream.rows.items():
            of_file = number // 120
            assert row["wide"] == of_file
            assert row.get("new") == (f"{of_file}" if of_file >= 3 else None)
            waited += of_file < 3 and "new" in row
        assert waited > 50
        collect(store, grace=0)
        assert not list(store.list_keys(""))


def test_rows_that_are_held_are_counted_once() -> None:
    """However many batches they come in."""
    looked = 0

    class Batch:
        @property
        def num_rows(self) -> int:
            nonlocal looked
            looked += 1
            return 2

    held = backlog.Held()
    for _ in range(1000):
        held.add(Batch())
        assert held.rows <= backlog.HELD_ROWS
    assert (looked, held.rows, len(held.released()), held.rows) == (1000, 2000, 1000, 0)


@contextmanager
def documents_of(size: int, rows: int) -> Iterator[None]:
    """Rows that wait stand in the state up to a size, and behind it in documents of so many."""
    with (
        mock.patch.object(backlog, "INLINE", size),
        mock.patch.object(backlog, "TABLE", size),
        mock.patch.object(backlog, "DOCUMENT_ROWS", rows),
        mock.patch.object(backlog, "HELD_ROWS", 10 * rows),
    ):
        yield
