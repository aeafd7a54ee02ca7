"""Data frames of other libraries: their rows as Arrow, and the same kind of frame with new columns.

A frame is recognized by the name of its class or by its methods, so that no library but pyarrow is
imported. Columns that a frame has already never change: a frame in memory keeps them and gets only the new
columns, and all other rows stay as Arrow read them.

DataFrames of pandas and polars, Tables and RecordBatches are in memory, and give the same kind of frame.
Parquet files, directories of them, datasets, readers, and objects with `__arrow_c_stream__` are read a batch
at a time, and give a RecordBatchReader. A relation of DuckDB gives a relation on the same connection.
"""

from __future__ import annotations

import copy
import functools
import mmap
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

try:
    import pyarrow as pa
    import pyarrow.compute as pc
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "data frames need the package pyarrow: pip install 'mta-windows[tables]'", name=error.name
    ) from error

#: the most rows of a batch
ROWS = 2**15

#: what Arrow raises for values that it has no type for
_UNFIT = (TypeError, ValueError, NotImplementedError, OverflowError)

#: the names of columns; None stands for all
Names: TypeAlias = Sequence[str] | None


class Source:
    """The rows of a frame as Arrow."""

    #: Whether all rows are in memory already. Then `made` takes only the new columns, otherwise whole rows.
    in_memory: bool

    @property
    def schema(self) -> pa.Schema:
        """The columns as users see them. A column that Arrow has no type for is of `opaque` type."""
        raise NotImplementedError

    def batches(self, columns: Names = None) -> Iterator[pa.RecordBatch]:
        """The rows in their order, with these columns in this order. It may be called once."""
        raise NotImplementedError

    def made(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Any:
        """The same kind of frame out of batches of this schema, with the new columns behind the old ones.

        The batches have the order of the rows. If `in_memory`, they hold only the new columns, none of which
        has the name of an old one.
        """
        raise NotImplementedError

    def hint(self, missing: Sequence[str]) -> str:  # noqa: ARG002
        """What else to say of names that are no columns."""
        return ""


def source_of(frame: Any) -> Source:
    """The rows of a frame. Raises TypeError for what is no frame, ValueError for two columns of one name."""
    source = _recognized(frame)
    twice = [name for name, times in Counter(source.schema.names).items() if times > 1]
    if twice:
        raise ValueError(f"each column needs a name of its own, got {twice} more than once; rename columns")
    return source


def _recognized(frame: Any) -> Source:
    kinds = {
        f"{each.__module__.partition('.')[0].lstrip('_')}.{each.__name__}" for each in type(frame).__mro__
    }
    for kind, make in _KINDS.items():
        if kind in kinds:
            return make(frame)
    for kind, advice in _REFUSED.items():
        if kind in kinds:
            raise _no_frame(frame, advice)
    if isinstance(frame, str | os.PathLike):
        return _of_path(os.fspath(frame))
    if hasattr(type(frame), "__arrow_c_stream__"):
        return _of_reader(pa.RecordBatchReader.from_stream(frame))
    if isinstance(frame, Mapping):
        raise _no_frame(frame, "pyarrow.table(columns) makes a table of a mapping of columns")
    raise _no_frame(frame)


#: What to do with objects that are no frames, but nearly.
_REFUSED = {
    "polars.LazyFrame": "call .collect(), or .sink_parquet(path) and give the path",
    "polars.Series": "call .to_frame()",
    "pandas.Series": "call .to_frame()",
    "pyspark.DataFrame": "windows in Spark are spark_integration.rolling",
    "duckdb.DuckDBPyConnection": "give a relation of the connection: .sql(query) or .table(name)",
    "pyarrow.Scanner": "call .to_reader()",
    "pyarrow.Array": "pyarrow.table({name: column}) makes a table of columns",
    "pyarrow.ChunkedArray": "pyarrow.table({name: column}) makes a table of columns",
    "numpy.ndarray": "pyarrow.table({name: column}) makes a table of columns",
    "builtins.list": "pyarrow.Table.from_pylist(rows) makes a table of a list of mappings, and "
    "pyarrow.dataset.dataset(paths) a dataset of a list of files",
    "pandas.DataFrameGroupBy": "give the frame itself, and its keys as by=",
    "polars.GroupBy": "give the frame itself, and its keys as by=",
}


def _no_frame(frame: Any, advice: str = "") -> TypeError:
    kind = f"{type(frame).__module__}.{type(frame).__qualname__}".removeprefix("builtins.")
    return TypeError(
        "a frame is a DataFrame of pandas or polars, a Table, RecordBatch, RecordBatchReader, Dataset or "
        "ParquetFile of pyarrow, the path of a Parquet file or directory, a relation of DuckDB, or an object "
        f"with __arrow_c_stream__; got {kind}" + (f": {advice}" if advice else "")
    )


# Frames in memory


class _PandasFrame(Source):
    """A DataFrame of pandas. Its old columns and its index are never converted back."""

    in_memory = True

    def __init__(self, frame: Any) -> None:
        for name in frame.columns:
            if not isinstance(name, str):
                raise TypeError(
                    f"the names of columns are strings, got {name!r} of type {type(name).__name__}; rename "
                    "them, for example by frame.columns = [str(name) for name in frame.columns]"
                )
        self._frame = frame

    @functools.cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([(name, self._type(column)) for name, column in self._frame.items()])

    def hint(self, missing: Sequence[str]) -> str:
        if set(missing).isdisjoint(self._frame.index.names):
            return ""
        return "; frame.reset_index() makes columns of its index"

    def _type(self, column: Any) -> pa.DataType:
        """The type of a column: an object column's from its values, any other's from its dtype."""
        try:
            if column.dtype == object:
                return pa.infer_type(column.to_numpy(), from_pandas=True)
            return pa.array(column.iloc[:0], from_pandas=True).type
        except _UNFIT:
            return _opaque("pandas", column.dtype)

    def batches(self, columns: Names = None) -> Iterator[pa.RecordBatch]:
        names = self.schema.names if columns is None else columns
        return _of_columns({name: self._column(name) for name in names}, len(self._frame))

    def _column(self, name: str) -> pa.ChunkedArray:
        kind = self.schema.field(name).type
        _refuse_opaque(name, kind)
        column = self._frame[name]
        try:
            array = pa.array(column, kind if column.dtype == object else None, from_pandas=True)
        except _UNFIT as error:
            raise TypeError(f"the column {name!r} has values that are not all {kind}: {error}") from error
        if pa.types.is_floating(kind) and not isinstance(column.dtype, np.dtype):
            # pandas' own columns of Arrow, and its Float64, tell NaN from null
            array = pc.if_else(pc.is_nan(array), None, array)
        return _chunked(array)

    def made(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Any:
        pandas = sys.modules["pandas"]
        new = pa.Table.from_batches(batches, schema)
        # In a column with nulls NumPy's integers would be floats, which round, and its booleans objects.
        nullable = {
            getattr(pa, kind.lower())(): getattr(pandas, f"{kind}Dtype")()
            for kind in ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")
        } | {pa.bool_(): pandas.BooleanDtype()}
        values = {
            name: column.to_pandas(types_mapper=nullable.get if column.null_count else None).array
            for name, column in zip(schema.names, new.columns, strict=True)
        }
        out = pandas.concat([self._frame, pandas.DataFrame(values, index=self._frame.index)], axis=1)
        out.columns = out.columns.rename(self._frame.columns.name)
        out.attrs = copy.deepcopy(self._frame.attrs)
        return out


class _PolarsFrame(Source):
    """A DataFrame of polars."""

    in_memory = True

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    @functools.cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([(column.name, self._type(column)) for column in self._frame.clear().iter_columns()])

    def _type(self, column: Any) -> pa.DataType:
        # polars gives objects to Arrow as their addresses
        if str(column.dtype) != "Object":
            try:
                return column.to_arrow().type
            except _UNFIT:
                pass
        return _opaque("polars", column.dtype)

    def batches(self, columns: Names = None) -> Iterator[pa.RecordBatch]:
        schema = _selected(self.schema, columns)
        for field in schema:
            _refuse_opaque(field.name, field.type)
        for rows in self._frame.iter_slices(ROWS):
            named = {name: _chunked(rows.get_column(name).to_arrow()) for name in schema.names}
            yield from _of_columns(named, rows.height)

    def made(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Any:
        new = sys.modules["polars"].from_arrow(pa.Table.from_batches(batches, schema))
        return self._frame.hstack(new.get_columns())


class _ArrowTable(Source):
    """A Table, or a RecordBatch."""

    in_memory = True

    def __init__(self, table: pa.Table | pa.RecordBatch) -> None:
        self._table = table

    @property
    def schema(self) -> pa.Schema:
        return self._table.schema

    def batches(self, columns: Names = None) -> Iterator[pa.RecordBatch]:
        chosen = self._table if columns is None else self._table.select(list(columns))
        return _cut([chosen] if isinstance(chosen, pa.RecordBatch) else chosen.to_batches())

    def made(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Any:
        new, out = pa.Table.from_batches(batches, schema), self._table
        for field, column in zip(schema, new.columns, strict=True):
            out = out.append_column(field, column if isinstance(out, pa.Table) else column.combine_chunks())
        return out


# Streams


class _Stream(Source):
    """Rows that are read a batch at a time, and given on as a RecordBatchReader."""

    in_memory = False

    def __init__(self, schema: pa.Schema, read: Callable[[Names], Iterable[pa.RecordBatch]]) -> None:
        self._schema = schema
        self._read = read

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def batches(self, columns: Names = None) -> Iterator[pa.RecordBatch]:
        for batch in _cut(self._read(columns)):
            yield batch if columns is None else batch.select(list(columns))

    def made(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Any:
        return pa.RecordBatchReader.from_batches(schema, batches)


def _of_reader(reader: pa.RecordBatchReader) -> Source:
    return _Stream(reader.schema, lambda _: _until_closed(reader))


def _until_closed(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    with reader:
        yield from reader


def _of_path(path: str) -> Source:
    """A Parquet file, or a directory of such files in the order of their names, with the columns of all."""
    import pyarrow.dataset

    try:
        dataset = pyarrow.dataset.dataset(path, format="parquet", partitioning="hive")
    except FileNotFoundError as error:
        raise FileNotFoundError(f"there is no file or directory {path!r}") from error
    if not dataset.files:
        raise FileNotFoundError(f"the directory {path} has no Parquet file")
    fields = {field.name: field for field in dataset.schema}  # of the first file
    for fragment in dataset.get_fragments():
        for field in fragment.physical_schema:
            fields.setdefault(field.name, field)
    return _of_dataset(dataset.replace_schema(pa.schema(fields.values(), dataset.schema.metadata)))


def _of_dataset(dataset: Any) -> Source:
    return _Stream(dataset.schema, functools.partial(_read_dataset, dataset))


def _read_dataset(dataset: Any, columns: Names) -> Iterator[pa.RecordBatch]:
    try:
        fragments = dataset.get_fragments()
    except ValueError:  # of a dataset with a filter
        yield from _scan(dataset, columns)
        return
    for fragment in fragments:
        try:
            yield from _read_fragment(fragment, dataset.schema, columns)
        except pa.ArrowInvalid as error:
            raise pa.ArrowInvalid(f"{getattr(fragment, 'path', 'a part of the dataset')}: {error}") from error


def _read_fragment(fragment: Any, schema: pa.Schema, columns: Names) -> Iterator[pa.RecordBatch]:
    """The rows of one file.

    A scan decodes a row group at once, a ParquetFile only the rows of a batch. But only a scan adds the
    columns that a file lacks, casts others, and knows the options of its dataset.
    """
    import pyarrow.parquet

    if _is_plain_parquet(fragment):
        with (
            fragment.open() as opened,
            pyarrow.parquet.ParquetFile(opened, pre_buffer=False, buffer_size=2**16) as file,
        ):
            if file.schema_arrow.equals(schema):
                yield from _read_file(file, columns, [group.id for group in fragment.row_groups])
                return
    yield from _scan(fragment, columns, schema=schema)


def _is_plain_parquet(scanned: Any) -> bool:
    """Whether a dataset or a part of it is of Parquet, and has no options of its own."""
    import pyarrow.dataset

    form = getattr(scanned, "format", None)
    return (
        isinstance(form, pyarrow.dataset.ParquetFileFormat)
        and form.default_fragment_scan_options == pyarrow.dataset.ParquetFragmentScanOptions()
    )


def _scan(scanned: Any, columns: Names, **options: Any) -> Iterator[pa.RecordBatch]:
    """The rows of a dataset or of a part of it. By default pyarrow reads far ahead of its caller."""
    import pyarrow.dataset

    if _is_plain_parquet(scanned):
        options["fragment_scan_options"] = pyarrow.dataset.ParquetFragmentScanOptions(pre_buffer=False)
    yield from scanned.scanner(
        columns=None if columns is None else list(columns),
        batch_size=ROWS,
        batch_readahead=1,
        fragment_readahead=1,
        use_threads=False,
        **options,
    ).to_batches()


def _of_parquet_file(file: Any) -> Source:
    return _Stream(file.schema_arrow, lambda columns: _read_file(file, columns, range(file.num_row_groups)))


def _read_file(file: Any, columns: Names, groups: Iterable[int]) -> Iterator[pa.RecordBatch]:
    for group in groups:
        yield from file.iter_batches(
            ROWS, [group], columns=None if columns is None else list(columns), use_threads=False
        )


# DuckDB


#: Types that lose something on their way through Arrow, so they go as text.
_AS_TEXT = {"bit", "uhugeint", "time with time zone"}
#: Types inside others that do so, or that DuckDB sometimes cannot read back.
_NOT_INSIDE = _AS_TEXT | {"enum"}


class _Relation(Source):
    """A relation of DuckDB. Its connection can run nothing else while its rows are read.

    What is made is a relation over a temporary file, which is gone with the relation. Rows keep their order,
    unless the connection does not preserve it.
    """

    in_memory = False

    def __init__(self, relation: Any) -> None:
        names = relation.columns
        for name, kind in zip(names, relation.types, strict=True):
            if any(inner.id in _NOT_INSIDE for inner in _inner_types(kind)):
                raise TypeError(
                    f"the column {name!r} of type {kind} may not pass through Arrow unchanged; cast it, for "
                    "example to VARCHAR"
                )
        self._relation = relation
        self._items = {
            name: f"CAST({_quoted(name)} AS VARCHAR) AS {_quoted(name)}"
            if kind.id in _AS_TEXT
            else _quoted(name)
            for name, kind in zip(names, relation.types, strict=True)
        }
        with _reader_of(self._projected(names).limit(0)) as reader:
            self._schema = reader.schema
        given_back = _over(relation, _Spooled(self._schema, []), "*").types
        #: the types that Arrow does not give back
        self._types = {
            name: str(kind)
            for name, kind, other in zip(names, relation.types, given_back, strict=True)
            if str(kind) != str(other)
        }

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def batches(self, columns: Names = None) -> Iterator[pa.RecordBatch]:
        names = self._schema.names if columns is None else list(columns)
        for batch in _cut(_until_closed(_reader_of(self._projected(names)))):
            yield batch.select(names)

    def _projected(self, names: Sequence[str]) -> Any:
        return self._relation.project(", ".join(self._items[name] for name in names) or "NULL")

    def made(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Any:
        # DuckDB runs a relation again each time that it is shown, and runs none while another one is read.
        # The batches may still read the user's relation, so they go to a file first. Its columns have numbers
        # as names, since A and a are one name to DuckDB.
        numbered = pa.schema([field.with_name(str(i)) for i, field in enumerate(schema)])
        rows = _Spooled(
            numbered, (pa.RecordBatch.from_arrays(batch.columns, schema=numbered) for batch in batches)
        )
        items = [
            (f'CAST("{i}" AS {self._types[name]})' if name in self._types else f'"{i}"')
            + f" AS {_quoted(name)}"
            for i, name in enumerate(schema.names)
        ]
        return _over(self._relation, rows, ", ".join(items))


def _inner_types(kind: Any) -> Iterator[Any]:
    if kind.id in ("list", "array", "struct", "map", "union"):
        for _, inner in kind.children:
            if hasattr(inner, "id"):  # an array has its size among its children
                yield inner
                yield from _inner_types(inner)


class _Spooled:
    """Rows in a file without a name, which any number of readers can read."""

    def __init__(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        with tempfile.TemporaryFile(prefix="mta-") as file:
            with pa.ipc.new_stream(file, schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
            file.flush()
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return pa.ipc.open_stream(pa.py_buffer(self._bytes)).__arrow_c_stream__(requested_schema)


def _over(relation: Any, mta_rolling_rows: Any, items: str) -> Any:  # noqa: ARG001
    """A relation over Arrow's rows, on the connection of another relation.

    DuckDB finds the rows by the argument's name. A relation needs the one that it was made from. Here that is
    the answer to a pragma and not the user's, whose tables may be dropped.
    """
    name = "mta_rolling_input"
    try:
        other = relation.query(name, "PRAGMA version") or relation
        return other.query(name, f"SELECT {items} FROM mta_rolling_rows")
    except Exception as error:
        if "name mta_rolling_rows does not exist" not in str(error):
            raise
        raise ValueError(
            "DuckDB has to find a variable of Python, and does not; SET python_enable_replacements = true"
        ) from error


def _reader_of(relation: Any) -> pa.RecordBatchReader:
    # the newer name first: the older one warns there
    read = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch
    return read(ROWS)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# Batches


def _of_columns(columns: Mapping[str, pa.ChunkedArray], rows: int) -> Iterator[pa.RecordBatch]:
    table = pa.table(dict(columns)) if columns else pa.table({"": pa.nulls(rows)}).select([])
    return _cut(table.to_batches())


def _cut(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of at most `ROWS`."""
    for batch in batches:
        for start in range(0, batch.num_rows, ROWS):
            yield batch.slice(start, ROWS)


def _chunked(array: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])


def _selected(schema: pa.Schema, columns: Names) -> pa.Schema:
    return schema if columns is None else pa.schema([schema.field(name) for name in columns])


def _opaque(library: str, kind: Any) -> pa.DataType:
    return pa.opaque(pa.null(), str(kind), library)


def _refuse_opaque(name: str, kind: pa.DataType) -> None:
    if isinstance(kind, pa.OpaqueType) and pa.types.is_null(kind.storage_type):
        raise TypeError(
            f"the column {name!r} has the type {kind.type_name} of {kind.vendor_name}, which Arrow has not; "
            "make another column of it"
        )


_KINDS: dict[str, Callable[[Any], Source]] = {
    "pandas.DataFrame": _PandasFrame,
    "polars.DataFrame": _PolarsFrame,
    "pyarrow.Table": _ArrowTable,
    "pyarrow.RecordBatch": _ArrowTable,
    "pyarrow.RecordBatchReader": _of_reader,
    "pyarrow.Dataset": _of_dataset,
    "pyarrow.ParquetFile": _of_parquet_file,
    "duckdb.DuckDBPyRelation": _Relation,
}
