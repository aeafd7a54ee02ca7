"""Packages that a test installs into a directory of its own, with metadata as pip leaves it."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "write-your-own-store.md"

#: `files:` as the docs have it, which any process of this host can open.
FILE_STORE = PAGE.read_text().partition("```python\n")[2].partition("```")[0]


class Installed:
    """A directory with packages, which a test puts on `sys.path`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()

    def module(self, name: str, text: str) -> None:
        (self.directory / f"{name}.py").write_text(text)

    def distribution(
        self, name: str, version: str, points: dict[str, str], group: str = "mta.stores"
    ) -> None:
        info = self.directory / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        lines = "".join(f"{scheme} = {value}\n" for scheme, value in points.items())
        (info / "entry_points.txt").write_text(f"[{group}]\n{lines}")

    def run(self, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.process("-c", code, *arguments)

    def process(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Another process, which has the packages; it is not told of them otherwise."""
        path = os.pathsep.join([str(ROOT), str(self.directory)])
        return subprocess.run(
            [sys.executable, *arguments],
            capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip

    def archive(self, path: Path) -> Path:
        """All of it in one file, as Spark sends packages to its workers."""
        with zipfile.ZipFile(path, "w") as packed:
            for each in self.directory.rglob("*"):
                packed.write(each, each.relative_to(self.directory))
        return path
