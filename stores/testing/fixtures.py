"""The fixtures of all parts of the contract."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from stores.base import Store
from stores.names import page_key, page_prefix

ODD_NAMES = (
    "a b",
    "a/b\\c",
    "{a}",
    "}{",
    "100%",
    "%7B",
    "line\nbreak",
    "nul\0",
    "Zürich 東京 🚲",
    "*?[a-z]",
    "'\"; DROP",
    "x" * 200,
)
ODD_IDS = [ascii(name)[:12] for name in ODD_NAMES]


class Fixtures:
    """The store, which a subclass gives, and names and keys that are new for each test."""

    @pytest.fixture
    def store(self) -> Iterator[Store]:
        raise NotImplementedError("give a fixture `store` that yields an open store")

    @pytest.fixture
    def name(self) -> str:
        return f"contract-{uuid.uuid4().hex}"

    @pytest.fixture
    def prefix(self, name: str) -> str:
        return page_prefix(name, epoch=1, tier=0)

    @pytest.fixture
    def keys(self, prefix: str) -> list[str]:
        return [page_key(prefix, index) for index in range(20)]
