"""Ordered runs of random pipelines: whatever the number of shards, the rows of one shard."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import TimestampedValue
from hypothesis import HealthCheck, example, given, note, settings
from hypothesis import strategies as st

from headrace.io import ReadFromSpark
from headrace.state.crash_points import Point, observed
from headrace.testing import Collected, LocalRunner, ScriptedStream
from tests.ordered.made_pipelines import MOST, STREAM_STEPS, Pair, build, chains

SCHEMA = "key string, number long"
SLOW = "HEADRACE_SLOW" in os.environ
EVENTS = "key string, number long, at double"
TIMES = settings(
    max_examples=200 if SLOW else 12, deadline=None, derandomize=not SLOW,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
numbers = st.lists(st.integers(0, MOST - 1), max_size=60)


def stamped(number: int) -> TimestampedValue:
    return TimestampedValue((f"k{number % 7}", number), number % 40)


def batch(chain: list[str], found: list[int], shards: int) -> list[tuple[Any, ...]]:
    into = Collected()
    options = PipelineOptions([f"--shards={shards}", "--ordered", "--super_tuple_bytes=200"])
    with beam.Pipeline(runner=LocalRunner(), options=options) as p:
        source = p | beam.Create(found) | "Stamp" >> beam.Map(stamped).with_output_types(Pair)
        _ = build(source, chain) | "Write" >> into.sink(SCHEMA)
    return [row for rows in into.epochs.values() for row in rows]


def of_row(row: Any) -> Pair:
    return row.key, row.number


class EndedError(Exception):
    """A driver that dies."""


def stream(
    chain: list[str], epochs: list[list[int]], shards: int, kills: Sequence[tuple[Point, int]] = ()
) -> list[tuple[Any, ...]]:
    """Run a stream to its end, with a new driver after each kill."""
    into, events = Collected(), ScriptedStream(EVENTS)
    for epoch in epochs:
        events.add(*((f"k{n % 7}", n, float(n % 40)) for n in epoch))
    place = f"memory://ordered-{uuid.uuid4().hex}"
    left = list(kills)

    def end(point: Point, epoch: int, attempt: str, partition: str) -> None:
        del attempt, partition
        if left and (point, epoch) == left[0]:
            del left[0]
            raise EndedError

    with observed(end):
        for _ in range(len(kills) + 1):
            try:
                drive(chain, events, into, shards, place)
            except EndedError:
                continue
            break
    return [row for _, rows in sorted(into.epochs.items()) for row in rows]


def drive(
    chain: list[str], events: ScriptedStream, into: Collected, shards: int, place: str
) -> None:
    options = PipelineOptions([
        f"--shards={shards}", "--ordered", "--available_now", "--super_tuple_bytes=200",
        f"--checkpoint={place}",
    ])
    with beam.Pipeline(runner=LocalRunner(), options=options) as p:
        source = (
            p
            | ReadFromSpark(events, timestamp="at")
            | "Pair" >> beam.Map(of_row).with_output_types(Pair)
        )
        # Beam refuses to group what never ends, unless windows or triggers cut it.
        _ = build(source, ["fixed", *chain]) | "Write" >> into.sink(SCHEMA)


@TIMES
@given(chains(), numbers, st.sampled_from([2, 3, 7]))
@example(["sliding", "group", "mix"], list(range(40)), 3)
@example(["at end", "keyed diamond", "numbered", "mix"], list(range(50)), 7)
@example(["side", "rekey", "mean"], list(range(50)), 3)
@example(["group", "diamond", "group"], [1, 2, 5], 2)  # branches meet between equal keys
@example(["group", "numbered", "map", "group"], list(range(50)), 3)
@example(["mix", "diamond", "map", "mix"], list(range(50)), 3)
def test_a_batch_in_order_is_that_of_one_shard(
    chain: list[str], found: list[int], shards: int
) -> None:
    alone = batch(chain, found, 1)
    note(f"{len(alone)} rows")
    assert batch(chain, found, shards) == alone


@TIMES
@given(
    chains(STREAM_STEPS, most=5), st.lists(numbers, min_size=1, max_size=4),
    st.sampled_from([2, 3, 7]),
)
@example(["fixed", "at end", "mix"], [list(range(30)), list(range(60))], 3)
@example(["counted", "group"], [list(range(30)), list(range(60))], 3)
@example(["group", "diamond", "group"], [list(range(30)), list(range(60))], 3)
def test_a_stream_in_order_is_that_of_one_shard(
    chain: list[str], epochs: list[list[int]], shards: int
) -> None:
    assert stream(chain, epochs, shards) == stream(chain, epochs, 1)


points = st.sampled_from([
    Point.BEFORE_TASKS, Point.BEFORE_SEAL, Point.AFTER_SEAL, Point.BEFORE_SINKS, Point.AFTER_SINKS,
    Point.AFTER_MANIFEST,
])


@TIMES
@given(
    chains(STREAM_STEPS, most=4), st.lists(numbers, min_size=2, max_size=4),
    st.sampled_from([2, 3, 7]), st.lists(st.tuples(points, st.integers(0, 5)), max_size=3),
)
@example(
    ["mix", "group"], [list(range(30)), list(range(60)), [1, 2]], 3,
    [(Point.AFTER_SEAL, 1), (Point.AFTER_SINKS, 1), (Point.AFTER_MANIFEST, 2)],
)
@example(
    ["group", "diamond", "group"], [list(range(30)), list(range(60)), [1, 2]], 7,
    [(Point.BEFORE_SINKS, 1), (Point.AFTER_SEAL, 2)],
)
def test_a_stream_in_order_is_that_of_one_shard_after_kills_too(
    chain: list[str], epochs: list[list[int]], shards: int, kills: list[tuple[Point, int]]
) -> None:
    if "numbered" in chain:
        chain = [step for step in chain if step != "numbered"]  # what self holds dies with it
    assert stream(chain, epochs, shards, kills) == stream(chain, epochs, 1)


def in_turn(found: list[Pair], chain: list[str]) -> Iterator[Pair]:
    """Do by hand what a chain of steps on single elements does, one element after the other."""
    from tests.ordered import made_pipelines as made

    seen: dict[tuple[int, str], int] = {}
    count: dict[int, int] = {}

    def through(pair: Pair, place: int) -> Iterator[Pair]:
        if place == len(chain):
            yield pair
            return
        match chain[place]:
            case "map":
                yield from through(made.tripled(pair), place + 1)
            case "rekey":
                yield from through(made.keyed_by_number(pair), place + 1)
            case "filter" if made.is_kept(pair):
                yield from through(pair, place + 1)
            case "flat map":
                for each in made.several(pair):
                    yield from through(each, place + 1)
            case "mix":
                mix = (seen.get((place, pair[0]), 0) * 31 + pair[1]) % MOST
                seen[place, pair[0]] = mix
                yield from through((pair[0], mix), place + 1)
            case "numbered":
                count[place] = count.get(place, 0) + 1
                number = (pair[1] * 7 + count[place]) % MOST
                yield from through((pair[0], number), place + 1)
            case "diamond":
                yield from through(made.tripled(pair), place + 1)
                for each in made.several(pair):
                    yield from through(each, place + 1)
                yield from through(pair, place + 1)

    for pair in found:
        yield from through(pair, 0)


def parts_what_was_multiplied(chain: list[str]) -> bool:
    """Whether branches part in the stage in which a step made several elements of one.

    Their results come branch by branch for each element that entered the stage, not for each that
    the step made: the guide says so, and a loop does otherwise.
    """
    several = False
    for step in chain:
        if step == "diamond" and several:
            return True
        several = step == "flat map" or (several and step in ("map", "rekey", "filter"))
    return False


BY_HAND = ["map", "rekey", "filter", "flat map", "mix", "numbered", "diamond", "reshuffle"]


@TIMES
@given(st.lists(st.sampled_from(BY_HAND[:-1]), max_size=5), numbers, st.sampled_from([1, 3]))
def test_steps_on_single_elements_give_what_a_loop_gives(
    chain: list[str], found: list[int], shards: int
) -> None:
    if chain.count("flat map") + chain.count("diamond") > 3 or parts_what_was_multiplied(chain):
        return
    expected = list(in_turn([(f"k{n % 7}", n) for n in found], chain))
    assert batch(chain, found, shards) == expected
