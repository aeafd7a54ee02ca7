"""What Spark's state store keeps of a bucket of keys: a blob of less than 64 KB.

It has the rows of short windows, the versions of long ones whose pages are in the store, and the rows that
wait for the watermark; or, where these are many, which documents in the store have them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import msgpack
import numpy as np

from mta.encoding import packing, untrusted
from mta.encoding.columns import decode_column, encode_column
from mta.encoding.untrusted import Malformed
from mta.errors import ManifestCorrupt
from mta.monoids.base import Array
from spark_integration.errors import RollingError

#: Changes with what states are. That of before has no watermark up to which rows have come out.
FORMAT, BEFORE = 4, 3

#: Bytes of a window's rows that stand among those of other keys, and of the tails of one that has pages.
INLINE_ROWS, INLINE_TAILS = 12 << 10, 12 << 10


@dataclass
class BucketState:
    #: what the windows belong to, so that they are not taken for those of another call of `rolling`
    plan: bytes
    #: how the names begin that the windows of the query have in the store
    name: str
    bucket: int
    #: what the bucket itself has in the store
    documents: list[Any]
    keys: list[Any]
    backlog: list[Any] | None = None
    #: the watermark up to which rows have come out
    out: int | None = None
    #: names of what is to be removed from the store, now that nothing goes back behind this state;
    #: or the place of the document that has them
    retired: list[Any] = field(default_factory=list)

    def encode(self) -> bytes:
        content = [getattr(self, each.name) for each in fields(self)]
        return bytes(msgpack.packb([FORMAT, *content]))


def decode_state(blob: bytes, plan: bytes, call: str) -> BucketState:
    """`call` is what people call the plan."""
    try:
        content = untrusted.fields(packing.unpack(blob), "the state of a bucket")
        check_format(content[0] if content else None)
        if content[0] == BEFORE:
            content.insert(len(content) - 1, None)
        found, name, bucket, documents, keys, backlog, out, retired = untrusted.fields(
            content[1:], "the state of a bucket", len(fields(BucketState))
        )
        if found != plan:
            raise RollingError(
                "this query's checkpoint was begun with another call, and the query is started with "
                f"{call}. Its windows would be wrong: go on as before, or start the query with a new "
                "checkpoint. These keys were met before the query's own record in the checkpoint, which "
                "tells what it was begun with"
            )
        return BucketState(
            plan,
            untrusted.text(name, "the name of the windows"),
            untrusted.whole(bucket, "the bucket"),
            untrusted.fields(documents, "the documents"),
            untrusted.fields(keys, "the keys"),
            None if backlog is None else untrusted.fields(backlog, "the rows that wait"),
            None if out is None else untrusted.whole(out, "the watermark", -(1 << 63)),
            untrusted.fields(retired, "windows that ended"),
        )
    except Malformed as error:
        raise damaged("a bucket of keys", error) from error


def check_format(found: Any) -> None:
    if found not in (FORMAT, BEFORE):
        raise RollingError(
            f"the query's checkpoint holds windows of format {untrusted.shown(found)}, and this version "
            f"reads {FORMAT}: start the query with a new checkpoint"
        )


def damaged(what: str, error: Exception) -> ManifestCorrupt:
    return ManifestCorrupt(
        f"the state of {what} in this query's checkpoint is damaged: {error}. Restore the checkpoint from a "
        "copy, or start the query with a new one"
    )


# -- rows of one window -----------------------------------------------------------------------------------


def pack_rows(values: Any, times: Array | None, count: int) -> list[Any]:
    columns = {} if not isinstance(values, dict) else {key: _packed(each) for key, each in values.items()}
    return ["rows", count, None if times is None else _packed(times), columns]


def unpack_rows(saved: list[Any]) -> tuple[Any, Array | None, int]:
    _, count, times, columns = untrusted.fields(saved, "the rows of a window", 4)
    untrusted.whole(count, "the number of rows", 0, 1 << 24)
    if type(columns) is not dict:
        raise Malformed("the columns of a window are no mapping")
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


def _unpacked(packed: Any, count: int) -> Any:
    kind, parameters, data = untrusted.fields(packed, "a column", 3)
    data = untrusted.raw(data, "a column")
    if kind == "list":
        return untrusted.fields(packing.unpack(data), "a column of objects", count)
    return decode_column(kind, parameters, memoryview(data), count)
