"""`rolling`: the rows of a data frame with the aggregates of their windows, and `Roller` to append to it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from mta.core.states import Run
from mta.frames.policies import Policy
from mta.kinds import Array
from mta.monoids.nulls import Nulls
from mta.tables.columns import as_columns, plain_column, sort_of, types_of
from mta.tables.formats import Source, source_of
from mta.tables.keys import hashes_of_keys, key_column
from mta.tables.long import WindowStore
from mta.tables.plan import Plan
from mta.tables.rows import Rows
from mta.tables.scratch import InMemory, OnDisk, Scratch
from mta.tables.tree import Inflow, Node, Places
from mta.turns import TakesTurns, in_turn
from stores import Store

#: Values of a block of rows, old and new ones, which are taken in and given back together; and its old bytes.
BLOCK_VALUES, BLOCK_BYTES = 1 << 22, 1 << 24

#: A file of rows that came before is written anew if it is larger than twice those that are needed, and this.
SPARE_BYTES = 1 << 26


def rolling(
    frame: Any,
    *,
    on: str | None = None,
    by: str | Sequence[str] | None = None,
    aggregates: Any,
    policy: Policy | None = None,
    nulls: Nulls = "skip",
    store: Store | None = None,
) -> Any:
    """The rows of a data frame with a column for each aggregate of the row's window.

    `frame` is a DataFrame of pandas or polars, a Table or RecordBatch of pyarrow, a relation of DuckDB, the
    path of a Parquet file or of a directory of them, a Dataset, a ParquetFile, a RecordBatchReader, or an
    object with `__arrow_c_stream__`. A frame in memory and a relation give the same kind; all others give a
    RecordBatchReader, and are rolled in bounded memory. The rows keep their order, and the old columns stay
    as they are. docs/dataframes.md has the types of the new columns.

    `on` is the column of times, which frames of time need: numbers, or dates and times. The rows of a key
    come into its windows in the order of their times, and rows of one time as the frame has them. Without
    `on` they come as the frame has them. `by` is the column of keys, or a list of columns; each key has
    windows of its own. `aggregates` is a mapping of the names of new columns to monoids that name the
    columns they read, such as `Max("amount").over("1 day")`, or `Fields`. `policy` is the frame of aggregates
    without `over`; without it they hold all rows so far. With `nulls="skip"` missing values are in a window
    and not in its aggregates (docs/input.md); "refuse" refuses them. `store` is where keys with very many
    rows have them; without it an embedded store in a temporary directory.

    Raises TypeError for something else than a frame, and TypeError or ValueError for other arguments, times
    and values that cannot be; KeyError for columns that the frame lacks; OverflowError for whole numbers that
    leave 64 bits; FileNotFoundError; OutOfOrderError for a key of a file that has too many rows to sort them;
    and ModuleNotFoundError without pyarrow.

    >>> import pyarrow as pa
    >>> import mta
    >>> from mta import monoids
    >>> frame = pa.table({"card": ["a", "b", "a"], "ts": [0, 10, 30], "amount": [5.0, 7.0, 2.0]})
    >>> features = {"n_1m": monoids.Count().over(60), "sum_10s": monoids.Sum("amount").over(10)}
    >>> mta.rolling(frame, on="ts", by="card", aggregates=features).to_pydict()["n_1m"]
    [1, 1, 2]
    """
    with Roller(on=on, by=by, aggregates=aggregates, policy=policy, nulls=nulls, store=store) as roller:
        return roller._take(frame, keeps=False)


class Roller(TakesTurns):
    """Windows over a data frame to which rows are appended.

    The arguments are those of `rolling`. The roller keeps the rows that windows may still need: in memory if
    its first frame is in memory, and otherwise in a temporary file. It is closed by `close` or by `with`, and
    ends with its process.

    Raises TypeError and ValueError for arguments that cannot be.

    >>> import pyarrow as pa
    >>> import mta
    >>> from mta import monoids
    >>> with mta.Roller(on="ts", by="card", aggregates={"n": monoids.Count().over(60)}) as roller:
    ...     first = roller.append(pa.table({"card": ["a", "b"], "ts": [0, 10]}))
    ...     more = roller.append(pa.table({"card": ["a", "a"], "ts": [30, 70]}))
    >>> more.to_pydict()["n"]
    [2, 2]
    """

    _kind, _when_closed = "roller", "is closed; make a new one"
    _when_forked = "belongs to the process that this one was forked from; make rollers after the fork"

    def __init__(
        self,
        *,
        on: str | None = None,
        by: str | Sequence[str] | None = None,
        aggregates: Any,
        policy: Policy | None = None,
        nulls: Nulls = "skip",
        store: Store | None = None,
    ) -> None:
        if store is not None and not isinstance(store, Store):
            raise TypeError(f"store is what stores.open_store(url) returns, got {store!r}")
        self._windows = WindowStore(store)
        self._past = _Past(Plan(on, by, aggregates, policy, nulls))
        self._name = ", ".join(self._past.plan.names)
        self._stays_in_this_process()

    def __len__(self) -> int:
        """The number of rows so far."""
        return self._past.rows

    @in_turn
    def append(self, frame: Any) -> Any:
        """Takes in more rows; returns them with their new columns, as the kind of frame that they came as.

        The rows of a key come in the order of their times from call to call, and in any order within one. A
        reader, a file or a dataset is read to its end first. The reader that is returned reads the rows back
        from temporary files. The columns of keys have the same types from call to call.

        Raises the errors of `rolling`; OutOfOrderError for a row before rows of its key from an earlier call;
        WindowClosed, and ConcurrentUse while another call runs. A call that raises has not happened.
        """
        return self._take(frame, keeps=True)

    def close(self) -> None:
        """Gives up the rows. Readers that were returned stay readable, and a second call does nothing."""
        super().close()

    def _take(self, frame: Any, *, keeps: bool) -> Any:
        source = source_of(frame)
        self._check_columns(source)
        call = _Call(self._past, source, self._windows, keeps=keeps)
        try:
            made, past = call.run()
        except BaseException:
            call.close()
            raise
        before, self._past = self._past, past
        if before.state is not None and before.state is not past.state:
            before.state.close()
        return made

    def _check_columns(self, source: Source) -> None:
        names, plan = source.schema.names, self._past.plan
        missing = [name for name in plan.columns if name not in names]
        if missing:
            raise KeyError(f"the frame has no column(s) {missing}, only {names[:20]}{source.hint(missing)}")
        taken = [name for name in plan.names if name in names]
        if taken:
            raise ValueError(f"the frame has column(s) {taken} already: give the aggregates other names")

    def _end(self) -> None:
        if self._past.state is not None:
            self._past.state.close()
        self._windows.close()


@dataclass(frozen=True)
class _Past:
    """What a call has to know of the calls before."""

    plan: Plan
    node: Node = field(default_factory=Node)
    #: where the rows are that windows may still need; None before the first call
    state: Scratch | None = None
    rows: int = 0
    #: the types of the columns of keys, of those that aggregates read, and of the new columns; None before
    #: the first row
    keys: list[pa.DataType] | None = None
    inputs: dict[str, pa.DataType] | None = None
    types: dict[str, pa.DataType] | None = None


class _Call:
    """One call of `append`: takes in a frame block by block, and gives back its rows."""

    def __init__(self, past: _Past, source: Source, windows: WindowStore, *, keeps: bool) -> None:
        self._past, self._source = past, source
        make: type[Scratch] = InMemory if source.in_memory else OnDisk
        # a clock of its own, which a call that fails leaves behind
        self._plan = plan = copy(past.plan)
        plan.clock = copy(past.plan.clock)
        self._columns = list(plan.columns) or source.schema.names[:1]
        self._keys, self._inputs = past.keys, past.inputs or {}
        self._types = types_of(plan, source.schema) if past.types is None else dict(past.types)
        self._rows, self._results, self._payload = make(), make(), make()
        self._state = make() if past.state is None else past.state
        self._places = Places(plan, self._types, keeps, self._state, self._rows, self._results, windows)
        self._inflow = Inflow(self._places, past.node, 0)
        #: of each block its rows, or a handle of them, and their number
        self._blocks: list[tuple[Any, int]] = []
        #: the rows that were taken in so far
        self._count = 0

    def run(self) -> tuple[Any, _Past]:
        """The frame with its new columns, and what the next call has to know."""
        past, source = self._past, self._source
        most = BLOCK_VALUES // (len(self._columns) + len(self._plan.names))
        for block in _blocks(source.batches(self._columns if source.in_memory else None), most):
            held = block if source.in_memory else self._payload.put(_to_bytes(block))
            self._blocks.append((held, block.num_rows))
        pa.default_memory_pool().release_unused()
        self._inflow = Inflow(self._places, past.node, sum(count for _, count in self._blocks))
        for held, _ in self._blocks:
            self._add(held if source.in_memory else _from_bytes(self._payload.get(held)).read_all())
        pa.default_memory_pool().release_unused()
        try:
            node = self._inflow.finish()
        except OverflowError as error:
            raise OverflowError(_of_no_row(str(error))) from error
        state, node = self._without_spare(node)
        made = source.made(self._schema(), self._out())
        types, inputs = (self._types, self._inputs) if self._count else (past.types, past.inputs)
        return made, _Past(self._plan, node, state, past.rows + self._count, self._keys, inputs, types)

    def _add(self, block: pa.Table) -> None:
        plan, count = self._plan, block.num_rows
        self._check_inputs()
        before = self._past.rows + self._count
        columns = {name: plain_column(block.column(name)) for name in self._columns}
        keys = [key_column(name, columns[name]) for name in plan.by]
        if self._keys is not None:  # a column without values may have no type of its own
            known = zip(keys, self._keys, strict=True)
            keys = [key.cast(kind) if pa.types.is_null(key.type) else key for key, kind in known]
        types = [key.type for key in keys]
        if self._keys is not None and types != self._keys:
            raise TypeError(
                f"the columns of keys {list(plan.by)} were of the types {list(map(str, self._keys))}, and "
                f"are of {list(map(str, types))} now: cast them"
            )
        try:
            times = self._times(columns, count, before)
            elements = self._elements(columns, count)
        except (TypeError, ValueError, OverflowError) as error:
            raise _with_rows(error, self._count) from error
        self._keys = types
        rows = Rows(keys, times, elements, count)
        self._inflow.add(rows, hashes_of_keys(keys, count))
        self._count += count

    def _check_inputs(self) -> None:
        """Notes the types of columns that aggregates read. Raises TypeError if they were of another sort."""
        inputs = dict(self._inputs)
        for name in self._plan.inputs:
            kind = self._source.schema.field(name).type
            before = inputs.setdefault(name, kind)
            if pa.types.is_null(before):
                inputs[name] = kind
            elif sort_of(kind) not in ("null", sort_of(before)):
                raise TypeError(f"the column {name!r} was of type {before}, and is of {kind} now: cast it")
        self._inputs = inputs

    def _elements(self, columns: Mapping[str, pa.Array], count: int) -> list[Run]:
        try:
            return [program.elements(columns, count) for program in self._plan.programs]
        except TypeError as error:
            types = {name: self._source.schema.field(name).type for name in self._plan.inputs}
            named = [
                f"the column {name!r} is of type {kind}: cast it"
                for name, kind in types.items()
                if sort_of(kind) != "number" and repr(name) in str(error)
            ]
            raise TypeError("; ".join([str(error), *named])) from error

    def _times(self, columns: Mapping[str, pa.Array], count: int, before: int) -> Array | None:
        on = self._plan.on
        if on is None:
            return None
        try:
            return self._plan.clock.take_all(columns[on], count, before, ordered=False)
        except (TypeError, ValueError, OverflowError) as error:
            raise _saying(f"on={on!r}: {error}", error) from error

    def _without_spare(self, node: Node) -> tuple[Scratch, Node]:
        """The rows that came before, in a new file if the old one has much that is not needed any more."""
        state = self._state
        if state.size <= 2 * state.size_of(node.handles()) + SPARE_BYTES:
            return state, node
        new = OnDisk()
        return new, node.moved(lambda handle: new.put(state.get(handle)))

    def _schema(self) -> pa.Schema:
        new = [pa.field(name, kind) for name, kind in self._types.items()]
        old = self._source.schema
        return pa.schema(new) if self._source.in_memory else pa.schema([*old, *new], old.metadata)

    def _out(self) -> Iterator[pa.RecordBatch]:
        """The rows with the new columns, or these alone for a frame in memory."""
        schema = self._schema()
        try:
            for number, (held, _) in enumerate(self._blocks):
                results = self._inflow.results(number)
                assert results is not None
                new = as_columns(results, self._types)
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


def _with_rows(error: Exception, start: int) -> Exception:
    """The error of some rows of a block: those that it names count from the block's first row."""
    return _saying(f"{error} (rows count from row {start} of the frame)", error) if start else error


def _saying(text: str, error: Exception) -> Exception:
    """An error like another one, with another text. Those of Unicode are made of more than a text."""
    return ValueError(text) if isinstance(error, UnicodeError) else type(error)(text)


def _of_no_row(text: str) -> str:
    """What is wrong with a result. Its row counts among sorted rows, and there is no window to speak of."""
    return re.sub(r" in row \d+", "", text).replace("the window itself is intact: ", "")


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


def _to_bytes(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _from_bytes(data: pa.Buffer) -> pa.RecordBatchReader:
    return pa.ipc.open_stream(data)
