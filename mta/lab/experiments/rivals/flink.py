"""The OVER window of Flink's SQL: a program of ours that runs a streaming job in its own JVM."""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
from pathlib import Path

from mta.lab.experiments.experiment import Row
from mta.lab.experiments.rivals.programs import build, measured
from mta.lab.experiments.rivals.values import values_of

HEAP = "2g"
SOURCE = Path(__file__).with_name("Sliding.java")
#: Where a distribution of Flink has its jars, and one that is among them.
JARS, DIST = "lib", "flink-dist*.jar"
#: What its rows are in order by: when they arrive, or a timestamp of their own, a millisecond each.
#: The first is not at 0, which Flink takes for late.
TIMES = {
    "arrival": "ts AS PROCTIME()",
    "event": "ts AS TO_TIMESTAMP_LTZ(i + 1, 3), WATERMARK FOR ts AS ts",
}


def installed() -> Path | None:
    """The distribution of Flink that is in its Python package, if that is installed."""
    spec = importlib.util.find_spec("pyflink")
    places = map(Path, (spec.submodule_search_locations or ()) if spec else ())
    return next((place for place in places if any((place / JARS).glob(DIST))), None)


def lacks() -> str | None:
    """Which program there has to be, and is not."""
    return next((f"{name} is not on the PATH" for name in ("javac", "java") if not shutil.which(name)), None)


def flink(time: str, rows: int, window: int, distribution: Path) -> Row:
    """All rows from a file, over one key. How much of the JVM's memory is held is not known."""
    jars = str(distribution / JARS / "*")
    with tempfile.TemporaryDirectory(prefix="mta-flink-") as made:
        directory = Path(made)
        build(["javac", "-cp", jars, "-d", made, str(SOURCE)])
        numbers = directory / "numbers.csv"
        _write(numbers, rows)
        arguments = (str(numbers), str(rows), str(window), TIMES[time])
        row = measured(["java", f"-Xmx{HEAP}", "-cp", f"{jars}:{made}", SOURCE.stem, *arguments])
    del row["held_bytes"]
    return row


def _write(file: Path, rows: int) -> None:
    number = 0
    with file.open("w") as opened:
        for batch in values_of(rows):
            opened.writelines(f"{number + at},{value!r}\n" for at, value in enumerate(batch.tolist()))
            number += len(batch)
