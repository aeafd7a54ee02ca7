"""Streams whose states and documents earlier code saved, before `mta/keyed`: tests/keyed/saved.z.

python tests/spark/saved_streams.py FILE        writes them, by the code that is imported
"""

from __future__ import annotations

import datetime as dt
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import msgpack
import pyarrow as pa
from simulated import SCHEMA, Simulated
from streams import NUMBER, START

from mta import monoids
from stores import Store, open_store

AGGREGATES = {
    "total": monoids.Sum("i"),
    "peak": monoids.Max("x"),
    "n": monoids.Count(),
    "first": monoids.First("s"),
}

#: Of each stream how it is called, the sizes that are changed for it, and how many micro-batches were saved.
STREAMS: dict[str, tuple[dict[str, Any], dict[str, int], int]] = {
    "in the state": (
        {"window": "100 seconds", "page_size": 8, "buckets": 1},
        {"long.SHORT_AGAIN": 3},
        6,
    ),
    "short again": ({"window": "50 seconds", "page_size": 8, "buckets": 1}, {"long.SHORT_AGAIN": 20}, 4),
    "in segments": (
        {"rows": 12, "page_size": 8, "buckets": 2, "algorithm": "lmta"},
        {"table.INLINE": 300, "segments.BYTES": 200, "segments.DENSE_BYTES": 400, "long.SHORT_AGAIN": 3,
         "backlog.INLINE": 100, "backlog.DOCUMENT_ROWS": 20, "backlog.TABLE": 100},
        4,
    ),
    "by the clock": (
        {"rows": 5, "buckets": 1, "waits": False, "forget_after": "1 hour"},
        {"table.INLINE": 300, "segments.BYTES": 200, "segments.DENSE_BYTES": 400},
        3,
    ),
    "without a watermark": ({"rows": 3, "buckets": 1, "waits": False}, {}, 2),
}  # fmt: skip


def file_of(number: int) -> pa.Table:
    """A minute of rows, of which some are hot keys'."""
    count = 60
    ids = [(7 * row + number) % 23 if row % 3 else 100 + number // 2 for row in range(count)]
    if number == 2:
        ids[0] = 100  # whose window is long still, and becomes short
    rows = range(number * count, (number + 1) * count)
    moments = [
        dt.datetime.fromtimestamp(START + 60 * number + (row * 37) % 60, dt.UTC) for row in range(count)
    ]
    return pa.table(
        {
            NUMBER: list(rows),
            "k": ids,
            "o": pa.array(moments, pa.timestamp("us", "UTC")),
            "x": [None if row % 11 == 0 else (row * 13 % 97) / 4 for row in rows],
            "i": [row * row * 31 % 100_003 - 50_000 for row in rows],
            "s": [f"text {row % 7}" * (row % 3) for row in rows],
        },
        schema=SCHEMA,
    )


@contextmanager
def sizes(changed: dict[str, int], modules: dict[str, Any]) -> Iterator[None]:
    with ExitStack() as stack:
        for name, size in changed.items():
            module, constant = name.split(".")
            stack.enter_context(mock.patch.object(modules[module], constant, size))
        yield


def stream_of(name: str, store: Store) -> Simulated:
    how, _, _ = STREAMS[name]
    return Simulated(SCHEMA, store, 1, partition_by="k", order_by=["o", NUMBER], aggregates=AGGREGATES, **how)


def play(stream: Simulated, number: int) -> None:
    """The watermark is half a minute behind, so that rows wait."""
    stream.play(file_of(number), (START + 60 * number - 30) * 1000)


def written(modules: dict[str, Any]) -> bytes:
    found = {}
    for name, (_, changed, count) in STREAMS.items():
        with open_store("memory:") as store, sizes(changed, modules):
            stream = stream_of(name, store)
            for number in range(count):
                play(stream, number)
            keys = sorted(store.list_keys(""))
            roots = {root: store.read_root(root) for root in sorted(store.list_roots())}
            found[name] = {
                "states": stream.states,
                "rows": sorted(stream.rows),
                "played": [stream.batch, stream.run],
                "documents": dict(zip(keys, store.get_many(keys), strict=True)),
                "roots": {root: data[0] for root, data in roots.items() if data is not None},
            }
    return zlib.compress(msgpack.packb(found), 9)


if __name__ == "__main__":
    from mta.keyed import long, segments, table
    from spark_integration.streaming import backlog

    modules = {"backlog": backlog, "long": long, "segments": segments, "table": table}
    Path(sys.argv[1]).write_bytes(written(modules))
