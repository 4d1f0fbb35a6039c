"""Finds out whether a DataFrame is nothing but messages of Kafka's topics, and which they are.

Then workers can fetch the messages themselves, by the client library; by way of the JVM every one
becomes a row first and part of a column again afterwards. Spark still says what a batch is, and
keeps it in its log. Whatever is not known to give the same rows is left to Spark: expressions,
options that only its connector has, clusters, whose workers may lack the library.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from typing import Any

from headrace.engine.scans.projections import (
    Below,
    Columns,
    Found,
    NotPlain,
    columns_of,
    each,
    if_plain,
    partitions_below,
)
from headrace.io.kafka.options import for_client
from headrace.plan.scans import ScanColumn, TopicPart, TopicScan

#: Options of Spark's connector that say which messages a batch has, and nothing of how they are
#: read. With failOnDataLoss=false it passes over what is missing: that is left to it.
_OPTIONS = frozenset({
    "subscribe", "subscribepattern", "assign", "startingoffsets", "startingtimestamp",
    "startingoffsetsbytimestamp", "startingoffsetsbytimestampstrategy", "maxoffsetspertrigger",
    "minoffsetspertrigger", "maxtriggerdelay", "minpartitions", "maxrecordsperpartition",
    "includeheaders",
})  # fmt: skip
#: Options of Kafka's Java client whose meaning is kept when they are told to the client library.
_KNOWN = re.compile(
    r"bootstrap\.servers|isolation\.level|client\.(id|rack)|security\.protocol|sasl\.mechanism|"
    r"sasl\.jaas\.config|ssl\.truststore\.(type|location)|fetch\.min\.bytes"
)
#: Modules of Java's whose logins are a name and a password.
_LOGIN = re.compile(r"org\.apache\.kafka\.common\.security\.(plain\.Plain|scram\.Scram)LoginModule")
#: What of a message a column may be, and its type in Spark's words.
_KINDS = {
    "key": "binary", "value": "binary", "topic": "string", "partition": "int", "offset": "bigint",
    "timestamp": "timestamp", "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}  # fmt: skip
_PARTITION = ("topic", "partition")
#: Ours for a consumer. Little is fetched ahead: what lies behind a batch is fetched with the next.
#: Where that much waits to be taken, the library looks again when the backoff is over: after its
#: own, a second, a task stood still for most of it (48 K messages a second instead of 187 K).
_SETTINGS = {
    "group.id": "headrace-reads", "enable.auto.commit": "false", "enable.partition.eof": "true",
    "auto.offset.reset": "error", "check.crcs": "true", "queued.min.messages": "20000",
    "fetch.queue.backoff.ms": "5", "log_level": "0",
}  # fmt: skip


#: A column that Spark computes.
_COMPUTED = Found((), "")


def scan_of(frame: Any) -> TopicScan | None:
    """Say which parts of messages the rows of a DataFrame are; None: they are more.

    Args:
        frame: a streaming one, as `ReadFromKafka` or `ReadFromSpark` asks for it.
    """
    if not hasattr(frame, "_jdf") or not frame.isStreaming:
        return None
    return if_plain("messages", lambda: _scan(frame))


def _scan(frame: Any) -> TopicScan:
    plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 (no other door)
    leaves = plan.collectLeaves()
    leaf = leaves.apply(0)
    kind = leaf.getClass().getSimpleName()
    if leaves.size() != 1 or kind != "StreamingRelationV2" or leaf.sourceName() != "kafka":
        msg = f"it reads a {kind}"
        raise NotPlain(msg)
    if not frame.sparkSession.sparkContext.master.startswith("local"):
        msg = "workers on other machines may lack the client library"
        raise NotPlain(msg)
    if importlib.util.find_spec("confluent_kafka") is None:
        msg = "the client library is not installed"
        raise NotPlain(msg)
    settings = _settings(dict(leaf.extraOptions().asCaseSensitiveMap()))
    columns = []
    for name, found in columns_of(plan, _source, _picked).values():
        if not found.kind:
            msg = f"column {name} is computed"
            raise NotPlain(msg)
        columns.append(ScanColumn(name, found.path, found.kind))
    return TopicScan(tuple(columns), tuple(sorted(settings.items())))


def _settings(options: Mapping[str, str]) -> dict[str, str]:
    """Give what a consumer is told of the options of a read."""
    own: dict[str, str] = {}
    for name, value in options.items():
        if name.startswith("kafka."):
            own[name.removeprefix("kafka.")] = str(value)
        elif name.lower() == "failondataloss" and str(value).lower() == "true":
            continue
        elif name.lower() not in _OPTIONS:
            msg = f"the option {name} is set"
            raise NotPlain(msg)
    for name, value in own.items():
        login = name == "sasl.jaas.config"
        plain = name != "ssl.truststore.type" or value.upper() == "PEM"
        if not _KNOWN.fullmatch(name) or not plain or (login and not _LOGIN.search(value)):
            msg = f"the option kafka.{name} is set"
            raise NotPlain(msg)
    protocol = own.get("security.protocol", "PLAINTEXT").upper()
    if "SSL" in protocol.split("_") and "ssl.truststore.type" not in own:
        msg = "it trusts whom Java trusts"
        raise NotPlain(msg)
    if protocol.startswith("SASL") and "sasl.jaas.config" not in own:
        msg = "its login is in Java's settings"
        raise NotPlain(msg)
    # Java's client shows what is not committed unless it is told; the library does not.
    return {"isolation.level": "read_uncommitted", **for_client(own), **_SETTINGS}


def _source(plan: Any) -> Columns:
    """Give the columns of messages; that the plan reads no more than them was seen before."""
    kind = plan.getClass().getSimpleName()
    if kind != "StreamingRelationV2":
        msg = f"it is a {kind}"
        raise NotPlain(msg)
    return {
        item.exprId().id(): (str(item.name()), _of_message(item)) for item in each(plan.output())
    }


def _of_message(item: Any) -> Found:
    name, kind = str(item.name()), str(item.dataType().simpleString())
    return Found((name,), kind) if _KINDS.get(name) == kind else _COMPUTED


def _picked(expression: Any, below: Below) -> Found:
    """Follow what does not change a value; know the name of a message's partition."""
    match expression.getClass().getSimpleName():
        case "AttributeReference":
            return below[expression.exprId().id()][1]
        case "Cast":
            found = _picked(expression.child(), below)
            same = str(expression.dataType().simpleString()) == found.kind
            return found if same else _COMPUTED
        case "ConcatWs":
            parts = list(each(expression.children()))
            if len(parts) == 3 and str(parts[0].sql()) == "'-'":
                topic = _picked(parts[1], below)
                number = parts[2]
                cast = number.getClass().getSimpleName() == "Cast"
                partition = _picked(number.child(), below) if cast else _COMPUTED
                if (topic.path, partition.path) == (("topic",), ("partition",)):
                    return Found(_PARTITION, "string")
    return _COMPUTED


# Messages -----------------------------------------------------------------------------------------


def partitions_of(frame: Any) -> tuple[tuple[TopicPart, ...], ...] | None:
    """Say which messages the partitions of a batch are; None: Spark must read."""
    return if_plain("messages", lambda: _parts(frame))


def _parts(frame: Any) -> tuple[tuple[TopicPart, ...], ...] | None:
    return tuple((_part(partition),) for partition in partitions_below(frame)) or None


def _part(partition: Any) -> TopicPart:
    wanted = partition.offsetRange()
    of = wanted.topicPartition()
    return TopicPart(
        str(of.topic()), of.partition(), wanted.fromOffset(), wanted.untilOffset()
    )
