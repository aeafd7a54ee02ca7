"""The examples in the documentation run."""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from typing import Any

DOCUMENTS = Path(__file__).parents[2] / "docs"


def _run(document: str, names: dict[str, Any]) -> None:
    text = (DOCUMENTS / document).read_text()
    (code,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    exec(compile(code, document, "exec"), names)


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
