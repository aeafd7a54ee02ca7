"""Whether there is what the demo needs, which is asked before anything of Spark is imported."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

from mta.cli.errors import CommandFailed

#: The oldest Java that Spark 4 runs on.
JAVA = 17
GET_JAVA = (
    "install one, for example with apt-get install openjdk-17-jre-headless or brew install openjdk@17, "
    "or set JAVA_HOME"
)


def check() -> None:
    """CommandFailed unless there is what the demo needs."""
    for package in ("pyspark", "psutil"):
        if importlib.util.find_spec(package) is None:
            raise CommandFailed(
                f"the demo runs on Spark and needs {package}: pip install 'mta-windows[demo]'"
            )
    check_java()


def check_java() -> None:
    """CommandFailed unless there is a Java that Spark can start."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    needed = f"the demo runs on Spark, which needs Java {JAVA} or newer"
    if java is None:
        raise CommandFailed(f"{needed}, and there is none: {GET_JAVA}")
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        raise CommandFailed(f"{needed}, and {java} does not start: {GET_JAVA}") from None
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    if found and int(found[1]) < JAVA:
        raise CommandFailed(f"{needed}, and {java} is Java {found[1]}: {GET_JAVA}")
