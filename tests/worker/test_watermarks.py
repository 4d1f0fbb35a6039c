"""Watermark arithmetic: channels, stages, pulses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import TransportError
from headrace.plan.clocks import MAX_TIME as END
from headrace.plan.clocks import MIN_TIME as BEGINNING
from headrace.plan.clocks import SourceClock
from headrace.plan.ids import ChannelId, StageId
from headrace.plan.settings import Settings
from headrace.plan.supersteps import Channel, ChannelKind, Port, Stage, Superstep
from headrace.worker.protocol import ONLY_EPOCH, SuperstepTask
from headrace.worker.task.watermarks import (
    EndOfTime,
    PulsedWatermarks,
    at_output,
    carriers_of_highs,
    pulses_of,
    source_watermark,
)

#: Channels: a source, an exchange that it feeds, a keyed exchange from a stage of superstep 1, a
#: local channel, an output.
SOURCE, FED, KEYED, LOCAL, OUT = range(5)


def channel(kind: ChannelKind, label: str) -> Channel:
    return Channel(
        channel_id=ChannelId(label), kind=kind, source_stages=(), target_stages=(), label=label,
        reason="",
    )


def stage(number: int, reads: tuple[int, ...], writes: tuple[int, ...]) -> Stage:
    return Stage(
        stage_id=StageId(f"s{number}"), name=f"stage {number}", superstep=number, transforms=b"",
        operators=(), side_inputs=(),
        reads=tuple(Port(transform_id=f"r{c}", channel=c) for c in reads),
        writes=tuple(Port(transform_id=f"w{c}", channel=c) for c in writes),
    )


def task(index: int, *, shards: int = 2, **more: Any) -> SuperstepTask:
    kinds = (
        ChannelKind.SOURCE, ChannelKind.KEYED, ChannelKind.KEYED, ChannelKind.LOCAL,
        ChannelKind.OUTPUT,
    )
    return SuperstepTask(
        superstep=Superstep(index=index, stages=()),
        depths=(0, 1, 2, index, 1 << 30),
        channels=tuple(channel(kind, kind.name) for kind in kinds),
        components=b"",
        shards=shards,
        settings=Settings(),
        stage_numbers=(),
        roots=((SOURCE,), (SOURCE,), (), (), ()),
        pulses=(0, 0, shards, 0, 0),
        **more,
    )


def marks_of(index: int, sources: dict[int, int] | None = None, **more: Any) -> PulsedWatermarks:
    found = PulsedWatermarks(task(index, **more))
    found.begin(replace(ONLY_EPOCH, sources=sources or {}))
    return found


def test_a_channel_is_as_far_as_the_slowest_shard_that_wrote_to_it() -> None:
    marks = marks_of(2)
    marks.hear([(KEYED, 7)])
    marks.hear([(KEYED, 5)])
    assert marks.of(KEYED) == 5


def test_silence_is_not_taken_for_the_end() -> None:
    marks = marks_of(2)
    marks.hear([(KEYED, 7)])
    with pytest.raises(TransportError, match="got 1 of 2 pulses"):
        marks.of(KEYED)


def test_a_channel_of_superstep_0_is_as_far_as_its_source() -> None:
    assert marks_of(1, {SOURCE: 42}).of(FED) == 42


def test_pulses_of_an_earlier_epoch_are_forgotten() -> None:
    marks = marks_of(2)
    marks.hear([(KEYED, 7)])
    marks.hear([(KEYED, 5)])
    marks.begin(ONLY_EPOCH)
    with pytest.raises(TransportError):
        marks.of(KEYED)


def test_a_stage_is_as_far_as_its_slowest_input_and_never_goes_back() -> None:
    marks = marks_of(1, {SOURCE: 42})
    marks.reached(stage(1, (), (LOCAL,)), 30)
    both = stage(2, (FED, LOCAL), ())
    assert marks.at_input(both, BEGINNING) == 30
    assert marks.at_input(both, 35) == 35


def test_an_impulse_holds_nothing_back() -> None:
    assert marks_of(1, {SOURCE: 42}).at_input(stage(1, (SOURCE,), ()), BEGINNING) == END


def test_superstep_0_leaves_time_to_its_readers() -> None:
    assert marks_of(0, {SOURCE: 42}).at_input(stage(0, (SOURCE,), ()), BEGINNING) == BEGINNING


def test_what_a_stage_writes_to_an_exchange_is_told_by_pulses_alone() -> None:
    marks = marks_of(1)
    marks.reached(stage(1, (), (KEYED,)), 30)
    with pytest.raises(TransportError):
        marks.of(KEYED)


def test_a_bounded_input_is_at_the_end_of_time() -> None:
    marks = EndOfTime()
    assert marks.of(KEYED) == END
    assert marks.at_input(stage(2, (KEYED,), ()), BEGINNING) == END


@given(st.lists(st.integers(0, 100)), st.integers(0, 100), st.integers(0, 100))
def test_an_output_is_held_back_but_never_goes_back(
    holds: list[int], watermark: int, last: int
) -> None:
    out = at_output(last, watermark, holds)
    assert out >= last
    assert out == last or all(out <= bound for bound in (watermark, *holds))


def test_pulses_name_the_least_of_all_writers_and_neither_local_nor_output_channels() -> None:
    told = pulses_of(
        task(1), [(stage(1, (), (KEYED, LOCAL)), 9), (stage(2, (), (KEYED, OUT)), 4)]
    )
    assert told == {2: {KEYED: 4}}


def test_highs_are_carried_once_to_each_superstep_that_a_frame_feeds() -> None:
    assert carriers_of_highs(task(0, source=SOURCE)) == [FED]
    assert carriers_of_highs(task(0, source=KEYED)) == []


def test_the_frame_that_feeds_moves_its_clock_and_a_drain_ends_it() -> None:
    clock = SourceClock(delay=10)
    epoch = replace(ONLY_EPOCH, clocks={SOURCE: clock}, feeding=SOURCE, ending=False, now=1_000)
    moved = clock.seen({"0": 500}, 1_000).watermark(1_000)
    assert source_watermark(epoch, SOURCE, {"0": 500}) == moved
    assert source_watermark(replace(epoch, ending=True), SOURCE, {"0": 500}) == END
    assert source_watermark(replace(epoch, drain=True), SOURCE, {}) == END
    assert source_watermark(replace(epoch, feeding=None), SOURCE, {}) == clock.watermark(1_000)
