"""`ReadFromKafka`: topics as the start of a pipeline, by Spark's connector.

Describes the read; Spark fetches messages and keeps their offsets, in the log of its query. What
Spark can do on whole columns it does (text, JSON of a known form, event times); a function of
Python's decodes the rest, message by message.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import apache_beam as beam
from pyspark.sql import types as spark

from headrace.errors import ColumnTypeError, OptionError, SessionError, UnsupportedTransformError
from headrace.io.columns import columns_of
from headrace.io.kafka.client import GroupOffsets
from headrace.io.kafka.formats import BYTES, TEXT, Json, decoder_of
from headrace.io.kafka.heads import Heads
from headrace.io.kafka.offsets import GroupStart, Topics, end_options, start_options
from headrace.io.kafka.options import checked, for_java, scrubbed
from headrace.io.kafka.records import COLUMNS, KafkaRecord
from headrace.io.later import LaterFrame
from headrace.io.sources import ReadFromSpark
from headrace.io.watermarks import BoundedOutOfOrderness, Monotonic, Policy, policy_of
from headrace.plan.datasets import kafka_of

#: What `headrace doctor --fetch` calls the jars that a session needs.
NEEDS = "kafka"
#: A partition that is silent for so long does not hold the watermark back, if nobody says else.
IDLE_SECONDS = 60.0
#: Columns beside those of a message: its event time, and which of the watermark's partitions it is.
_TIME, _PARTITION = "event_time", "source_partition"
_BAD_TIMES = ("fail", "drop")


class ReadFromKafka(beam.PTransform):  # type: ignore[misc]
    """Read messages of Kafka topics.

    Elements have the fields that `columns` names: `record.key`, `record.value`. They are rows with
    a Beam schema if Spark decodes (`"bytes"`, `"text"`, `Json(Type)`), else `KafkaRecord`s. With
    `end` the collection is bounded, without it the pipeline is a streaming one.

    Args:
        servers: the brokers, `"host:9092,host:9092"`.
        topics: a topic, or several. Exactly one of `topics` and `pattern` is given.
        pattern: a regular expression of Java's for the names of topics.
        key: how keys are decoded: `"bytes"`, `"text"`, `Json()`, `Avro(...)`, `Protobuf(...)`, or a
            function of the bytes. A message without a key has None.
        value: the same for values.
        columns: the fields of an element, out of key, value, topic, partition, offset, timestamp,
            timestampType and headers. Spark reads no others.
        start: where a new pipeline begins: "earliest", "latest", a time (datetime, Timestamp or
            seconds since 1970) or offsets, `{"topic": {0: 17, 1: "earliest"}}`, for all partitions.
            A pipeline that goes on from its checkpoint goes on where it was.
        end: where a bounded read ends, in the same words; that message is not read any more.
        timestamp: what gives a message its event time: "timestamp", its time in Kafka; any other
            text is an expression of Spark's over the columns of a message, which gives a timestamp
            or seconds since 1970; a function gives seconds since 1970 from the decoded value and
            costs a second pass in Python; None: the time at which it is read.
        watermark: how far out of order the messages of one partition may be: a policy of
            `headrace.io`, or seconds. If not given, not at all; a partition that is silent for a
            minute, or was never heard of, then no longer holds the watermark back.
        bad_times: "fail" or "drop", as in `ReadFromSpark`.
        max_records: how many messages a bounded read takes at most; which ones is not said.
        max_per_epoch: how many messages an epoch takes at most; as many as there are if not given.
        group_id: a consumer group to which the offsets are committed after each epoch that counts,
            for tools that watch how far a pipeline is. Nothing is read from it. Needs the extra
            `kafka`.
        options: options of Kafka's clients, such as `security.protocol`; Spark and the client
            library get each in its own words.
        spark_options: options of Spark's connector, such as `failOnDataLoss` or `minPartitions`.
    """

    def __init__(
        self,
        servers: str,
        topics: str | Sequence[str] | None = None,
        *,
        pattern: str | None = None,
        key: Any = BYTES,
        value: Any = BYTES,
        columns: Sequence[str] = ("key", "value"),
        start: Any = "latest",
        end: Any = None,
        timestamp: str | Callable[[Any], float] | None = "timestamp",
        watermark: Policy | float | None = None,
        bad_times: str = "fail",
        max_records: int | None = None,
        max_per_epoch: int | None = None,
        group_id: str | None = None,
        options: Mapping[str, Any] | None = None,
        spark_options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self._topics = Topics.of(topics, pattern)
        self._options = checked("ReadFromKafka", servers, options)
        unknown = [name for name in columns if name not in COLUMNS]
        if unknown or not columns:
            what = f"no column {unknown[0]!r}" if unknown else "no columns"
            msg = f"ReadFromKafka: {what}; there are {', '.join(COLUMNS)}"
            raise ColumnTypeError(msg)
        if bad_times not in _BAD_TIMES:
            msg = f"ReadFromKafka: bad_times={bad_times!r} is not known; give 'fail' or 'drop'"
            raise OptionError(msg)
        if max_per_epoch is not None and max_per_epoch < 1:
            msg = f"ReadFromKafka: max_per_epoch={max_per_epoch} is not a number of 1 or more"
            raise OptionError(msg)
        if max_records is not None and (max_records < 1 or end is None):
            msg = f"ReadFromKafka: max_records={max_records} needs an end, and is 1 or more"
            raise OptionError(msg)
        self._most = max_records
        self._columns = tuple(columns)
        self._key, self._value = key, value
        self._decoders = {
            name: decode
            for name, given in (("key", key), ("value", value))
            if name in columns and (decode := _in_python(given)) is not None
        }
        self._start, self._end = start, end
        self._connector = {
            **self._topics.options(),
            **start_options(start),
            **(end_options(end) if end is not None else {}),
            **_limit(max_per_epoch, end),
            **{str(name): str(given) for name, given in (spark_options or {}).items()},
        }
        self._timestamp, self._bad_times = timestamp, bad_times
        self._watermark = _policy(watermark)
        self._group = GroupOffsets(group_id, self._options) if group_id else None

    def expand(self, pbegin: Any) -> Any:
        """Read rows, and decode what Spark cannot."""
        timed = self._timestamp is not None
        columns = list(self._columns)
        if self._decoders:  # an error then says which message it is about
            columns += [n for n in ("topic", "partition", "offset") if n not in columns]
        rows = pbegin | "Rows" >> _Rows(
            self._frame(), columns=columns, group=self._group,
            **({"timestamp": _TIME, "partition": _PARTITION, "watermark": self._watermark,
                "bad_times": self._bad_times} if timed else {}),
        )
        if not self._decoders:
            return rows
        return rows | "Decode" >> beam.Map(
            _Decode(self._columns, self._decoders)
        ).with_output_types(KafkaRecord)

    def _frame(self) -> LaterFrame:
        kinds: dict[str, spark.DataType] = dict(COLUMNS)
        texts = {name: f"`{name}`" for name in COLUMNS}
        for name, given in (("key", self._key), ("value", self._value)):
            if given == TEXT:
                kinds[name] = spark.StringType()
                texts[name] = f"validate_utf8(CAST(`{name}` AS STRING))"
            elif isinstance(given, Json) and given.schema is not None:
                kinds[name] = _nullable(_fields(given.schema))
                texts[name] = _from_json(name, kinds[name])
        schema = spark.StructType(
            [spark.StructField(name, kind) for name, kind in kinds.items()]
            + [spark.StructField(_TIME, spark.TimestampType()),
               spark.StructField(_PARTITION, spark.StringType())]
        )
        make = _Make(
            options=self._options, connector=self._connector, bounded=self._end is not None,
            texts=texts, time=self._timestamp, decode=_in_python(self._value), most=self._most,
            topics=self._topics,
            group=self._start if isinstance(self._start, GroupStart) else None,
        )
        return LaterFrame(
            make, schema, streaming=self._end is None, needs=NEEDS,
            names=kafka_of(self._options["bootstrap.servers"], self._connector),
        )


class _Rows(ReadFromSpark):
    """The read itself; all partitions of a topic are known from Spark's log of the query."""

    def __init__(self, frame: LaterFrame, *, group: GroupOffsets | None, **more: Any) -> None:
        super().__init__(frame, **more)
        timed = self.read.partition is not None
        self.read = replace(self.read, names_partitions=timed, watcher=group)

    def record(self) -> None:
        """Refuse: what is recorded is a DataFrame, and this one is made later."""
        if self.read.streaming:
            msg = (
                f"{self.label}: a topic without end cannot be looked at in a notebook; give "
                'ReadFromKafka an end, such as end="latest"'
            )
            raise UnsupportedTransformError(msg)


@dataclass(frozen=True, kw_only=True)
class _Make:
    """Makes the DataFrame of a read in a session."""

    options: Mapping[str, str]
    connector: Mapping[str, str]
    bounded: bool
    texts: Mapping[str, str]  # column -> expression
    time: str | Callable[[Any], float] | None
    decode: Callable[[bytes], Any] | None  # of the value, where Python does it
    most: int | None  # messages of a bounded read
    topics: Topics
    group: GroupStart | None  # where a new pipeline begins, if a consumer group says so

    def __call__(self, session: Any) -> Any:
        if not hasattr(session, "readStream"):
            msg = (
                "ReadFromKafka needs a session of Spark's; in a test without one, hand a "
                "ScriptedStream to ReadFromSpark"
            )
            raise SessionError(msg)
        reader = (session.read if self.bounded else session.readStream).format("kafka")
        given = {f"kafka.{name}": value for name, value in for_java(self.options).items()}
        # What an open or aborted transaction has written was never said.
        given.setdefault("kafka.isolation.level", "read_committed")
        headers = {"includeHeaders": "true"}
        begins = self._committed() if self.group is not None else {}
        try:
            frame = reader.options(**{**headers, **self.connector, **begins, **given}).load()
        except Exception as error:  # noqa: BLE001 (any error of Java's, as PySpark gives it)
            raise _translated(error, self.options) from None
        if self.most is not None:
            frame = frame.limit(self.most)
        if callable(self.time):
            frame = frame.withColumn(_TIME, self._seconds().cast("timestamp"))
            time = f"`{_TIME}`"
        else:
            time = "NULL" if self.time is None else f"({self.time})"
        return frame.selectExpr(
            *(f"{text} AS `{name}`" for name, text in self.texts.items()),
            f"CAST({time} AS TIMESTAMP) AS `{_TIME}`",
            f"concat_ws('-', topic, partition) AS `{_PARTITION}`",
        )

    def _committed(self) -> dict[str, str]:
        """Ask where the group stands; who goes on from a checkpoint passes it over."""
        assert self.group is not None
        step = "ReadFromKafka"
        heads = Heads(
            step, {**self.options, "group.id": self.group.group}, topics=self.topics.names,
            pattern=self.topics.pattern,
        )
        try:
            found = heads.committed(self.group.otherwise)
        finally:
            heads.close()
        if found is not None:
            return {"startingOffsets": json.dumps(found)}
        if self.bounded and self.group.otherwise == "latest":
            raise UnsupportedTransformError(nothing_to_read(step))
        return {}

    def _seconds(self) -> Any:
        from pyspark.sql import functions

        function, decode = self.time, self.decode
        assert callable(function)

        def seconds(value: Any) -> float | None:
            if value is None:
                return None
            return float(function(value if decode is None else decode(bytes(value))))

        column = functions.expr(self.texts["value"])
        return functions.udf(seconds, "double")(column)


def nothing_to_read(step: str) -> str:
    """Say that a bounded read would begin where it ends."""
    return (
        f"{step}: a read of a number of records ends at the messages that are there when it "
        "starts, and auto.offset.reset=latest, Kafka's default, begins behind them: it would read "
        'nothing. Give "auto.offset.reset": "earliest", a start_read_time, or a group.id that has '
        "committed offsets; or leave max_num_records out, to read messages as they come"
    )


class _Decode:
    """Makes a record of a row, on a worker."""

    def __init__(
        self, columns: Sequence[str], decoders: Mapping[str, Callable[[bytes], Any]]
    ) -> None:
        self._columns = tuple(columns)
        self._decoders = dict(decoders)

    def __call__(self, row: Any) -> KafkaRecord:
        fields = {name: getattr(row, name) for name in self._columns}
        for name, decode in self._decoders.items():
            data = fields[name]
            if data is None:
                continue
            try:
                fields[name] = decode(data)
            except Exception as error:
                error.add_note(
                    f"[the {name} of the message at offset {row.offset} of {row.topic}, partition "
                    f"{row.partition}, cannot be decoded]"
                )
                raise
        if fields.get("headers"):
            fields["headers"] = [(header.key, header.value) for header in fields["headers"]]
        return KafkaRecord(**fields)


def _in_python(given: Any) -> Callable[[bytes], Any] | None:
    if isinstance(given, Json) and given.schema is not None:
        return None
    return decoder_of("ReadFromKafka", given)


def _policy(given: Policy | float | None) -> Policy:
    if given is None:
        return Monotonic(idle_after=IDLE_SECONDS)
    if isinstance(given, BoundedOutOfOrderness | Monotonic):
        return given
    found = policy_of(given)
    assert isinstance(found, BoundedOutOfOrderness)
    return replace(found, idle_after=IDLE_SECONDS)


def _limit(max_per_epoch: int | None, end: Any) -> dict[str, str]:
    if max_per_epoch is None:
        return {}
    if end is not None:
        msg = "ReadFromKafka: max_per_epoch says nothing of a bounded read, which is one epoch"
        raise OptionError(msg)
    return {"maxOffsetsPerTrigger": str(max_per_epoch)}


def _fields(schema: Any) -> spark.StructType:
    if isinstance(schema, spark.StructType):
        return schema
    found = columns_of(schema)
    if [field.name for field in found.fields] == ["value"] and not hasattr(schema, "_fields"):
        msg = "Json: give a class with fields (a NamedTuple or a dataclass) or a StructType"
        raise OptionError(msg)
    return found


def _nullable(kind: Any) -> Any:
    """Any field of a JSON text may be missing."""
    if isinstance(kind, spark.StructType):
        fields = [spark.StructField(f.name, _nullable(f.dataType), True) for f in kind.fields]
        return spark.StructType(fields)
    if isinstance(kind, spark.ArrayType):
        return spark.ArrayType(_nullable(kind.elementType), True)
    if isinstance(kind, spark.MapType):
        return spark.MapType(kind.keyType, _nullable(kind.valueType), True)
    return kind


def _from_json(name: str, kind: Any) -> str:
    words = kind.simpleString().replace("'", "\\'")
    return f"from_json(CAST(`{name}` AS STRING), '{words}', map('mode', 'FAILFAST'))"


def _translated(error: Exception, options: Mapping[str, str]) -> Exception:
    said = scrubbed(str(error).partition("\n")[0], options)
    if "kafka" in said.lower() and ("find" in said.lower() or "deploy" in said.lower()):
        return SessionError(
            "ReadFromKafka: Spark does not have its Kafka connector. Run `headrace doctor --fetch "
            "kafka` once, and let headrace start the session; or start your own with the jars that "
            "this command names (--spark_jars, spark.jars)"
        )
    return OptionError(f"ReadFromKafka: Spark does not take these options: {said}")
