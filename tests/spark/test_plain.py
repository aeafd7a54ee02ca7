"""Values that Spark has and Python does not: text that is no UTF-8, years beyond 9999, zones of Java's."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as sql
from rolled import column, roll
from simulated import Simulated
from streams import NUMBER, START

from mta import monoids
from spark_integration.aggregates.inputs import Input
from spark_integration.errors import DataError
from spark_integration.partition.plain import shown, values_of
from spark_integration.streaming.digests import key_column
from stores import open_store

#: Bytes that Spark takes for text, and Python does not; the last are half of a letter.
BAD = [b"\xff", b"a\xffb", b"\xed\xa0\x80"]


def text(values: list[bytes | None]) -> pa.Array:
    """As Spark hands over text, which nobody has checked."""
    found = pa.array(values, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(found), found.buffers())


def data_of(found: pa.Array | pa.ChunkedArray) -> list[bytes | None]:
    if isinstance(found, pa.ChunkedArray):
        return [value for chunk in found.chunks for value in data_of(chunk)]
    return [None if not each.is_valid else each.as_buffer().to_pybytes() for each in found]


def nested(kind: str, values: pa.Array) -> pa.Array:
    """A column whose values have one text each."""
    ones = pa.array(range(len(values) + 1), pa.int32())
    if kind == "struct":
        return pa.StructArray.from_arrays([values], ["a"])
    if kind == "array":
        return pa.ListArray.from_arrays(ones, values)
    if kind == "map":
        return pa.MapArray.from_arrays(ones, pa.array(["x"] * len(values)), values)
    return values


def inside(kind: str, values: list[Any]) -> list[Any]:
    """What `values_of` a nested column has."""
    wrapped: dict[str, Any] = {
        "struct": lambda each: {"a": each},
        "array": lambda each: [each],
        "map": lambda each: [("x", each)],
    }
    return [wrapped.get(kind, lambda each: each)(each) for each in values]


KINDS = ("text", "struct", "array", "map")
COUNT = {"n": monoids.Count()}


@pytest.mark.parametrize("kind", KINDS)
def test_values_of_text_that_is_no_utf_8(kind: str) -> None:
    column = nested(kind, text([b"a", *BAD, None, "ä".encode()]))
    assert values_of(column) == inside(kind, ["a", *BAD, None, "ä"])
    assert values_of(column.slice(2, 2)) == inside(kind, BAD[1:])
    assert values_of(column.slice(0, 1)) == inside(kind, ["a"])


# -- in a batch job -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_text_that_is_no_utf_8_passes_through(kind: str) -> None:
    values = nested(kind, text([*BAD, b"ok", None, *BAD]))
    table = pa.table({"k": [1] * 8, "o": range(8), "s": values})
    out = roll(table, rows=3, aggregates={**COUNT, "there": monoids.Count("s")}, batch=3, chunk=2)
    assert values_of(out["s"].combine_chunks()) == values_of(values)
    there = [True] * 4 + [kind != "text"] + [True] * 3
    assert column(out, "there") == [sum(there[max(0, at - 2) : at + 1]) for at in range(8)]


@pytest.mark.parametrize("kind", ["text", "struct", "array"])
def test_text_that_is_no_utf_8_as_a_key(kind: str) -> None:
    keys = nested(kind, text([None, b"a", b"\xfe", b"\xfe", b"\xff", b"\xff", b"\xff"]))
    out = roll(pa.table({"k": keys, "o": range(7)}), rows=9, aggregates=COUNT, batch=2, chunk=1)
    assert column(out, "n") == [1, 1, 1, 2, 1, 2, 3]


INPUTS = {
    "First": monoids.First("s"),
    "Max": monoids.Max("s"),
    "CountDistinct": monoids.CountDistinct("s"),
    "Collect": monoids.Collect("s"),
    "ArgMax": monoids.ArgMax("o", "s"),
    "ArgMin": monoids.ArgMin("s", "o"),
}
REFUSED = (
    r"^the row k='k', o=4: column 's' holds text that is no UTF-8, b'a\\xffb': cast it to binary, or mend "
    r"it by make_valid_utf8$"
)


@pytest.mark.parametrize("monoid", INPUTS.values(), ids=INPUTS)
@pytest.mark.parametrize("how", [{"rows": 3}, {"rows": 3, "algorithm": "daba"}, {"window": 5}], ids=str)
def test_text_that_is_no_utf_8_as_an_input(monoid: Any, how: dict[str, Any]) -> None:
    values = text([b"a", None, b"b", b"", BAD[1], b"c"])
    table = pa.table({"k": ["k"] * 6, "o": range(6), "s": values})
    with pytest.raises(DataError, match=REFUSED) as raised:
        roll(table, aggregates={"a": monoid}, batch=4, **how)
    assert "\n" not in str(raised.value)
    aggregates = {"a": monoids.Last("s"), "n": monoids.CountDistinct("s")}
    out = roll(table.set_column(2, "s", values.cast(pa.binary())), rows=9, aggregates=aggregates)
    assert column(out, "a")[-2:] == [BAD[1], b"c"]
    assert column(out, "n")[-1] == 5


def test_the_row_with_it_may_be_the_key() -> None:
    table = pa.table({"k": text([BAD[1]] * 2), "o": [1.0, 2.0], "x": [1.0, -1.0]})
    with pytest.raises(
        DataError, match=r"^the row k=b'a\\xffb', o=2\.0: GeometricMean\('x'\) takes no negative"
    ):
        roll(table, rows=3, aggregates={"a": monoids.GeometricMean("x")})


# -- in a stream --------------------------------------------------------------------------------------------


class Played:
    """Three micro-batches of rows with a second each, and the rows that came out, by number."""

    def __init__(self, values: pa.Array, *, waits: bool, **how: Any) -> None:
        count = len(values)
        table = pa.table(
            {
                NUMBER: pa.array(range(count), pa.int64()),
                "o": pa.array([(START + each) * 10**6 for each in range(count)], pa.timestamp("us", "UTC")),
                "k": ["k"] * count,
                "s": values,
            }
        )
        how = {"partition_by": "k", "order_by": "o", "rows": 99, "aggregates": COUNT, "buckets": 3} | how
        with open_store("memory:") as store:
            stream = Simulated(table.schema, store, 1, waits=waits, **how)
            third = count // 3
            for start in range(0, count, third):
                # the watermark is behind, so that rows wait for two micro-batches
                stream.play(table.slice(start, third), (START + start - third) * 1000)
            stream.play(None, (START + count) * 1000)
        rows = [row for _, row in sorted(stream.rows.items())]
        assert len(rows) == count
        self.rows = rows


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_text_that_is_no_utf_8_passes_through_a_stream(kind: str, waits: bool) -> None:
    values = nested(kind, text([*BAD, b"ok", None, *BAD, b"\xfe", b"\xfd"]))
    played = Played(values.take(pa.array(list(range(9)))), waits=waits)
    assert [row["s"] for row in played.rows] == values_of(values)[:9]
    assert [row["n"] for row in played.rows] == list(range(1, 10))


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_text_that_is_no_utf_8_as_a_key_of_a_stream(kind: str, waits: bool) -> None:
    values = nested(kind, text([b"\xff", b"a", b"\xff", b"\xfe", b"\xfe", None, b"\xff", b"a", b"\xfe"]))
    played = Played(values, waits=waits, partition_by="s")
    assert [row["n"] for row in played.rows] == [1, 1, 2, 1, 2, 1, 3, 2, 3]


@pytest.mark.parametrize("waits", [True, False])
def test_text_that_is_no_utf_8_as_an_input_of_a_stream(waits: bool) -> None:
    values = text([b"a", None, b"b", b"", BAD[1], b"c"])
    refused = REFUSED.replace("o=4", r"o=2020-09-13 12:26:44\+00:00")
    with pytest.raises(DataError, match=refused):
        Played(values, waits=waits, aggregates={"a": monoids.Max("s")})


@pytest.mark.parametrize(
    ("values", "digest"),
    [
        (pa.array(["ä"]), "b36979a0021c12878a9735fab0ecf9da"),
        (pa.array([["ä", None]]), "1cf075b2730f9520aee21259985b45af"),
        (pa.array([1.5]), "52932e29daf3258f389aaf5865b8d75d"),
        (pa.array([[0]], pa.list_(pa.timestamp("us", "GMT+1"))), "a3838a038101d0381bba3f149f1c3195"),
    ],
    ids=str,
)
def test_digests_of_keys_stay(values: pa.Array, digest: str) -> None:
    """Checkpoints have them, so they are what an earlier version made them."""
    found, _ = key_column(pa.record_batch({"k": values}), [Input("k", 0, sql.NullType(), True)])
    assert found.tobytes().hex() == digest


# -- for people ---------------------------------------------------------------------------------------------

EARLY, LATE = -62_135_596_800_000_001, 253_402_300_800_000_000


def at(value: int, zone: str | None = None) -> pa.Array:
    return pa.array([value], pa.timestamp("us", zone))


SHOWN = {
    "a time": (at(0), "1970-01-01 00:00:00"),
    "an instant": (at(1, "UTC"), "1970-01-01 00:00:00.000001+00:00"),
    "a zone": (at(0, "Asia/Kolkata"), "1970-01-01 05:30:00+05:30"),
    "a zone and its summer": (at(1_600_000_000_000_000, "Europe/Berlin"), "2020-09-13 14:26:40+02:00"),
    "GMT+1": (at(0, "GMT+1"), "1970-01-01 01:00:00+01:00"),
    "UTC-03:30": (at(0, "UTC-03:30"), "1969-12-31 20:30:00-03:30"),
    "UT+3": (at(0, "UT+3"), "1970-01-01 03:00:00+03:00"),
    "+05:00": (at(0, "+05:00"), "1970-01-01 05:00:00+05:00"),
    "-8": (at(0, "-8"), "1969-12-31 16:00:00-08:00"),
    "+0130": (at(0, "+0130"), "1970-01-01 01:30:00+01:30"),
    "GMT+01:30:15": (at(0, "GMT+01:30:15"), "1970-01-01 01:30:15+01:30:15"),
    "an offset that is none": (at(0, "+99:00"), "1970-01-01 00:00:00+00:00"),
    "a zone of Java's": (at(0, "PST"), "1970-01-01 00:00:00+00:00"),
    "a zone that is a path": (at(0, "../UTC"), "1970-01-01 00:00:00+00:00"),
    "a zone that is a directory": (at(0, "Asia"), "1970-01-01 00:00:00+00:00"),
    "year 10000": (at(LATE, "UTC"), "10000-01-01 00:00:00+00:00"),
    "year 10000 by its zone": (at(LATE - 1, "GMT+1"), "9999-12-31 23:59:59.999999+00:00"),
    "year 10000 without one": (at(LATE), "10000-01-01 00:00:00"),
    "year 0": (at(EARLY, "UTC"), "0000-12-31 23:59:59.999999+00:00"),
    "the last": (at(2**63 - 1, "GMT+1"), "294247-01-10 04:00:54.775807+00:00"),
    "a date": (pa.array([dt.date(2024, 2, 29)]), "2024-02-29"),
    "a date of year 10000": (pa.array([2_932_897], pa.date32()), "10000-01-01"),
    "a number": (pa.array([1.5]), "1.5"),
    "a decimal": (pa.array([Decimal("1.50")]), "1.50"),
    "an interval": (pa.array([dt.timedelta(days=2)]), "2 days, 0:00:00"),
    "null": (pa.nulls(1), "None"),
    "a null of times": (pa.array([None], pa.timestamp("us", "GMT+1")), "None"),
    "text": (pa.array(["ä\n"]), "'ä\\n'"),
    "text that is none": (text([BAD[0]]), "b'\\xff'"),
    "bytes": (pa.array([b"a"]), "b'a'"),
    "an array": (
        pa.ListArray.from_arrays(
            pa.array([0, 2], pa.int32()), pa.array([LATE, None], pa.timestamp("us", "GMT+1"))
        ),
        "[10000-01-01 00:00:00+00:00, None]",
    ),
    "a struct": (pa.array([{"a": 1, "b": "x"}]), "{'a': 1, 'b': 'x'}"),
    "a map": (pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())), "{'a': 1}"),
}


@pytest.mark.parametrize(("column", "wanted"), SHOWN.values(), ids=SHOWN)
def test_shown(column: pa.Array, wanted: str) -> None:
    assert shown(column[0]) == wanted


@pytest.mark.parametrize("zone", ["GMT+1", "+01:00", "UTC+3", "EST", "PST"])
def test_the_row_of_an_error_in_any_zone(zone: str) -> None:
    times = pa.array([0, LATE], pa.timestamp("us", zone))
    keys = pa.ListArray.from_arrays(
        pa.array([0, 1, 2], pa.int32()), pa.array([5, 5], pa.timestamp("us", zone))
    )
    table = pa.table({"k": keys, "o": times, "x": [1.0, -1.0]})
    assert column(roll(table, window="1 day", aggregates=COUNT, zone=zone, batch=1), "n") == [1, 1]
    assert column(roll(table, rows=9, aggregates=COUNT, zone=zone, batch=1), "n") == [1, 2]
    with pytest.raises(DataError, match=r"^the row k=\[.*\], o=10000-01-01 00:00:00\+00:00: GeometricMean"):
        roll(table, rows=3, aggregates={"a": monoids.GeometricMean("x")}, zone=zone)
