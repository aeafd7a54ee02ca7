"""The examples in the documentation run."""

from __future__ import annotations

import datetime
import inspect
import re
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
from pyspark.sql import functions
from rolled import column, roll

from mta import policies
from spark_integration import rolling
from spark_integration.call import stores

DOCUMENTS = Path(__file__).parents[2] / "docs"


def _run(document: str, names: dict[str, Any], number: int = 0) -> None:
    text = (DOCUMENTS / document).read_text()
    code = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[number]
    exec(compile(code, document, "exec"), names)


def test_the_example_of_a_monoid() -> None:
    names: dict[str, Any] = {}
    _run("spark.md", names, 1)
    table = pa.table({"k": [1] * 3, "o": range(3), "s": ["b a", None, "c b"]})
    words = column(roll(table, rows=2, aggregates={"words": names["Words"]("s")}), "words")
    assert words == ["a b", "a b", "b c"]


def test_the_examples_of_help(spark: Any) -> None:
    """None of them runs a job."""
    day = datetime.datetime(2024, 1, 1)
    df = spark.createDataFrame([("a", day, 1.0)], "user string, ts timestamp, amount double")
    events = spark.readStream.format("rate").load().selectExpr("timestamp AS ts", "value AS amount")
    names = {"df": df, "events": events, "F": functions, "DAY": 86_400_000_000, "policies": policies}
    _, _, text = (inspect.getdoc(rolling) or "").partition("\n\n")
    first, _, further = text.partition("\n\nhas the")
    exec(inspect.cleandoc(first), names)
    assert names["out"].columns == ["user", "ts", "amount", "peak", "n"]
    code = further.partition("Others:\n\n")[2].partition("\n\nwhere F")[0]
    assert code.count("rolling(") == 4
    with mock.patch.object(stores, "try_store"):  # there is no such host
        exec(inspect.cleandoc(code), names)


def test_the_example(spark: Any) -> None:
    day = datetime.datetime(2024, 1, 1)
    rows = [("a", day + datetime.timedelta(days=40 * i), float(i)) for i in range(5)]
    names: dict[str, Any] = {"df": spark.createDataFrame(rows, "user string, ts timestamp, amount double")}
    _run("spark.md", names)
    out = names["out"].orderBy("ts").collect()
    assert [(row.peak, row.mean, row.n) for row in out] == [
        (0.0, 0.0, 1),
        (1.0, 0.5, 2),
        (2.0, 1.0, 3),
        (3.0, 2.0, 3),
        (4.0, 3.0, 3),
    ]


def test_the_example_of_a_stream(spark: Any, tmp_path: Path) -> None:
    day = datetime.datetime(2024, 1, 1)
    rows = [("a", day + datetime.timedelta(days=40 * i), float(i)) for i in range(5)]
    schema = "user string, ts timestamp, amount double"
    spark.createDataFrame(rows, schema).write.parquet(str(tmp_path / "in"))
    names: dict[str, Any] = {
        "events": spark.readStream.schema(schema).parquet(str(tmp_path / "in")),
        "store": f"rocksdb://{tmp_path / 'windows'}",
        "path": str(tmp_path / "out"),
        "checkpoint": str(tmp_path / "checkpoint"),
    }
    _run("streaming.md", names)
    try:
        names["query"].processAllAvailable()
    finally:
        names["query"].stop()
    out = spark.read.parquet(str(tmp_path / "out")).orderBy("ts").collect()
    # the last one waits for the watermark
    assert [(row.peak, row.n) for row in out] == [(0.0, 1), (1.0, 2), (2.0, 3), (3.0, 3)]
