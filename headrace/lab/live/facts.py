"""What the lab must know of a workload to ask it live: its stream, its settings, a row's date.

Data only, so that a spec can be read without Beam, Spark or a database. The date of a row is the
latest time at which one of its inputs was to be sent: the record's own for a row of one record, the
end of the window or session for a row of a group, since no right answer can leave before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: Event time of the first event, milliseconds since 1970: a whole day, so it begins a window.
BASE_MS = 1_436_918_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Events that several questions are asked of."""

    settings: str  # "module:class" of the generator's settings
    generator: str  # "module:function"
    columns: tuple[str, ...]  # of its schema, beside number, time and nanos: what is sent
    told: Mapping[str, Any] = field(default_factory=dict)  # other settings than the defaults
    millis: bool = False  # an event says its time in whole milliseconds


_HOME = "headrace.lab.workloads"


def _of_kernels(settings: str, generator: str, *columns: str) -> Stream:
    return Stream(
        settings=f"{_HOME}.kernels.settings:{settings}",
        generator=f"{_HOME}.kernels.generator:{generator}", columns=columns,
    )


def _of_windowed(generator: str, **told: Any) -> Stream:
    return Stream(
        settings=f"{_HOME}.windowed.settings:Settings", generator=f"{_HOME}.windowed.{generator}",
        columns=("key", "value", "stream"), told=told,
    )


_NEXMARK, _TWEETS = "nexmark", "tweets"
STREAMS: Mapping[str, Stream] = {
    _NEXMARK: Stream(
        settings=f"{_HOME}.nexmark.settings:NexmarkSettings",
        generator=f"{_HOME}.nexmark.generator:generator",
        columns=("kind", "person", "auction", "bid"), told={"num_events": 2**40}, millis=True,
    ),
    "yahoo": Stream(
        settings=f"{_HOME}.yahoo.settings:Settings",
        generator=f"{_HOME}.yahoo.generator:YahooGenerator",
        columns=("ad_id", "event_type", "event_time"), millis=True,
    ),
    "hibench": Stream(
        settings=f"{_HOME}.hibench.settings:Settings",
        generator=f"{_HOME}.hibench.generator:HiBenchGenerator",
        columns=("timestamp", "ip"), millis=True,
    ),
    "windowed": _of_windowed("generator:WindowedGenerator"),
    # Each two events that meet are a row: with the 160 places of a batch run a stream at a high
    # rate would have many rows for an event.
    "two streams": _of_windowed("join:two_streams", keys=20_000),
    "network": _of_kernels("NetworkSettings", "NetworkGenerator", "server", "user"),
    _TWEETS: _of_kernels("TweetSettings", "TweetGenerator", "author", "text"),
    "ticks": _of_kernels(
        "FinanceSettings", "FinanceGenerator", "symbol", "kind", "price", "size"
    ),
    "values": Stream(
        settings=f"{_HOME}.micro.settings:ChainSettings",
        generator=f"{_HOME}.micro.generator:ItemGenerator", columns=("value",),
    ),
    "items": Stream(
        settings=f"{_HOME}.scaling.settings:ScalingSettings",
        generator=f"{_HOME}.scaling.generator:ItemGenerator", columns=("key", "value"),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """How one workload is asked live."""

    stream: str
    #: The date of a row in milliseconds since 1970, in SQL over its columns; `{name}` is a setting.
    #: Empty: the row does not say it, and `oracle.dated` does.
    date: str
    told: Mapping[str, Any] = field(default_factory=dict)  # settings of the question
    #: Rows that are younger than this by their dates when the events end may be missing: Spark
    #: keeps what its watermark has not passed. Those that come must be right all the same.
    tail_seconds: float = 0.0
    #: What is compared where rows are not determined as wholes; empty: all columns together.
    compared: tuple[tuple[str, ...], ...] = ()
    #: Why a row has no date at all; empty: it has one.
    undated: str = ""
    #: There is a row for about every event, and the oracle is one query: it is asked for columns.
    is_large: bool = False


_SECOND = {"window_size_sec": 1}
_SLIDING = {"window_size_sec": 2, "window_period_sec": 1}
#: By how much Spark's watermark is behind the newest event, and a step more where one aggregation
#: feeds another.
_TAIL = 1.0
_START = "window_start + {window_size_sec} * 1000"
_START_MS = "start_ms + {window_ms}"

FACTS: Mapping[str, Facts] = {
    "nexmark:q1": Facts(stream=_NEXMARK, date="date_time", is_large=True),
    "nexmark:q2": Facts(stream=_NEXMARK, date=""),
    "nexmark:q3": Facts(stream=_NEXMARK, date=""),
    "nexmark:q5": Facts(stream=_NEXMARK, date=_START, told=_SLIDING, tail_seconds=_TAIL),
    "nexmark:q7": Facts(stream=_NEXMARK, date=_START, told=_SECOND, tail_seconds=_TAIL),
    "nexmark:q8": Facts(stream=_NEXMARK, date="", told=_SECOND, tail_seconds=_TAIL),
    "nexmark:q11": Facts(stream=_NEXMARK, date='"end"', told=_SECOND, tail_seconds=_TAIL),
    "nexmark:q12": Facts(
        stream=_NEXMARK, date="",
        undated="the clock of a system decides which bids a row counts: it has no date",
    ),
    "nexmark:q13": Facts(stream=_NEXMARK, date="date_time", is_large=True),
    "yahoo:campaigns": Facts(stream="yahoo", date=_START, told=_SECOND, tail_seconds=_TAIL),
    "hibench:wordcount": Facts(
        # Which record of an address gets which count is not determined, see the workload's rule.
        stream="hibench", date='"time"', compared=(("ip", "time"), ("ip", "count")),
        is_large=True,
    ),
    "hibench:fixwindow": Facts(stream="hibench", date=_START, told=_SECOND, tail_seconds=_TAIL),
    "windowed:aggregation": Facts(
        stream="windowed", date=_START, told={"window_size_sec": 2, "slide_sec": 1},
        tail_seconds=_TAIL,
    ),
    "windowed:join": Facts(
        stream="two streams", date="", told={"window_size_sec": 2, "slide_sec": 1},
        tail_seconds=3 * _TAIL,  # a pair may leave at once, or with its window
    ),
    "kernels:network": Facts(
        # Of the rates of a live run, the defaults would find nobody in a slow one.
        stream="network", date=_START_MS, tail_seconds=_TAIL,
        told={"window_ms": 1_000, "server_threshold": 2, "user_threshold": 20},
    ),
    "kernels:twitter_nlp": Facts(stream=_TWEETS, date=""),
    "micro:pardo_chain": Facts(stream="values", date='"time" / 1000', is_large=True),
    "scaling:stateless": Facts(stream="items", date=""),
    "scaling:keyed": Facts(
        stream="items", date=_START_MS, told={"window_ms": 1_000}, tail_seconds=_TAIL,
    ),
    "scaling:shuffle": Facts(
        stream="items", date=_START_MS, told={"window_ms": 1_000}, tail_seconds=_TAIL,
    ),
}
#: The questions by name, in the order in which they are shown.
NAMES = tuple(FACTS)
