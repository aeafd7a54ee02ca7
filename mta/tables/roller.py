"""`rolling`: the rows of a data frame with the aggregates of their windows, and `Roller` to append to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np
import pyarrow as pa

from mta.frames.policies import Policy
from mta.kinds import Array
from mta.tables.columns import as_columns, types_of
from mta.tables.formats import Source, source_of
from mta.tables.keys import hashes_of_keys, key_column
from mta.tables.leaf import Rows
from mta.tables.long import WindowStore
from mta.tables.plan import Plan
from mta.tables.scratch import InMemory, OnDisk, Scratch
from mta.tables.tree import Inflow, Node, Places
from mta.turns import TakesTurns, in_turn
from stores import Store

#: Values of a block of rows, old and new ones, which are taken in and given back together; and its old bytes.
BLOCK_VALUES, BLOCK_BYTES = 1 << 22, 1 << 24

#: A file of rows that came before is written anew if it has so many bytes besides twice those that are needed.
SPARE_BYTES = 1 << 26


def rolling(
    frame: Any,
    *,
    on: str | None = None,
    by: str | Sequence[str] | None = None,
    aggregates: Any,
    policy: Policy | None = None,
    store: Store | None = None,
) -> Any:
    """The rows of a data frame with a column for each aggregate of the row's window.

    >>> import pyarrow as pa
    >>> import mta
    >>> from mta import monoids
    >>> frame = pa.table({"card": ["a", "b", "a"], "ts": [0, 10, 30], "amount": [5.0, 7.0, 2.0]})
    >>> features = {"n_1m": monoids.Count().over(60), "sum_10s": monoids.Sum("amount").over(10)}
    >>> mta.rolling(frame, on="ts", by="card", aggregates=features).to_pydict()["n_1m"]
    [1, 1, 2]
    """
    with Roller(on=on, by=by, aggregates=aggregates, policy=policy, store=store) as roller:
        return roller._take(frame, keeps=False)


class Roller(TakesTurns):
    """Windows over a data frame to which rows are appended: no row is aggregated again.

    >>> import pyarrow as pa
    >>> import mta
    >>> from mta import monoids
    >>> with mta.Roller(on="ts", by="card", aggregates={"n": monoids.Count().over(60)}) as roller:
    ...     first = roller.append(pa.table({"card": ["a", "b"], "ts": [0, 10]}))
    ...     more = roller.append(pa.table({"card": ["a", "a"], "ts": [30, 70]}))
    >>> more.to_pydict()["n"]
    [2, 2]
    """

    _kind, _name = "roller", ""

    def __init__(
        self,
        *,
        on: str | None = None,
        by: str | Sequence[str] | None = None,
        aggregates: Any,
        policy: Policy | None = None,
        store: Store | None = None,
    ) -> None:
        if store is not None and not isinstance(store, Store):
            raise TypeError(f"store is what stores.open_store(url) returns, got {store!r}")
        self._plan = Plan(on, by, aggregates, policy)
        self._node, self._windows = Node(), WindowStore(store)
        self._state: Scratch | None = None
        #: the types of the keys, and of the results; None before the first row
        self._keys: list[pa.DataType] | None = None
        self._types: dict[str, pa.DataType] | None = None
        #: the number of rows so far
        self._rows = 0
        self._stays_in_this_process()

    def __len__(self) -> int:
        return self._rows

    @in_turn
    def append(self, frame: Any) -> Any:
        """Takes in more rows; returns them with their columns, as the kind of frame that they came as."""
        return self._take(frame, keeps=True)

    def _take(self, frame: Any, *, keeps: bool) -> Any:
        source = source_of(frame)
        self._check_columns(source.schema)
        call = _Call(self, source, keeps=keeps)
        try:
            return call.run()
        except BaseException:
            call.close()
            raise

    def _check_columns(self, schema: pa.Schema) -> None:
        names = schema.names
        missing = [name for name in self._plan.columns if name not in names]
        if missing:
            raise KeyError(f"the frame has no column(s) {missing}, only {names[:20]}")
        taken = [name for name in self._plan.names if name in names]
        if taken:
            raise ValueError(f"the frame has column(s) {taken} already: give the aggregates other names")

    def _end(self) -> None:
        if self._state is not None:
            self._state.close()
        self._windows.close()


class _Call:
    """One call of `append`: takes in a frame block by block, and gives back its rows."""

    def __init__(self, roller: Roller, source: Source, *, keeps: bool) -> None:
        self._roller, self._source = roller, source
        memory = source.in_memory
        if roller._state is None:
            roller._state = InMemory() if memory else OnDisk()
        # a clock of its own, which a call that fails leaves behind
        self._plan = copy(roller._plan)
        self._plan.clock = copy(roller._plan.clock)
        self._rows, self._results, self._payload = (InMemory() if memory else OnDisk() for _ in range(3))
        self._places = Places(self._plan, keeps, roller._state, self._rows, self._results, roller._windows)
        self._inflow = Inflow(self._places, roller._node, 0)
        self._keys, self._types = roller._keys, roller._types
        #: of each block its rows, or a handle of them, and their number
        self._blocks: list[tuple[Any, int]] = []
        #: the rows that were taken in so far
        self._count = 0

    def run(self) -> Any:
        roller, source = self._roller, self._source
        batches = source.batches(self._plan.columns if source.in_memory else None)
        most = BLOCK_VALUES // (len(self._plan.columns) + len(self._plan.names))
        for block in _blocks(batches, most):
            held = block if source.in_memory else self._payload.put(_to_bytes(block))
            self._blocks.append((held, block.num_rows))
        self._inflow = Inflow(self._places, roller._node, sum(count for _, count in self._blocks))
        for held, _ in self._blocks:
            self._add(held if source.in_memory else _from_bytes(self._payload.get(held)).read_all())
        node = self._inflow.finish()
        if self._types is None:
            self._types = {}
        made = source.made(self._schema(), self._out())
        # nothing fails from here on
        roller._node, roller._plan = node, self._plan
        roller._keys, roller._types = self._keys, self._types or None
        roller._rows += self._count
        return made

    def _add(self, block: pa.Table) -> None:
        plan, count = self._plan, block.num_rows
        before = self._roller._rows + self._count
        columns = {name: block.column(name).combine_chunks() for name in plan.columns}
        keys = [key_column(name, _array(columns[name])) for name in plan.by]
        types = [key.type for key in keys]
        if self._keys is not None and types != self._keys:
            raise TypeError(f"the columns {list(plan.by)} were of types {self._keys}, and are {types} now")
        try:
            times = None if plan.on is None else plan.clock.take_all(_array(columns[plan.on]), count, before, ordered=False)
            elements = [program.elements(columns, count) for program in plan.programs]
        except (TypeError, ValueError, OverflowError) as error:
            raise _with_rows(error, self._count, count) from error
        self._keys = types
        if self._types is None:
            self._types = types_of(plan, elements)
        rows = Rows(keys, times, elements, count)
        self._inflow.add(rows, hashes_of_keys(keys, count))
        self._count += count

    def _schema(self) -> pa.Schema:
        new = [pa.field(name, kind) for name, kind in (self._types or dict.fromkeys(self._plan.names, pa.null())).items()]
        old = self._source.schema
        return pa.schema(new) if self._source.in_memory else pa.schema([*old, *new], old.metadata)

    def _out(self) -> Iterator[pa.RecordBatch]:
        """The rows with the new columns, or these alone for a frame in memory."""
        schema, types = self._schema(), self._types
        try:
            for number, (held, _) in enumerate(self._blocks):
                results = self._inflow.results(number)
                assert results is not None and types is not None
                new = as_columns(results, types)
                del results
                if self._source.in_memory:
                    yield pa.RecordBatch.from_arrays(new, schema=schema)
                    continue
                start = 0
                for batch in _from_bytes(self._payload.get(held)):
                    columns = [*batch.columns, *(column.slice(start, batch.num_rows) for column in new)]
                    start += batch.num_rows
                    yield pa.RecordBatch.from_arrays(columns, schema=schema)
        finally:
            self.close()

    def close(self) -> None:
        for scratch in (self._rows, self._results, self._payload):
            scratch.close()


def _with_rows(error: Exception, start: int, count: int) -> Exception:
    """The error of some rows of a block: those that it names count from the block's first row."""
    return type(error)(f"{error} (rows count from row {start} of the frame)") if start else error


def _blocks(batches: Iterator[pa.RecordBatch], most: int) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= most or size >= BLOCK_BYTES:
            yield pa.Table.from_batches(held)
            held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)


def _array(column: Any) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _to_bytes(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _from_bytes(data: pa.Buffer) -> pa.RecordBatchReader:
    return pa.ipc.open_stream(data)
