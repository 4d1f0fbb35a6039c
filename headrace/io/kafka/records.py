"""What a message of Kafka is in a pipeline, and in which columns Spark gives it."""

from __future__ import annotations

from typing import Any, NamedTuple

from pyspark.sql import types as spark

#: One header as Spark has it.
HEADER = spark.StructType(
    [spark.StructField("key", spark.StringType()), spark.StructField("value", spark.BinaryType())]
)
#: The columns of Spark's connector that a user may ask for.
COLUMNS = {
    "key": spark.BinaryType(),
    "value": spark.BinaryType(),
    "topic": spark.StringType(),
    "partition": spark.IntegerType(),
    "offset": spark.LongType(),
    "timestamp": spark.TimestampType(),
    "timestampType": spark.IntegerType(),  # 0: given by who made the message, 1: by the broker
    "headers": spark.ArrayType(HEADER),
}
#: What a sink keeps of a message until it is published. `timestamp` is in milliseconds.
MESSAGE = spark.StructType(
    [
        spark.StructField("topic", spark.StringType()),
        spark.StructField("partition", spark.IntegerType()),
        spark.StructField("key", spark.BinaryType()),
        spark.StructField("value", spark.BinaryType()),
        spark.StructField("timestamp", spark.LongType()),
        spark.StructField("headers", spark.ArrayType(HEADER)),
    ]
)


class KafkaRecord(NamedTuple):
    """A message: what a read gives where values are decoded, and what a sink takes.

    A read fills the columns that were asked for. A sink needs `value`; without a topic the message
    goes to the sink's own, without a partition to the one that its key gives.
    """

    key: Any = None
    value: Any = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    timestamp: Any = None  # a read gives Beam's Timestamp; a sink takes that or milliseconds
    headers: Any = None  # (name, bytes) pairs
    timestampType: int | None = None  # Spark's: 0 if who made it gave the time, 1 if the broker did
