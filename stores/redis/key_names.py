"""The names of pages and roots in Redis, which decide the slots of a cluster that they are in."""

from __future__ import annotations

import re
from zlib import crc32

from stores.names import check_key, escape_name, stored_name, valid_or_none

PAGE = b"mta:page:"
ROOT = b"mta:root:{"


class KeyNames:
    """Names for stores with or without `spread`.

    All keys of a window have one slot, by its name. With `spread`, its pages are in that many other slots.
    """

    def __init__(self, spread: int) -> None:
        self.spread = spread if spread > 1 else 0
        #: stored in each root, so that no store with another `spread` opens the window
        self.spread_mark = b"%d" % self.spread if self.spread else b""
        self._prefix = b"mta:spread%d:" % self.spread if self.spread else PAGE
        self._tag_length = len("{00000000}") if self.spread else 0

    def page(self, key: str) -> bytes:
        encoded = key.encode()
        if not self.spread:
            return self._prefix + encoded
        window = encoded[: encoded.find(b"}") + 1] or encoded
        slot = b"%d:%b" % (crc32(encoded) % self.spread, window)
        return b"%b{%08x}%b" % (self._prefix, crc32(slot), encoded)

    def key_of_page(self, page: bytes) -> str | None:
        """The key of a page's name, or None if no store with this `spread` gives a page that name."""
        key = valid_or_none(page[len(self._prefix) + self._tag_length :], check_key)
        return key if key is not None and self.page(key) == page else None

    def page_pattern(self, prefix: str) -> bytes:
        tag = b"{????????}" if self.spread else b""
        return self._prefix + tag + _escaped(prefix.encode()) + b"*"

    def root(self, name: str) -> bytes:
        return b"%b%b}" % (ROOT, escape_name(name).encode())

    def name_of_root(self, root: bytes) -> str | None:
        name = stored_name(root[len(ROOT) : -1])
        return name if name is not None and self.root(name) == root else None

    def root_pattern(self, prefix: str) -> bytes:
        return ROOT + _escaped(escape_name(prefix).encode()) + b"*"


def _escaped(text: bytes) -> bytes:
    return re.sub(rb"([*?\[\]\\])", rb"\\\1", text)
