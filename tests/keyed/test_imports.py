"""The keyed store stands by itself: nothing that it imports needs Spark or Arrow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import mta.keyed

MODULES = sorted(
    path.stem for path in Path(mta.keyed.__file__).parent.glob("*.py") if path.stem != "__init__"
)

IMPORTED = f"""
import importlib, sys
for name in {MODULES!r}:
    importlib.import_module("mta.keyed." + name)
imported = {{name.split(".")[0] for name in sys.modules}}
print(sorted(imported & {{"pyspark", "pyarrow", "pandas", "spark_integration"}}))
"""


def test_no_spark_and_no_arrow() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
