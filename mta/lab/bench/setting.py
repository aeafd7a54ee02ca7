"""What the sections of the benchmark share: the stores, the size of things, and a word on progress."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from stores import Store, open_store


@dataclass
class Setting:
    quick: bool
    redis_url: str
    rocksdb: Store
    redis: Store
    say: Callable[[str], None]

    @property
    def page_size(self) -> int | None:
        """Small where windows are small, since a window that fits in its first pages never meets a store."""
        return 256 if self.quick else None

    def stores(self, stack: ExitStack) -> dict[str, Store | None]:
        """Under the names that the tables have for them. The memory: store lasts as long as the stack."""
        return {
            "in memory": None,
            "memory:": stack.enter_context(open_store("memory:")),
            "rocksdb": self.rocksdb,
            "redis": self.redis,
        }
