"""What Spark's state store keeps of a key: a blob of less than 64 KB.

It has the windows of the key as versions whose pages are in the store, or as their rows while these are few,
and the rows that wait for the watermark in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import msgpack
import numpy as np

from mta.encoding import packing
from mta.encoding.columns import decode_column, encode_column
from mta.monoids.base import Array
from spark_integration.errors import RollingError

#: Changes with what states are.
FORMAT = 2

#: Bytes of a window's rows that stand in the blob, and of the tails of one whose pages are in the store.
INLINE_ROWS, INLINE_TAILS = 12 << 10, 12 << 10


@dataclass
class KeyState:
    #: what the windows belong to, so that they are not taken for those of another call of `rolling`
    plan: bytes
    #: the name in the store of everything that belongs to the key
    name: str
    #: the time of the youngest row that has a result
    youngest: Any = None
    #: for each program ["rows", …] or ["window", …]
    windows: list[list[Any]] = field(default_factory=list)
    backlog: list[Any] | None = None
    #: names of what is to be removed from the store, now that nothing goes back behind this state
    retired: list[str] = field(default_factory=list)
    #: names of what is in the store
    stored: list[str] = field(default_factory=list)

    def encode(self) -> bytes:
        content = [getattr(self, each.name) for each in fields(self)]
        return bytes(msgpack.packb([FORMAT, *content]))


def decode_state(blob: bytes, plan: bytes, call: str) -> KeyState:
    """`call` is what people call the plan."""
    content = msgpack.unpackb(blob, strict_map_key=False)
    check_format(content[0])
    if content[1] != plan:
        raise RollingError(
            f"this query's checkpoint was begun with another call, and the query is started with {call}. Its "
            "windows would be wrong: go on as before, or start the query with a new checkpoint. This key "
            "was met before the query's own record in the checkpoint, which tells what it was begun with"
        )
    return KeyState(*content[1:])


def check_format(found: int) -> None:
    if found != FORMAT:
        raise RollingError(
            f"the query's checkpoint holds windows of format {found}, and this version reads {FORMAT}: "
            "start the query with a new checkpoint"
        )


# -- rows of a window that stand in the blob --------------------------------------------------------------


def pack_rows(values: Any, times: Array | None, count: int) -> list[Any]:
    columns = {} if not isinstance(values, dict) else {key: _packed(each) for key, each in values.items()}
    return ["rows", count, None if times is None else _packed(times), columns]


def unpack_rows(saved: list[Any]) -> tuple[Any, Array | None, int]:
    _, count, times, columns = saved
    values: Any = {key: _unpacked(each, count) for key, each in columns.items()}
    if not columns:
        values = np.ones(count, dtype=np.int64)
    return values, None if times is None else _unpacked(times, count), count


def size_of(saved: list[Any]) -> int:
    return len(msgpack.packb(saved))


def _packed(column: Any) -> list[Any]:
    if isinstance(column, list):
        return ["list", [], packing.pack(column)]
    kind, parameters, raw = encode_column(column)
    return [kind, parameters, bytes(raw)]


def _unpacked(packed: list[Any], count: int) -> Any:
    kind, parameters, raw = packed
    if kind == "list":
        return packing.unpack(raw)
    return decode_column(kind, parameters, memoryview(raw), count)
