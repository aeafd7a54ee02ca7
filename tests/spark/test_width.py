"""Many groups at once, windows longer than any group, and results that are larger than the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from chance import seeds
from rolled import column, roll

from mta import monoids, policies
from mta.keyed import folds
from mta.times.cuts import boundaries, cuts
from spark_integration.aggregates import results
from spark_integration.partition import emitter

MB = 1 << 20


def groups(seed: int, kind: str) -> tuple[Any, Any, Any]:
    """Where groups begin, how long they are, and times that never go backwards within each."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, int(rng.choice([2, 5, 40])), int(rng.integers(2, 200)))
    scale = float(rng.choice([1, 1e3, 2.0**52, 1e300])) if kind == "f" else int(rng.choice([1, 10**6, 2**40]))
    parts = [np.sort(rng.integers(-20, 20, length) * scale / (4 if kind == "f" else 1)) for length in lengths]
    times = np.concatenate(parts).astype(np.float64 if kind == "f" else np.int64)
    return np.cumsum(lengths) - lengths, lengths, times


@pytest.mark.parametrize("kind", ["f", "i"])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("seed", seeds(20))
def test_windows_of_many_groups_begin_where_those_of_each_do(seed: int, side: Any, kind: str) -> None:
    starts, lengths, times = groups(seed, kind)
    rng = np.random.default_rng(seed)
    for span in (1, 0.3, 7, float(rng.integers(1, 10**9)), 2**53, 2**62, 2**63 - 1, 1e300):
        found = np.maximum(folds.since(starts, lengths, times, span, side), np.repeat(starts, lengths))
        wanted = np.concatenate(
            [
                start + boundaries(part, cuts(part, span, side), side)
                for start, part in zip(starts.tolist(), np.split(times, starts[1:]), strict=True)
            ]
        )
        assert found.tolist() == wanted.tolist(), span


@pytest.mark.parametrize("kind", ["f", "i"])
def test_many_groups_are_one_search_whatever_the_span(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    searched = []

    def counted(*arguments: Any) -> Any:
        searched.append(1)
        return cuts(*arguments)

    monkeypatch.setattr(folds, "cuts", counted)
    starts, times = np.arange(10_000), np.arange(10_000).astype(np.float64 if kind == "f" else np.int64)
    for span in (10, 36_500 * 86_400_000_000, 2**63 - 1):
        folds.since(starts, np.ones_like(starts), times, span, "left")
    assert len(searched) <= 3


@pytest.mark.parametrize("how", [{"rows": 2**64}, {"policy": policies.CountWindow(10**30)}], ids=str)
@pytest.mark.parametrize("algorithm", ["amta", "lmta", "daba"])
def test_windows_of_more_rows_than_there_can_be(how: dict[str, Any], algorithm: Any) -> None:
    table = pa.table({"k": np.repeat(np.arange(40), 5), "o": np.arange(200), "x": np.ones(200, dtype=int)})
    for chunk in (7, 1000):
        out = roll(table, aggregates={"s": monoids.Sum("x")}, algorithm=algorithm, chunk=chunk, **how)
        assert column(out, "s") == [1, 2, 3, 4, 5] * 40


# -- large results ------------------------------------------------------------------------------------------


class Bytes:
    """How many bytes of results any batch had."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.most = 0
        joined = emitter.Appender._joined

        def seen(appender: Any, batch: Any, columns: Any) -> Any:
            self.most = max(self.most, sum(each.nbytes for each in columns))
            return joined(appender, batch, columns)

        monkeypatch.setattr(emitter.Appender, "_joined", seen)


KINDS = {
    "text": (monoids.First("x"), lambda text: text),
    "a list": (monoids.Collect("x"), lambda text: [text]),
    "fields": (monoids.Fields(a=monoids.First("x"), n=monoids.Count()), lambda text: {"a": text, "n": 1}),
    "bytes": (monoids.First("b"), lambda text: text.encode()),
}


@pytest.mark.parametrize("what", KINDS)
@pytest.mark.parametrize(
    "how",
    [{"rows": 10**6}, {"window": 10**6, "order_by": "same"}, {"window": 10**6}],
    ids=["rows", "peers", "time"],
)
def test_one_long_text_becomes_many_results(
    how: dict[str, Any], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of which no batch has more than so many bytes, or one row."""
    monoid, _ = KINDS[what]
    texts = ["x" * MB] + ["y"] * 99
    table = pa.table(
        {
            "o": np.arange(100),
            "same": np.zeros(100, dtype=int),
            "x": texts,
            "b": pa.array([text.encode() for text in texts]),
        }
    )
    for module in (results, emitter):
        monkeypatch.setattr(module, "PART_BYTES", 4 * MB)
    seen = Bytes(monkeypatch)
    for chunk in (1000, 30):
        out = roll(table, partition_by=None, aggregates={"f": monoid}, batch=50, chunk=chunk, **how)
        found = column(out, "f")
        assert len(found) == 100
        for row, value in enumerate(found):
            upto = texts if how.get("order_by") else texts[: row + 1]
            wanted = {"text": upto[0], "bytes": upto[0].encode(), "a list": upto}.get(
                what, {"a": upto[0], "n": len(upto)}
            )
            assert value == wanted
    assert MB < seen.most < 5 * MB


def test_a_result_that_is_larger_than_a_part_is_a_batch_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "PART_BYTES", 10)
    table = pa.table({"o": np.arange(6), "x": ["a" * 5, "b" * 50, "c" * 50, "d", "e", "f" * 3]})
    out = roll(table, partition_by=None, rows=1, aggregates={"f": monoids.First("x")})
    assert column(out, "f") == table["x"].to_pylist()
    assert [each.num_rows for each in out.to_batches()] == [1, 1, 1, 3]
