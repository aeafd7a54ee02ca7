"""`dir(slicer)` shows the names that docs/slicing.md describes, and no others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from mta import monoids
from mta.slicing import Slicer, Tumbling
from stores import open_store

DOCUMENT = Path(__file__).parents[2] / "docs" / "slicing.md"


def documented() -> list[str]:
    """The names in the first column of the table of calls and properties."""
    _, _, part = DOCUMENT.read_text("utf-8").partition("## Calls and properties\n")
    table, _, _ = part.partition("\n## ")
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    return sorted(name for row in rows for name in re.findall(r"`(\w+)", row))


@pytest.mark.parametrize("options", [{}, {"by": "key"}, {"store": "a store"}, {"store": "eager"}], ids=str)
def test_a_slicer_shows_what_users_may_call(options: dict[str, Any]) -> None:
    if options.get("store") == "a store":
        options = {"store": open_store(f"memory:{uuid4().hex}")}
    with Slicer(monoids.Sum("n"), {"minute": Tumbling(60)}, **options) as slicer:
        slicer.insert({"n": 1, "key": "a"}, time=5)
        shown = [name for name in dir(slicer) if not name.startswith("_")]
    assert documented() == shown
