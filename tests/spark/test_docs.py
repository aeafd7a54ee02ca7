"""The example in the documentation runs."""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from typing import Any

import pytest

DOCUMENT = Path(__file__).parents[2] / "docs" / "spark.md"


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_the_example(spark: Any) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    day = datetime.datetime(2024, 1, 1)
    rows = [("a", day + datetime.timedelta(days=40 * i), float(i)) for i in range(5)]
    names: dict[str, Any] = {"df": spark.createDataFrame(rows, "user string, ts timestamp, amount double")}
    exec(compile(code, DOCUMENT.name, "exec"), names)
    out = names["out"].orderBy("ts").collect()
    assert [(row.peak, row.mean, row.n) for row in out] == [
        (0.0, 0.0, 1),
        (1.0, 0.5, 2),
        (2.0, 1.0, 3),
        (3.0, 2.0, 3),
        (4.0, 3.0, 3),
    ]
