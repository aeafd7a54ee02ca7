"""The lines of lists: which documents one tells of, and in which list it stands."""

from __future__ import annotations

import json
import math
import re
import time
import zlib
from collections.abc import Iterator

from stores.couchbase.document_names import HEAD, LIST, PAGE

SHARDS = 64
GROUP = re.compile(r"(mta:[hp]:\{[^{}]+\}:[0-9a-f]{16}:[0-9a-f]{2}:[0-9a-f]{14})[0-9a-f]{2}", re.DOTALL)
GROUP_PAGES = 256
FAR_AHEAD = 3600.0  # of a clock that is not believed


def entry_of(document: str) -> str:
    """What a line says of a document."""
    match = GROUP.fullmatch(document)
    return match[1] if match else document


def group_of(document: str) -> str | None:
    """What decides in which list a document is, or None if a prefix does not tell."""
    end = document.find("}:")
    return document[:end] if end >= 0 and document.startswith((PAGE, HEAD)) else None


def shard_of(group: str) -> int:
    return zlib.crc32(group.encode()) % SHARDS


def list_of(document: str) -> str:
    return f"{LIST}{document[4]}:{shard_of(group_of(document) or document):02x}"


def encode_lines(entries: dict[str, float]) -> bytes:
    return "".join(
        f"{json.dumps([round(when), entry], ensure_ascii=False)}\n" for entry, when in entries.items()
    ).encode()


def parse_lines(data: bytes, name: str) -> tuple[dict[str, float], int]:
    """The entries with the last time that each was written, and how many lines there are.

    What is no line of this list is passed over: it must not keep anybody from what the others tell.
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
    """Those that a line tells of."""
    yield entry
    if GROUP.fullmatch(f"{entry}00"):
        for number in range(GROUP_PAGES):
            yield f"{entry}{number:02x}"
