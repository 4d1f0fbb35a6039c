"""Order on a stream: slices are taken when the watermark has passed them, one after the other."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream as Script
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from headrace.lab.workloads.kernels.finance import Finance
from headrace.lab.workloads.kernels.model import Tick, Tweet
from headrace.lab.workloads.kernels.ordered import InOrder
from headrace.lab.workloads.kernels.settings import FinanceSettings, TweetSettings
from headrace.lab.workloads.kernels.twitter_cep import TwitterCep

S = 1_000_000
_kept: list[Any] = []  # the runner's workers are threads of this process


def keep(row: Any) -> None:
    """Keep a row of the run that is going on."""
    _kept.append(row)


def at(element: Any) -> TimestampedValue:
    """Stamp an element with its own time."""
    return TimestampedValue(element, Timestamp(micros=element.time))


def replay(stream: Script, question: Any) -> list[Any]:
    """Run a question over a stream; give its rows as they came."""
    _kept.clear()
    options = PipelineOptions([], streaming=True)
    # The only local runner that carries a TestStream.
    with beam.Pipeline(runner="BundleBasedDirectRunner", options=options) as pipeline:
        pipeline | stream | question | "Keep" >> beam.Map(keep)
    return list(_kept)


def test_a_match_crosses_slices_that_arrive_in_any_order() -> None:
    tweets = [Tweet(number, time, 1, "#x") for number, time in enumerate(
        [2_500_000, 500_000, 1_500_000, 4_200_000, 3_600_000]
    )]
    first, second, third, fourth, fifth = map(at, tweets)
    stream = (
        Script()
        .advance_watermark_to(0)
        .add_elements([first, second])
        .advance_watermark_to(1)
        .add_elements([third, fourth])
        .advance_watermark_to(3.5)
        .add_elements([fifth])
        .advance_watermark_to_infinity()
    )
    settings = TweetSettings(run=3, slice_ms=1_000, partitions=1)
    # By time: 1, 2, 0, 4, 3.
    expected = [(1, "x", 1, 0), (1, "x", 2, 4), (1, "x", 0, 3)]
    assert replay(stream, TwitterCep(settings)) == expected


def test_a_quote_waits_for_the_trades_before_it() -> None:
    stream = (
        Script()
        .advance_watermark_to(0)
        .add_elements([at(Tick(0, 2 * S, "AAA", "quote", 5, 10))])
        .add_elements([at(Tick(1, 1 * S, "AAA", "trade", 7, 10))])
        .advance_watermark_to(3)
        .add_elements([at(Tick(2, 4 * S, "AAA", "quote", 6, 10))])
        .advance_watermark_to_infinity()
    )
    settings = FinanceSettings(slice_ms=500, partitions=1)
    expected = [(0, "AAA", 5, 7.0, 20), (2, "AAA", 6, 7.0, 10)]
    assert replay(stream, Finance(settings)) == expected


def count_calls(known: dict[Any, Any], events: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Tell which call this is, and what it was given."""
    known["calls"] = known.get("calls", 0) + 1
    return [(known["calls"], tuple(number for _, number in events))]


def test_every_slice_is_one_call_and_calls_are_in_the_order_of_time() -> None:
    pairs = [(second, (second * S + part, 10 * second + part)) for second in (3, 1, 2)
             for part in (2, 0, 1)]
    stream = (
        Script()
        .advance_watermark_to(0)
        .add_elements([
            TimestampedValue((0, event), Timestamp(micros=event[0])) for _, event in pairs
        ])
        .advance_watermark_to_infinity()
    )
    expected = [(1, (10, 11, 12)), (2, (20, 21, 22)), (3, (30, 31, 32))]
    assert replay(stream, InOrder(count_calls, 1_000)) == expected
