"""The lines of lists: the documents that an entry stands for, and the list that it is in."""

from __future__ import annotations

import json
import math
import re
import time
import zlib
from collections.abc import Iterator

from stores.couchbase.document_names import HEAD, LIST, PAGE

SHARDS = 64
PAGE_GROUP = re.compile(r"(mta:[hp]:\{[^{}]+\}:[0-9a-f]{16}:[0-9a-f]{2}:[0-9a-f]{14})[0-9a-f]{2}", re.DOTALL)
GROUP_PAGES = 256
FAR_AHEAD = 3600.0  # seconds by which the clock of another writer may be ahead


def entry_of(document: str) -> str:
    """The entry of a document: for a page, its name without the last two digits, so 256 pages share one."""
    match = PAGE_GROUP.fullmatch(document)
    return match[1] if match else document


def list_of(document: str) -> str:
    """The list that a document is in: one for all pages of a window."""
    shard = zlib.crc32((_window_part(document) or document).encode()) % SHARDS
    return f"{LIST}{document[4]}:{shard:02x}"


def lists_of(prefix: str) -> list[str]:
    """The lists that may have documents with the prefix."""
    if _window_part(prefix) is not None:
        return [list_of(prefix)]
    return [f"{LIST}{prefix[4]}:{shard:02x}" for shard in range(SHARDS)]


def _window_part(document: str) -> str | None:
    """The start of a page's name that names its window; None for other documents and shorter prefixes."""
    end = document.find("}:")
    return document[:end] if end >= 0 and document.startswith((PAGE, HEAD)) else None


def encode_lines(entries: dict[str, float]) -> bytes:
    return "".join(
        f"{json.dumps([round(when), entry], ensure_ascii=False)}\n" for entry, when in entries.items()
    ).encode()


def parse_lines(data: bytes, name: str) -> tuple[dict[str, float], int]:
    """The entries with the time when each was last written, and the number of lines.

    Anything else in the document is skipped, so that it does not hide the valid lines.
    """
    entries: dict[str, float] = {}
    lines = data.split(b"\n")
    now = time.time()
    kind = f"mta:{name[len(LIST)]}:"
    for line in lines:
        try:
            when, entry = json.loads(line)
            if entry.startswith(kind) and entry.encode() and math.isfinite(when):
                believed = when if when <= now + FAR_AHEAD else 0
                entries[entry] = max(believed, entries.get(entry, 0))
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
            continue
    return entries, len(lines) - (not lines[-1])


def documents_of(entry: str) -> Iterator[str]:
    """The documents that an entry stands for."""
    yield entry
    if PAGE_GROUP.fullmatch(f"{entry}00"):
        for number in range(GROUP_PAGES):
            yield f"{entry}{number:02x}"
