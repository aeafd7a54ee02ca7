"""Every block of Python in the documentation runs."""

from __future__ import annotations

import builtins
import re
from pathlib import Path

import pytest

import mta
import stores

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks() -> list[tuple[str, int, str]]:
    """File, line and text of each."""
    found = []
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        if path.name in ("spark.md", "streaming.md"):
            continue  # which needs a session, and is run with the tests of Spark
        text = path.read_text()
        for match in BLOCK.finditer(text):
            line = text.count("\n", 0, match.start(1)) + 1
            found.append((path.name, line, match[1]))
    return found


def test_there_are_blocks() -> None:
    assert sum(name == "README.md" for name, _, _ in blocks()) >= 3


@pytest.mark.parametrize(
    ("name", "line", "code"), [pytest.param(*block, id=f"{block[0]}:{block[1]}") for block in blocks()]
)
def test_block_runs(
    name: str,
    line: int,
    code: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    # as a reader would, who runs it again
    for _ in range(2):
        _run(name, line, code)
        if "print(window.push(21.5" in code:
            assert capsys.readouterr().out.split() == ["21.5", "21.5", "[22.4", "21.", "]", "1"]


def _run(name: str, line: int, code: str) -> None:
    # as many empty lines as are before it, so that a traceback names the line of the document
    exec(compile("\n" * (line - 1) + code, name, "exec"), {"__name__": "__main__"})


def test_errors_can_be_imported() -> None:
    """Those that the README names, from `mta` or from `stores`."""
    table = (ROOT / "README.md").read_text().partition("## Errors\n")[2].partition("\n## ")[0]
    lines = [line for line in table.splitlines() if line.startswith("|")]
    names = {name for line in lines for name in re.findall(r"`(\w+)`", line.partition(" | ")[0])}
    assert {"MissingTime", "StoreFull", "PageCorrupt"} <= names
    missing = {name for name in names if not any(hasattr(each, name) for each in (mta, stores, builtins))}
    assert not missing
