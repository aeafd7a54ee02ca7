"""Names of a query's windows in its store: they are short enough, whatever the aggregates are called."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from simulated import QUERY, Simulated
from streams import SCHEMA, opened, seconds_of

from mta import monoids
from spark_integration.streaming import query
from stores import Store, open_store
from stores.names import MAX_NAME_BYTES, escape_name

NAMES = {
    "in Japanese": [
        "過去九十日間の最高気温の値",
        "過去九十日間の平均気温の値",
        "過去九十日間の最低気温の値",
        "過去九十日間の観測の回数",
    ],
    "escaped": ["{%}" * 30],
    "of many bytes": ["🌡" * 70],
    "with slashes": ["a/b/" * 40],
}


class Hot:
    """A query over one key, whose rows have a second each."""

    def __init__(self, store: Store, names: list[str], **how: Any) -> None:
        how = {"partition_by": "k", "order_by": "o", "rows": 30, "page_size": 4, "buckets": 1} | how
        aggregates = {name: monoids.Count() for name in names}
        self.stream = Simulated(SCHEMA, store, 1, aggregates=aggregates, waits=False, **how)
        self._store, self._names, self._rows = store, names, 0

    def play(self, count: int) -> None:
        """A micro-batch of so many rows."""
        came = seconds_of(self._rows, list(range(self._rows, self._rows + count)))
        nothing = {name: pa.nulls(count, SCHEMA.field(name).type) for name in SCHEMA.names}
        table = pa.table({**nothing, "r": came["r"], "o": came["o"]}, schema=SCHEMA)
        self.stream.play(table, 0)
        self._rows += count
        found = [[row[name] for name in self._names] for _, row in sorted(self.stream.rows.items())]
        assert found == [[min(number + 1, 30)] * len(self._names) for number in range(self._rows)]

    def stored(self) -> set[str]:
        """The names of what the state has in the store."""
        (blob,) = self.stream.blobs()
        return opened(blob, [self._store]).in_store


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
def test_a_key_grows(names: list[str]) -> None:
    with open_store("memory:") as store:
        hot = Hot(store, names)
        for _ in range(4):
            hot.play(3)
        hot.play(90)
        hot.play(7)
        stored = hot.stored()
        assert stored
        assert all(name.startswith(f"stream/{QUERY}/rolling_") for name in stored)
        assert all(len(escape_name(name).encode()) < MAX_NAME_BYTES for name in stored)


def test_names_that_have_room_stay() -> None:
    with open_store("memory:") as store:
        hot = Hot(store, ["peak", "気温"])
        hot.play(40)
        (name,) = hot.stored()
        assert name.startswith(f"stream/{QUERY}/rolling_peak_気温/")


def test_names_that_begin_alike_are_told_apart() -> None:
    first, second = (query.operator_name(["気温" * 40, last]) for last in "ab")
    assert first != second
    assert len(first.encode()) <= 60
    assert first.startswith("rolling_気温気温")


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
@pytest.mark.parametrize("rows", [3, 40])
def test_a_query_of_an_earlier_version_goes_on(
    names: list[str], rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its states have names that were cut at 60 letters, whatever bytes these have."""
    with open_store("memory:") as store:
        with monkeypatch.context() as patch:
            patch.setattr(query, "operator_name", lambda names: f"rolling_{'_'.join(names)}"[:60])
            hot = Hot(store, names)
            hot.play(2)
        old = hot.stream._stream.operator
        hot.stream.start(SCHEMA)
        assert hot.stream._stream.operator != old
        for _ in range(3):
            hot.play(rows)
        hot.play(90)
        assert hot.stored()


def test_windows_of_an_earlier_version_stay_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name of 60 letters and some more bytes left room for all that stood behind it."""
    names = ["temperature in °C, over the last thirty", "number of readings"]
    with open_store("memory:") as store:
        with monkeypatch.context() as patch:
            patch.setattr(query, "operator_name", lambda names: f"rolling_{'_'.join(names)}"[:60])
            hot = Hot(store, names)
            hot.play(2)
            hot.play(40)
        before = hot.stored()
        hot.stream.start(SCHEMA)
        hot.play(40)
        assert hot.stored() == before


def test_documents_of_an_earlier_version_stay_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Theirs are shorter than the names of windows: some had room where windows had none."""
    names = ["湿度" * 18]
    with open_store("memory:") as store, mock.patch("mta.keyed.table.INLINE", 0):
        with monkeypatch.context() as patch:
            patch.setattr(query, "operator_name", lambda names: f"rolling_{'_'.join(names)}"[:60])
            hot = Hot(store, names)
            hot.play(2)
        before = hot.stored()
        assert before == {f"stream/{QUERY}/rolling_{names[0]}/0/rows"}
        hot.stream.start(SCHEMA)
        hot.play(90)
        assert before < hot.stored()
