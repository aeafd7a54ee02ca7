"""What pages and roots are called in Redis, and with that in which slots of a cluster they are."""

from __future__ import annotations

import re
from zlib import crc32

from stores.names import escape_name, stored_key, stored_name

PAGE = b"mta:page:"
ROOT = b"mta:root:{"


class Keys:
    """A window and its root have one slot, by its name; with `spread`, its pages have that many others."""

    def __init__(self, spread: int) -> None:
        self.spread = spread if spread > 1 else 0
        #: stands in the roots of windows whose pages are spread, so that they are not opened in another way
        self.mark = b"%d" % self.spread if self.spread else b""
        self._prefix = b"mta:spread%d:" % self.spread if self.spread else PAGE
        self._tag_length = len("{00000000}") if self.spread else 0

    def page(self, key: str) -> bytes:
        named = key.encode()
        if not self.spread:
            return self._prefix + named
        window = named[: named.find(b"}") + 1] or named
        slot = b"%d:%b" % (crc32(named) % self.spread, window)
        return b"%b{%08x}%b" % (self._prefix, crc32(slot), named)

    def key_of(self, page: bytes) -> str | None:
        """None if nobody could have written it here."""
        key = stored_key(page[len(self._prefix) + self._tag_length :])
        return key if key is not None and self.page(key) == page else None

    def pages_like(self, prefix: str) -> bytes:
        tag = b"{????????}" if self.spread else b""
        return self._prefix + tag + _literally(prefix.encode()) + b"*"

    def root(self, name: str) -> bytes:
        return b"%b%b}" % (ROOT, escape_name(name).encode())

    def name_of(self, root: bytes) -> str | None:
        name = stored_name(root[len(ROOT) : -1])
        return name if name is not None and self.root(name) == root else None

    def roots_like(self, prefix: str) -> bytes:
        return ROOT + _literally(escape_name(prefix).encode()) + b"*"


def _literally(text: bytes) -> bytes:
    return re.sub(rb"([*?\[\]\\])", rb"\\\1", text)
