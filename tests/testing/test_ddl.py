"""Schemas in Spark's words are read without Spark, or refused."""

from __future__ import annotations

import pytest

from headrace.errors import ColumnTypeError
from headrace.testing.ddl import columns_of_words

WORDS = [
    "a int", "a: bigint", "`odd name` string not null, b double",
    "a array<map<string,struct<x:int,y:array<date>>>>", "d decimal, e decimal(9,2), v varchar(3)",
    "t timestamp, n timestamp_ntz, b binary, f boolean, s smallint, y tinyint, r float",
]  # fmt: skip


def test_names_types_and_what_may_be_missing_are_read() -> None:
    found = columns_of_words("`odd name` string not null, b array<int>")
    assert found.names == ["odd name", "b"]
    assert [field.nullable for field in found.fields] == [False, True]
    assert found.simpleString() == "struct<odd name:string,b:array<int>>"


@pytest.mark.parametrize("words", ["a", "a strang", "a int,", "a array<int", "a int b", "a int; b"])
def test_what_is_no_schema_is_refused(words: str) -> None:
    with pytest.raises(ColumnTypeError, match="cannot be read without Spark"):
        columns_of_words(words)


@pytest.mark.spark
@pytest.mark.parametrize("words", WORDS)
def test_spark_reads_the_same(spark: object, words: str) -> None:
    del spark  # it must be there
    from pyspark.sql.types import StructType

    assert columns_of_words(words) == StructType.fromDDL(words)
