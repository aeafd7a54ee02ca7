"""Checks the Python of the workers, before a local job starts or in the worker itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import SparkFiles, cloudpickle
from pyspark.sql import SparkSession

from spark_integration.errors import WorkersNotUsable

#: What a worker imports that Spark does not bring along.
_NEEDED = ("spark_integration", "mta", "stores", "numpy", "pyarrow", "msgpack", "xxhash")

#: Prints the packages that are missing.
_PROBE = "import sys, importlib.util as u; print(*[n for n in sys.argv[1:] if u.find_spec(n) is None])"

#: Pythons that were tried and have all of it.
_fit: set[tuple[str, str]] = set()


def check_local_workers(spark: SparkSession) -> None:
    """Raises WorkersNotUsable if the Python that this session's workers run cannot run `rolling`."""
    python = spark.sparkContext.pythonExec
    if python == sys.executable:
        return
    environment = {**os.environ, **dict(spark.sparkContext.environment)}
    environment["PYTHONPATH"] = os.pathsep.join([*_shipped(), environment.get("PYTHONPATH", "")])
    key = (python, environment["PYTHONPATH"])
    if key in _fit:
        return
    problem = _problem(python, environment)
    if problem:
        found = shutil.which(python)
        where = f"{python} ({found})" if found and found != python else python
        raise WorkersNotUsable(
            f"the Python workers of this session run {where}, {problem}: set PYSPARK_PYTHON to a Python that "
            f"has it, such as {sys.executable}, in the environment before the session starts"
        )
    _fit.add(key)


def _problem(python: str, environment: dict[str, str]) -> str:
    try:
        probe = subprocess.run(
            [python, "-c", _PROBE, *_NEEDED],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except OSError as error:
        return f"which does not start ({error.strerror or error})"
    except subprocess.TimeoutExpired:
        return ""
    if probe.returncode:
        return f"which fails ({probe.stderr.strip()[-200:]!r})"
    missing = probe.stdout.split()
    return f"which has no module {missing[0]!r}" if missing else ""


def _shipped() -> list[str]:
    """What was given to the session by addPyFile, which workers find too."""
    root = Path(SparkFiles.getRootDirectory())
    return [str(root), *(str(path) for path in root.glob("*") if path.suffix in (".zip", ".egg", ".whl"))]


def for_workers(name: str, function: Callable[..., Any], *arguments: Any) -> Callable[..., Any]:
    """A function of batches, too, that travels by value, so that a worker without this package can say so."""
    packed: bytes = cloudpickle.dumps((function, arguments))  # type: ignore[no-untyped-call]

    def call(batches: Iterator[pa.RecordBatch]) -> Any:
        import os
        import pickle
        import sys

        try:
            function, arguments = pickle.loads(packed)
        except ImportError as error:
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"  # this line says it, and the worker ends with it
            raise ImportError(
                f"{error}: the Python workers of this executor run {sys.executable}, which lacks it: set "
                "PYSPARK_PYTHON to a Python that has mta-windows[spark], on every host"
            ) from None
        return function(*arguments, batches)

    call.__name__ = name
    return call
