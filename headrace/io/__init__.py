"""DataFrames in and out of a pipeline."""

from __future__ import annotations

from headrace.io.dataframes import DataFrameHandle, to_dataframe
from headrace.io.kafka import (
    Avro,
    Json,
    KafkaRecord,
    Protobuf,
    ReadFromKafka,
    SchemaRegistry,
    WriteToKafka,
)
from headrace.io.sources import ReadFromSpark
from headrace.io.watermarks import BoundedOutOfOrderness, Monotonic
from headrace.io.write import WriteToSpark

__all__ = [
    "Avro",
    "BoundedOutOfOrderness",
    "DataFrameHandle",
    "Json",
    "KafkaRecord",
    "Monotonic",
    "Protobuf",
    "ReadFromKafka",
    "ReadFromSpark",
    "SchemaRegistry",
    "WriteToKafka",
    "WriteToSpark",
    "to_dataframe",
]
