"""Columns by their positions: names may repeat, and Spark looks some of them up without quoting them.

Keys and order columns that are expressions, or fields of structs, become columns of their own for a while.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql import types as sql

from spark_integration.errors import RollingError, UnsupportedColumn

_TEXT = re.compile(r"Column<'(.*)'>", re.DOTALL)
_ASCENDING = re.compile(r"(.*) ASC NULLS FIRST", re.DOTALL)
_SORTED = re.compile(r".* (ASC|DESC) NULLS (FIRST|LAST)", re.DOTALL)
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'", re.DOTALL)
_VARIABLE = re.compile(r"\b[a-z]\w*_\d+\b")
_QUOTED_OR_VARIABLE = re.compile(f"{_QUOTED.pattern}|{_VARIABLE.pattern}", re.DOTALL)
#: The variables before the arrow of a lambda.
_LAMBDA = re.compile(r"(\b\w+_\d+|\(\w+_\d+(?:, \w+_\d+)*\)) ->")
#: What shows where Spark has no text for a thing: functions of Python, and binary literals.
_OBJECT = re.compile(r"@[0-9a-f]+\b|columnnodeexpression|PythonUDF")


def position_name(number: int) -> str:
    """The name of a column while names do not matter."""
    return f"column_{number}"


def numbered(df: DataFrame) -> DataFrame:
    """The DataFrame with its columns named by their positions."""
    return df.toDF(*map(position_name, range(len(df.columns))))


def numbered_schema(schema: sql.StructType) -> sql.StructType:
    return sql.StructType(
        [
            sql.StructField(position_name(number), field.dataType, field.nullable, field.metadata)
            for number, field in enumerate(schema.fields)
        ]
    )


def check_carried(schema: sql.StructType) -> None:
    """Refuses columns that Spark cannot hand to Python."""
    for field in schema.fields:
        why = why_not(field.dataType)
        if why:
            raise UnsupportedColumn(
                f"column {field.name!r} is of type {field.dataType.simpleString()}, {why}: drop it before "
                "rolling(), or cast it to string"
            )


def why_not(kind: sql.DataType) -> str:
    """Why Spark does not hand values of a type to Python; empty where it does."""
    if isinstance(kind, (sql.YearMonthIntervalType, sql.CalendarIntervalType)):
        return "and Spark does not hand intervals of months to Python"
    if isinstance(kind, (sql.CharType, sql.VarcharType)):  # with spark.sql.preserveCharVarcharTypeInfo
        return "and Spark does not hand text of a fixed length to Python"
    if isinstance(kind, sql.StructType):
        if len(set(kind.names)) < len(kind.names):
            return "and Spark does not hand structs with one name twice to Python"
        return next(filter(None, (_why_not_inside(each.dataType, each.nullable) for each in kind.fields)), "")
    if isinstance(kind, sql.ArrayType):
        return _why_not_inside(kind.elementType, kind.containsNull)
    if isinstance(kind, sql.MapType):
        return _why_not_inside(kind.keyType, False) or _why_not_inside(kind.valueType, kind.valueContainsNull)
    return ""


def _why_not_inside(kind: sql.DataType, nullable: bool) -> str:
    if isinstance(kind, sql.NullType) and not nullable:  # as in array() and map()
        return "and Arrow has no values of type void that are not null"
    return why_not(kind)


class Named:
    """A DataFrame with a column for each expression that something is asked of, behind its own columns."""

    def __init__(self, df: DataFrame, *, case_sensitive: bool) -> None:
        self.df, self._sensitive = df, case_sensitive
        self._own = len(df.columns)

    def names(self, given: Any, where: str) -> Any:
        """Names of columns for a name, a Column, or several; any other value stays as it is."""
        if given is None:
            return None
        if isinstance(given, (str, Column)):
            given = [given]
        if not isinstance(given, Iterable):
            raise RollingError(f"{where}= takes columns or names of columns, got {given!r}")
        return [self._name(each, where) for each in given]

    @property
    def added(self) -> list[str]:
        """The names of the columns that are not the DataFrame's own."""
        return list(self.df.columns[self._own :])

    def restored(self, df: DataFrame, result: sql.StructType) -> DataFrame:
        """A numbered DataFrame under its names again, without the columns that were added."""
        extra = range(self._own, len(self.df.columns))
        kept = [number for number in range(len(result)) if number not in extra]
        if extra:
            df = df.select(*map(position_name, kept))
        return df.toDF(*(result.names[number] for number in kept))

    def _name(self, given: Any, where: str) -> Any:
        if isinstance(given, str):
            if self._has(given) or not ("." in given or "`" in given):
                return given
            return self._added(fn.col(given), given, where, missing_is_fine=True)
        if not isinstance(given, Column):
            return given
        text = text_of(given)
        name = self._own_name(given, text)
        if name is not None:
            return name
        ascending = _ASCENDING.fullmatch(text)
        if ascending is not None:
            name = self._own_name(given, ascending[1], ascending=True)
            if name is not None:
                return name
            raise RollingError(f"{where}={ascending[1]} ASC: leave .asc() out, as order is ascending anyway")
        if _SORTED.fullmatch(text):
            raise RollingError(f"{where}={text}: order is ascending with nulls first; give the column alone")
        if not self._has(_unquoted(text)) and self._is_in_struct(text) and self._same(given, text):
            return self._added(given, text, where)
        return self._added(given, self._fresh(text, where), where, text)

    def _own_name(self, given: Column, text: str, *, ascending: bool = False) -> str | None:
        """The name of the column that a Column is, and not only looks like."""
        name = _unquoted(text)
        if self._has(name) and self._same(given, "`" + name.replace("`", "``") + "`", ascending=ascending):
            return name
        return None

    def _is_in_struct(self, text: str) -> bool:
        """Whether it begins as the name of a field does. Spark logs an error for a name it does not find."""
        bare = text.replace("`", "")
        return any(self._has(bare[:end]) for end, letter in enumerate(bare) if letter == ".")

    def _same(self, given: Column, reference: str, *, ascending: bool = False) -> bool:
        """Whether a Column is the one that Spark finds for a name, not an expression with the same text."""
        column = fn.col(reference)
        try:
            if ascending:
                return self.df.sort(given).sameSemantics(self.df.sort(column.asc()))
            return self.df.select(given).sameSemantics(self.df.select(column))
        except PySparkException:
            return False

    def _fresh(self, text: str, where: str) -> str:
        """A name that no other column has, and in a stream the same whenever the expression is."""
        text = _numbered_anew(text)
        if _OBJECT.search(_QUOTED.sub("", text)) or any(map(self._has, _variables(text))):
            function = text.split("(")[0][:40]
            if self.df.isStreaming:
                raise RollingError(
                    f"{where}={function}(…): by its text a stream cannot tell whether this is the expression "
                    "that it was begun with: make it a column first, with withColumn, and name that column"
                )
            text = f"{function}(…)"
        name = f"[{text}]"
        if self.df.isStreaming and text != text.lower():
            # a stream may take names for one that differ by case, and in a literal case matters
            name += f" {blake2b(text.encode(), digest_size=4).hexdigest()}"
        while self._has(name):
            name = f"[{name}]"
        return name

    def _has(self, name: str) -> bool:
        return any(
            each == name or (not self._sensitive and each.lower() == name.lower()) for each in self.df.columns
        )

    def _added(
        self, column: Column, name: str, where: str, text: str | None = None, *, missing_is_fine: bool = False
    ) -> str:
        text = name if text is None else text
        try:
            added = self.df.select("*", column.alias(name))
            len(added.columns)  # over Spark Connect the first to look at it
        except PySparkException as error:
            if missing_is_fine:
                return name  # the search for the column raises the error
            reason = str(error).strip().splitlines()[0]
            raise RollingError(f"{where}={text}: {reason}") from None
        if len(added.columns) != len(self.df.columns) + 1:
            raise RollingError(f"{where}={text}: takes one column, and this is several")
        self.df = added
        return name


def _variables(text: str) -> list[str]:
    """The variables of lambdas in the text of an expression."""
    lambdas = _LAMBDA.findall(_QUOTED.sub("", text))
    return list(dict.fromkeys(name for each in lambdas for name in _VARIABLE.findall(each)))


def _numbered_anew(text: str) -> str:
    """The text with the variables of lambdas numbered from 1: Spark numbers all that a session makes."""
    numbers = {name: number for number, name in enumerate(_variables(text), 1)}

    def anew(found: re.Match[str]) -> str:
        name, quoted = found[0], found[0].startswith("'")
        return name if quoted or name not in numbers else f"{name.rpartition('_')[0]}_{numbers[name]}"

    return _QUOTED_OR_VARIABLE.sub(anew, text)


def _unquoted(text: str) -> str:
    return text[1:-1].replace("``", "`") if re.fullmatch(r"`(?:[^`]|``)*`", text) else text


def text_of(column: Column) -> str:
    """What a Column shows of itself."""
    match = _TEXT.fullmatch(repr(column))
    return repr(column) if match is None else match[1]
