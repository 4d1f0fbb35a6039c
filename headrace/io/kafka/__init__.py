"""Kafka as the start and the end of a pipeline."""

from __future__ import annotations

from headrace.io.kafka.formats import Avro, Json, Protobuf, SchemaRegistry
from headrace.io.kafka.records import KafkaRecord
from headrace.io.kafka.sink import WriteToKafka
from headrace.io.kafka.source import ReadFromKafka

__all__ = [
    "Avro", "Json", "KafkaRecord", "Protobuf", "ReadFromKafka", "SchemaRegistry", "WriteToKafka",
]
