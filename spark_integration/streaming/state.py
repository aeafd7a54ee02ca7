"""What Spark's state store keeps of a bucket of keys: a blob of less than 64 KB.

It has the rows of short windows, the versions of long ones whose pages are in the store, and the rows that
wait for the watermark; or the names of the documents in the store that have them. docs/keyed.md describes
the form of keys and documents.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import msgpack

from mta.encoding import packing, untrusted
from mta.encoding.untrusted import Malformed
from mta.errors import ManifestCorrupt
from mta.keyed.documents import DocumentId, SavedDocuments
from mta.keyed.table import SavedTable
from spark_integration.errors import RollingError

#: Changes with the form of states. BEFORE has no watermark up to which rows have come out.
FORMAT, BEFORE = 4, 3


@dataclass
class BucketState:
    #: the fingerprint of the call of `rolling` that the windows belong to
    plan: bytes
    #: how the names of the query's windows in the store begin
    name: str
    bucket: int
    documents: SavedDocuments = field(default_factory=SavedDocuments)
    keys: SavedTable = field(default_factory=SavedTable)
    #: the rows that wait (`streaming.backlog`); None for none
    backlog: list[Any] | None = None
    #: the watermark up to which rows have come out
    out: int | None = None
    #: names of ended windows, which are removed from the store by the next micro-batch: nothing goes back
    #: to an older state then; or the document that has them
    retired: list[str] | DocumentId = field(default_factory=list)

    def encode(self) -> bytes:
        return bytes(msgpack.packb([FORMAT, *vars(self).values()]))


def decode_state(blob: bytes, plan: bytes, call: str) -> BucketState:
    """The state of the plan with this fingerprint, which an error shows as `call`."""
    try:
        content = untrusted.fields(packing.unpack(blob), "the state of a bucket")
        check_format(content[0] if content else None)
        if content[0] == BEFORE:
            content.insert(len(content) - 1, None)
        found, name, bucket, documents, keys, backlog, out, retired = untrusted.fields(
            content[1:], "the state of a bucket", len(fields(BucketState))
        )
        untrusted.fields(retired, "windows that ended")
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
            SavedDocuments.decode(documents),
            SavedTable.decode(keys),
            None if backlog is None else untrusted.fields(backlog, "the rows that wait"),
            None if out is None else untrusted.whole(out, "the watermark", -(1 << 63)),
            DocumentId.decode(retired) if retired and type(retired[0]) is int else retired,
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
