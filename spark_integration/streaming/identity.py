"""The identity of a query. Its checkpoint keeps it, and each run of the query is compared with it.

The identity is one more state of the stateful function, and each micro-batch with rows has a row for it. So
it is versioned with all other state: a run that is refused fails its first micro-batch, and leaves the
checkpoint as it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b

import msgpack
from pyspark.errors import PySparkException
from pyspark.sql import types as sql

from mta.encoding.packing import pack, unpack
from mta.encoding.untrusted import Malformed, fields, raw, text
from spark_integration.aggregates.inputs import Input
from spark_integration.call.plan import Plan
from spark_integration.errors import RollingError
from spark_integration.streaming.schema import (
    RowSchema,
    changed_type,
    family,
    packed_types,
    unpacked_types,
    widens,
)
from spark_integration.streaming.state import FORMAT, check_format, damaged


@dataclass(frozen=True)
class Identity:
    #: the settings that states depend on, by the names that users know; they cannot change
    parts: Mapping[str, str]
    #: the types of columns of rows that may wait in the state
    columns: Mapping[str, sql.DataType]

    @cached_property
    def fingerprint(self) -> bytes:
        """A digest of the parts, for the state of each bucket."""
        return blake2b(pack(dict(self.parts)), digest_size=8).digest()

    @cached_property
    def text(self) -> str:
        return ", ".join(f"{part}: {what}" for part, what in self.parts.items())

    def encode(self) -> bytes:
        return bytes(msgpack.packb([FORMAT, dict(self.parts), packed_types(self.columns)]))

    def after(self, before: Identity) -> Identity:
        """The identity from now on, if the query may go on from an older identity; RollingError if not."""
        for part in {**before.parts, **self.parts}:
            was, now = before.parts.get(part, "nothing"), self.parts.get(part, "nothing")
            if was != now:
                raise RollingError(
                    f"this query's checkpoint was begun with {part}: {was}, and the query is started with "
                    f"{part}: {now}. Its windows would be wrong: go on as before, or start the query with a "
                    "new checkpoint"
                )
        for name, kind in self.columns.items():
            old = before.columns.get(name)
            if old is not None and not widens(old, kind):
                raise RollingError(changed_type(name, old, kind))
        # a column that is gone may come back while rows with it still wait
        return replace(self, columns={**before.columns, **self.columns})


def decode_identity(data: bytes) -> Identity:
    try:
        content = fields(unpack(data), "the record")
        check_format(content[0] if content else None)
        parts, columns = fields(content[1:], "the record", 2)
        if type(parts) is not dict:
            raise Malformed("what the query is is no mapping")
        for each in (*parts, *parts.values()):
            text(each, "what the query is")
        return Identity(parts, unpacked_types(raw(columns, "the columns")))
    except (Malformed, PySparkException) as error:
        raise damaged("the query itself", error) from error


def identity_of(plan: Plan, schema: RowSchema, waits: bool, buckets: int) -> Identity:
    frame = plan.frame
    parts = {
        # first, since it makes other names of all columns
        "spark.sql.caseSensitive": str(schema.sensitive).lower(),
        "partition_by": _columns(plan.keys),
        "order_by": _columns(plan.order),
        "window": f"{frame.policy.fingerprint()}{', rows of one time see each other' if frame.peers else ''}",
        "buckets": str(buckets),
        "watermark": f"on {plan.order[0].name!r}" if waits else "none",
        "aggregates": "; ".join(
            f"{part.name} = {part.monoid.fingerprint()} of {_columns(part.inputs)}" for part in plan.parts
        ),
    }
    return Identity(parts, schema.types if waits else {})


def _columns(columns: Sequence[Input]) -> str:
    kinds = (f"{each.name!r} ({'any type' if each.presence else family(each.type)})" for each in columns)
    return ", ".join(kinds) or "nothing"
