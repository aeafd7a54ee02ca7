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


def shard_key_of(document: str) -> str | None:
    """The part of a document's name that decides in which list it is; None if a prefix is too short."""
    end = document.find("}:")
    return document[:end] if end >= 0 and document.startswith((PAGE, HEAD)) else None


def shard_of(group: str) -> int:
    return zlib.crc32(group.encode()) % SHARDS


def list_of(document: str) -> str:
    return f"{LIST}{document[4]}:{shard_of(shard_key_of(document) or document):02x}"


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
