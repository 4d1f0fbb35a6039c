"""Opens the sources of streaming DataFrames that our own loop can read.

On Spark Connect it is the only one, and what it cannot read is refused; on a classic session
Spark's queries are there for the rest.
"""

from __future__ import annotations

from typing import Any

from headrace.engine.sources.file_source import FileSource
from headrace.engine.sources.kafka_source import KafkaSource
from headrace.engine.sources.mixed_feeds import MixedFeeds
from headrace.engine.sources.own_feeds import OwnFeeds, OwnSource
from headrace.engine.sources.plain_sources import plain_source
from headrace.engine.sources.python_source import PythonSource, source_class
from headrace.engine.sources.queries import Queries
from headrace.engine.sources.rate_source import RateSource
from headrace.engine.sources.stream_plans import FILE_FORMATS, StreamPlan
from headrace.engine.spark.session import SparkTarget
from headrace.engine.status import StreamOptions
from headrace.errors import UnsupportedTransformError
from headrace.state.files import Files


def own_feeds(target: SparkTarget, options: StreamOptions) -> OwnFeeds:
    """Give what brings the batches of streaming DataFrames to our own loop."""

    def opener(name: str, frame: Any, files: Files, log: str) -> OwnSource:
        return open_source(name, StreamPlan(name, frame), target, files, log)

    return OwnFeeds(
        opener, available_now=options.available_now, trigger_seconds=options.trigger_seconds
    )


def plain_feeds(target: SparkTarget, options: StreamOptions, queries: Queries) -> MixedFeeds:
    """Give what brings the batches of a classic session: our own loop as far as workers read."""

    def opener(name: str, frame: Any, files: Files, log: str) -> OwnSource | None:
        return plain_source(name, frame, target, files, log)

    own = OwnFeeds(
        available_now=options.available_now, trigger_seconds=options.trigger_seconds
    )
    return MixedFeeds(own, queries, opener)


def open_source(
    name: str, plan: StreamPlan, target: SparkTarget, files: Files, log: str
) -> OwnSource:
    """Give the source of a streaming DataFrame.

    Args:
        name: the read's.
        plan: of the DataFrame.
        target: whose child session reads the rows.
        files: the checkpoint.
        log: the folder in it for the log of this DataFrame.
    """
    read = plan.read
    if read.format in FILE_FORMATS:
        return FileSource(name, plan, target, files, log)
    if read.format == "kafka":
        return KafkaSource(name, plan, target.session, files, log)
    if read.format == "rate":
        return RateSource(name, plan, target.session, files, log)
    if (found := source_class(read.format)) is not None:
        return PythonSource(plan, target.session, found)
    msg = (
        f"{name}: a stream of format {read.format!r} cannot be read on Spark Connect: headrace "
        "would have to ask the source for its offsets, and knows how to ask files, rate, Kafka "
        "and Python data sources whose class is in this process. Use one of these, or run on a "
        "classic session, such as headrace.session() makes"
    )
    raise UnsupportedTransformError(msg)
