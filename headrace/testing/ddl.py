"""Reads a schema in Spark's words, `name string not null, tags array<string>`, without Spark.

Text in, `StructType` out; what Spark's own parser would take and this one does not is refused.
"""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import types as spark

from headrace.errors import ColumnTypeError

_ATOMS: dict[str, spark.DataType] = {
    "boolean": spark.BooleanType(), "byte": spark.ByteType(), "tinyint": spark.ByteType(),
    "short": spark.ShortType(), "smallint": spark.ShortType(), "int": spark.IntegerType(),
    "integer": spark.IntegerType(), "long": spark.LongType(), "bigint": spark.LongType(),
    "float": spark.FloatType(), "real": spark.FloatType(), "double": spark.DoubleType(),
    "string": spark.StringType(), "binary": spark.BinaryType(), "date": spark.DateType(),
    "timestamp": spark.TimestampType(), "timestamp_ntz": spark.TimestampNTZType(),
}  # fmt: skip
_TOKEN = re.compile(r"\s*(`(?:[^`]|``)*`|[A-Za-z0-9_]+|[<>(),:])")


def columns_of_words(words: str) -> spark.StructType:
    """Read a schema.

    >>> columns_of_words("name string not null, price decimal(9,2)").simpleString()
    'struct<name:string,price:decimal(9,2)>'

    Raises:
        ColumnTypeError: the words are no schema.
    """
    tokens, at = [], 0
    text = words.rstrip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise _refusal(words, text[at:])
        tokens.append(found.group(1))
        at = found.end()
    reader = _Reader(words, tokens)
    fields = reader.fields(end=None)
    return spark.StructType(fields)


def _refusal(words: str, rest: str) -> ColumnTypeError:
    return ColumnTypeError(f"the schema {words!r} cannot be read without Spark at {rest!r}")


class _Reader:
    def __init__(self, words: str, tokens: list[str]) -> None:
        self._words, self._tokens, self._at = words, tokens, 0

    def fields(self, end: str | None) -> list[spark.StructField]:
        """Read fields up to a closing token, which is taken, or to the end."""
        found: list[spark.StructField] = []
        if self._peek() == end:
            self._take()
            return found
        while True:
            name = self._take().strip("`").replace("``", "`")
            if self._peek() == ":":
                self._take()
            kind = self._type()
            nullable = True
            if (self._peek() or "").lower() == "not":
                self._take()
                self._want("null")
                nullable = False
            found.append(spark.StructField(name, kind, nullable))
            following = self._take() if self._peek() is not None else None
            if following == end:
                return found
            if following != ",":
                raise _refusal(self._words, following or "")

    def _type(self) -> spark.DataType:
        word = self._take().lower()
        if word in ("decimal", "dec", "numeric"):
            digits = self._numbers()
            return spark.DecimalType(*digits) if digits else spark.DecimalType(10, 0)
        if word in ("varchar", "char"):
            (length,) = self._numbers()
            return spark.VarcharType(length) if word == "varchar" else spark.CharType(length)
        if word == "array":
            self._want("<")
            inner = self._type()
            self._want(">")
            return spark.ArrayType(inner)
        if word == "map":
            self._want("<")
            key = self._type()
            self._want(",")
            value = self._type()
            self._want(">")
            return spark.MapType(key, value)
        if word == "struct":
            self._want("<")
            return spark.StructType(self.fields(end=">"))
        if word not in _ATOMS:
            raise _refusal(self._words, word)
        return _ATOMS[word]

    def _numbers(self) -> list[int]:
        found: list[Any] = []
        if self._peek() != "(":
            return found
        self._take()
        while True:
            found.append(int(self._take()))
            if self._take() == ")":
                return found

    def _peek(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _take(self) -> str:
        found = self._peek()
        if found is None:
            raise _refusal(self._words, "its end")
        self._at += 1
        return found

    def _want(self, word: str) -> None:
        found = self._take()
        if found.lower() != word:
            raise _refusal(self._words, found)
