"""The catalogue's monoids in SQL. A new one that SQL should know has its record here, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import and_
from typing import Any

import numpy as np
from pyspark.sql import types as sql

from mta import monoids
from mta.monoids.base import Monoid
from mta.monoids.functions import FromUfunc
from spark_integration.aggregates import nan
from spark_integration.aggregates.inputs import Input
from spark_integration.aggregates.traits import HIGHEST, LOWEST, SqlTraits
from spark_integration.errors import RollingError


def traits_of(monoid: Monoid) -> SqlTraits:
    """What the monoid says of itself, or the catalogue of its class or of one that it is made from."""
    own = getattr(monoid, "sql_traits", None)
    if own is not None:
        if not isinstance(own, SqlTraits):
            raise RollingError(f"sql_traits of {monoid!r} is to be SqlTraits(...), got {own!r}")
        return own
    for kind in type(monoid).__mro__:
        found = TRAITS.get(kind)
        if found is not None:
            # a class of your own may have other operators and checks
            return found if kind is type(monoid) else replace(found, ordered=None, takes_nan=False)
    return SqlTraits()


def _last_input(_monoid: Monoid, inputs: Sequence[Input]) -> sql.DataType:
    return inputs[-1].type


def _whole_or_real(_monoid: Monoid, inputs: Sequence[Input]) -> str:
    return "bigint" if inputs[0].encoding == "whole" else "double"


def _array(_monoid: Monoid, inputs: Sequence[Input]) -> sql.DataType:
    return sql.ArrayType(inputs[0].type, containsNull=False)


def _of_ufunc(monoid: FromUfunc, inputs: Sequence[Input]) -> str | None:
    """The type of the results, found from the results for two ones; None if they are no numbers."""
    ones = np.array([1], dtype=np.int64 if inputs[0].encoding == "whole" else np.float64)
    try:
        lifted = monoid.lift_columns((ones,))
        kind = np.asarray(monoid.lower_columns(monoid.combine_columns(lifted, lifted))).dtype.kind
    except Exception:  # the caller's functions may refuse ones, and take the data
        return None
    return {"i": "bigint", "f": "double", "b": "boolean"}.get(kind)


def _run(_monoid: Monoid, inputs: Sequence[Input]) -> sql.DataType:
    bound: sql.DataType = inputs[1].type if len(inputs) == 2 else sql.LongType()
    real = len(inputs) == 2 and inputs[1].encoding == "real"
    return sql.StructType(
        [
            sql.StructField("start", bound),
            sql.StructField("end", bound),
            sql.StructField("interval", sql.DoubleType() if real else sql.LongType()),
            sql.StructField("count", sql.LongType()),
        ]
    )


def _hitters(_monoid: Monoid, inputs: Sequence[Input]) -> sql.DataType:
    item = sql.StructType([sql.StructField("item", inputs[0].type), sql.StructField("count", sql.LongType())])
    return sql.ArrayType(item, containsNull=False)


_SHARES = sql.MapType(sql.DoubleType(), sql.DoubleType(), valueContainsNull=False)


def _enough(monoid: Any, state: Any) -> Any:
    """Whether there are more values than degrees of freedom are taken off."""
    return state[0] > monoid.freedom


def _varies(monoid: Any, state: Any) -> Any:
    """Whether not all x are equal, and for a correlation not all y: then the sums of squares are not 0."""
    squares = [part for (a, b), part in zip(monoid.products, state[3:], strict=True) if a == b]
    return reduce(and_, (part != 0 for part in squares), state[0] > 1)


def _as(kind: type[Monoid]) -> Callable[[Monoid], Monoid]:
    return lambda monoid: kind(*monoid.fields)


_SUM = SqlTraits(result=_whole_or_real, takes=("number",), takes_nan=True)
_MEAN = SqlTraits(result="double", takes=("number",), takes_nan=True)
_LAST = SqlTraits(result=_last_input, takes_nan=True)
_PACKED = SqlTraits(result="binary", takes_nan=True, lower=lambda monoid, state: monoid.pack(state))
_COUNT = SqlTraits(result="bigint", nothing=0, takes_nan=True)

TRAITS: Mapping[type[Monoid], SqlTraits] = {
    monoids.Count: replace(_COUNT, presence=True, of_rows=True),
    monoids.Sum: _SUM,
    monoids.Product: _SUM,
    monoids.Mean: _MEAN,
    monoids.GeometricMean: replace(_MEAN, refuses=("negative numbers", lambda values: values < 0)),
    monoids.SampleStdDev: replace(_MEAN, defined=_enough),
    monoids.PopulationStdDev: replace(_MEAN, defined=_enough),
    monoids.Variance: replace(_MEAN, defined=_enough),
    monoids.Covariance: replace(_MEAN, defined=_enough),
    monoids.Correlation: replace(_MEAN, defined=_varies),
    monoids.Slope: replace(_MEAN, defined=_varies),
    monoids.Max: replace(_LAST, ordered=_as(nan.Max), unseen=LOWEST),
    monoids.Min: replace(_LAST, ordered=_as(nan.Min), unseen=HIGHEST),
    monoids.MaxCount: replace(_COUNT, ordered=_as(nan.MaxCount), coded=True, unseen=(LOWEST, 0)),
    monoids.MinCount: replace(_COUNT, ordered=_as(nan.MinCount), coded=True, unseen=(HIGHEST, 0)),
    monoids.ArgMax: replace(_LAST, ordered=_as(nan.ArgMax), coded=True, needs=1, unseen=(LOWEST, None)),
    monoids.ArgMin: replace(_LAST, ordered=_as(nan.ArgMin), coded=True, needs=1, unseen=(HIGHEST, None)),
    monoids.First: _LAST,
    monoids.Last: _LAST,
    monoids.LastK: SqlTraits(result=_array, nothing=(), takes_nan=True),
    monoids.TopK: SqlTraits(result=_array, nothing=(), takes=("numeric",)),
    monoids.Concat: SqlTraits(result="string", takes=("text",), takes_nan=True),
    monoids.Collect: SqlTraits(result=_array, nothing=(), takes_nan=True),
    monoids.CollectDistinct: SqlTraits(result=_array, nothing=(), takes_nan=True),
    monoids.CountDistinct: replace(_COUNT, ordered=_as(nan.CountDistinct)),
    monoids.LongestIncreasingRun: SqlTraits(result=_run, takes=("number", "numeric")),
    monoids.DistinctCount: SqlTraits(result="double", nothing=0.0, takes_nan=True),
    monoids.Quantiles: SqlTraits(result=_SHARES, takes=("number",)),
    monoids.HeavyHitters: SqlTraits(result=_hitters, nothing=()),
    monoids.BloomFilter: _PACKED,
    monoids.CountMin: _PACKED,
    FromUfunc: SqlTraits(result=_of_ufunc, takes=("number", "any")),
}
