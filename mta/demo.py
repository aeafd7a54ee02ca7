"""`mta demo`: whether there is what it needs. The demo itself is in `spark_integration.demo`."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

#: The oldest Java that Spark 4 runs on.
JAVA = 17
GET_JAVA = (
    "install one, for example with apt-get install openjdk-17-jre-headless or brew install openjdk@17, "
    "or set JAVA_HOME"
)


class DemoError(Exception):
    """The demo cannot run, or has found a wrong result."""


def run(rows: int, store: str | None, memory: int, picture: Path) -> None:
    for package in ("pyspark", "psutil"):
        if importlib.util.find_spec(package) is None:
            raise DemoError(f"the demo runs on Spark and needs {package}: pip install 'mta-windows[demo]'")
    check_java()
    from spark_integration.demo.run import run as run_on_spark

    run_on_spark(rows, store, memory, picture)


def check_java() -> None:
    """DemoError unless there is a Java that Spark can start."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    needed = f"the demo runs on Spark, which needs Java {JAVA} or newer"
    if java is None:
        raise DemoError(f"{needed}, and there is none: {GET_JAVA}")
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        raise DemoError(f"{needed}, and {java} does not start: {GET_JAVA}") from None
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    if found and int(found[1]) < JAVA:
        raise DemoError(f"{needed}, and {java} is Java {found[1]}: {GET_JAVA}")
