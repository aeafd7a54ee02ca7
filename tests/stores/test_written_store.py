"""The store of docs/write-your-own-store.md keeps the contract."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stores import Store
from stores.testing import StoreContract

PAGE = Path(__file__).parents[2] / "docs" / "write-your-own-store.md"
BLOCKS = re.findall(r"^```py(?:thon)?\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)

# a class that pickles has to be found in a module under its name
exec(compile(BLOCKS[0], str(PAGE), "exec"), globals())
FileStore: Any = globals()["FileStore"]


class TestFileStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        with FileStore(f"files://{tmp_path}") as store:
            yield store


def test_the_class_is_short() -> None:
    lines = BLOCKS[0].partition("class FileStore")[2].splitlines()
    assert len([line for line in lines if line.strip()]) <= 70


def test_the_rest_of_the_page_runs() -> None:
    names: dict[str, Any] = {"__name__": __name__, "FileStore": FileStore}
    for block in BLOCKS[1:]:
        exec(compile(block, str(PAGE), "exec"), names)
