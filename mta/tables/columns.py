"""Results of windows as columns of Arrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mta.kinds import Array
from mta.monoids.sketches import HeavyHitters, Quantiles
from mta.tables.plan import Plan

#: The types of columns of numbers.
_PLAIN = {"b": pa.bool_(), "i": pa.int64(), "f": pa.float64()}


def plain_column(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column in one piece, of a type that elements, times and keys can be made of."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return plain_column(column.storage)
    if pa.types.is_run_end_encoded(kind):
        return plain_column(pc.run_end_decode(column))
    if pa.types.is_dictionary(kind) and not _is_text(kind.value_type):
        return plain_column(column.dictionary_decode())
    if pa.types.is_map(kind):  # which has keys, as tables have
        return column.cast(pa.list_(pa.struct([kind.key_field, kind.item_field])))
    return column


def sort_of(kind: pa.DataType) -> str:
    """A text that is the same for types whose values may be in one column of elements."""
    kind = plain_column(pa.nulls(0, kind)).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return "number"
    if _is_text(kind):
        return str(kind).removeprefix("large_").removesuffix("_view")
    return str(kind).partition("[")[0] if pa.types.is_temporal(kind) else str(kind)


def types_of(plan: Plan, schema: pa.Schema) -> dict[str, pa.DataType]:
    """The types of results for rows of a schema: those for one row whose values are all 1, or text.

    Null where that is no row for an aggregate, or where it has no result: the first results decide then.
    """
    found = dict.fromkeys(plan.names, pa.null())
    for name in plan.names:
        program = plan.program_of(name)
        # a user's function may raise anything for a value that is in no row
        with suppress(Exception):
            columns = {field: _sample(schema.field(field).type) for field in program.fields.fields}
            layout = program.layout
            results = layout.lower(layout.lift(program.elements(columns, 1)))[name]
            known = [(each[0].as_py(), each.type) for each in columns.values() if _is_kept(each.type)]
            if results.dtype.kind in _PLAIN:
                found[name] = _PLAIN[results.dtype.kind]
                continue
            (result,) = results.tolist()
            if isinstance(plan.fields.monoids[name], (HeavyHitters, Quantiles)):
                ((key, value), *_) = dict(result).items()
                found[name] = pa.map_(_type_of(key, known), _type_of(value, known))
            else:
                found[name] = _type_of(result, known)
    return found


def _sample(kind: pa.DataType) -> pa.Array:
    """One row, missing for the type of nulls, of the type that `plain_column` makes of a type."""
    kind = plain_column(pa.nulls(1, kind)).type
    if pa.types.is_dictionary(kind):
        return _sample(kind.value_type)
    return pa.array([_value(kind)], kind)


def _value(kind: pa.DataType) -> Any:
    """A value of a type: 1, or what is nearest to it."""
    types = pa.types
    if types.is_list_view(kind) or types.is_large_list_view(kind) or types.is_map(kind):
        return []
    if types.is_fixed_size_list(kind):
        return [_value(kind.value_type)] * kind.list_size
    if types.is_list(kind) or types.is_large_list(kind):
        return [_value(kind.value_type)]
    if types.is_struct(kind):
        return {field.name: _value(field.type) for field in kind}
    if types.is_decimal(kind):
        return Decimal(0)
    if types.is_fixed_size_binary(kind):
        return b"1" * kind.byte_width
    if _is_text(kind):
        return pa.scalar("1").cast(kind).as_py()
    if types.is_boolean(kind):
        return True
    if types.is_null(kind) or types.is_nested(kind):
        return None
    one = pa.scalar(1, pa.int32() if kind.bit_width == 32 and types.is_temporal(kind) else pa.int64())
    return one.cast(kind).as_py()


def _is_text(kind: pa.DataType) -> bool:
    return any(is_kind(kind) for is_kind in _TEXTS)


_TEXTS = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
)


def _is_kept(kind: pa.DataType) -> bool:
    """Whether values of a column keep its type where they are results: others are wider, or text."""
    types = pa.types
    return bool(types.is_decimal(kind) or types.is_temporal(kind) or types.is_nested(kind))


def _type_of(result: Any, known: Sequence[tuple[Any, pa.DataType]]) -> pa.DataType:
    """The type of a result. Values of the known types may be in it."""
    result = _plain(result)
    for value, kind in known:
        if type(result) is type(value) and repr(result) == repr(value):
            return kind
    if isinstance(result, list) and result:
        return pa.list_(_type_of(result[0], known))
    return _inferred([result])


def check_results(results: Mapping[str, Array], types: dict[str, pa.DataType]) -> None:
    """Raises the errors of `as_columns`. A type that is null yet becomes that of the results."""
    for name, values in results.items():
        if pa.types.is_null(types[name]):
            types[name] = _PLAIN.get(values.dtype.kind) or _inferred(list(map(_plain, values.tolist())))
        if not (values.dtype.kind in "bif" and types[name] == _PLAIN[values.dtype.kind]):
            _column(name, values, types[name])


def _inferred(plain: list[Any]) -> pa.DataType:
    """The type of Arrow that holds all values; null if none does."""
    with suppress(pa.ArrowException, OverflowError):
        kind = pa.infer_type(plain)
        pa.array(plain, kind)  # which does not hold a tuple of a text and a number
        return kind
    return pa.null()


def as_columns(results: Mapping[str, Array], types: Mapping[str, pa.DataType]) -> list[pa.Array]:
    """Results as columns of some types. Raises TypeError or OverflowError for results of another type."""
    return [_column(name, results[name], kind) for name, kind in types.items()]


def _column(name: str, values: Array, kind: pa.DataType) -> pa.Array:
    try:
        if values.dtype != object:
            column = pa.array(values)
            return column if column.type == kind else column.cast(kind)
        return pa.array([_plain(value) for value in values.tolist()], type=kind, from_pandas=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
        plain = [_plain(value) for value in values.tolist()]
        wrong = next((value for value in plain if not _fits(value, kind)), None)
        if pa.types.is_null(kind):
            raise TypeError(
                f"the results of the aggregate {name!r}, such as {wrong!r}, have no common type of Arrow: "
                "let it give numbers, texts or times, or lists of these, or mappings of texts to these"
            ) from None
        raise TypeError(
            f"the results of the aggregate {name!r} are of type {kind}, by the type of the column that it "
            f"reads, and {wrong!r} does not fit: {error}; cast the column to a type that holds all its values"
        ) from None


def _fits(value: Any, kind: pa.DataType) -> bool:
    try:
        pa.array([value], type=kind, from_pandas=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        return False
    return True


def _plain(value: Any) -> Any:
    """A result as a value that Arrow takes."""
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=lambda each: (str(type(each)), each))
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return value._asdict()
    if isinstance(value, dict) and not all(isinstance(key, str) for key in value):
        return list(value.items())
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value
