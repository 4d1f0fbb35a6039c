"""The model of ordered regions: nothing is lost, order is kept, and its rates are known ones."""

from __future__ import annotations

from dataclasses import replace
from math import isclose
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.lab.experiments.regions.command import main
from headrace.lab.experiments.regions.costs import (
    MEASURED,
    PUBLISHED,
    Costs,
    read_costs,
    write_costs,
)
from headrace.lab.experiments.regions.mergers import Item, NextHeap, SeenHeap, Strategy, pulse_after
from headrace.lab.experiments.regions.model import Region, sequential_rate, simulate, speedup
from headrace.lab.experiments.regions.plot import svg
from headrace.lab.experiments.regions.predict import (
    PUBLISHED_OVERHEADS,
    PUBLISHED_POINTS,
    SHAPES,
    SHUFFLE,
    STATEFUL,
    STATELESS,
    curves,
    overheads,
)

FREE = Costs(split=0, transfer=0, seqno=0, pulse=0, merge=0, heap=0, work=0)
SECONDS = st.floats(0, 1e-3)


@st.composite
def regions(draw: Any) -> Region:
    strategy = draw(st.sampled_from(Strategy))
    pulsed = strategy.pulsed
    shares = [1.0, 0.5, 0.1, 0.0] if pulsed else [1.0]
    several = [2.0, 3.0] if strategy is Strategy.SUB_INDEX else []
    return Region(
        channels=draw(st.integers(1, 7)), tuples=draw(st.integers(1, 150)), strategy=strategy,
        keyed=strategy is not Strategy.ROUND_ROBIN and draw(st.booleans()),
        shuffle=pulsed and draw(st.booleans()), cores=draw(st.sampled_from([None, 1, 3])),
        boost=draw(st.sampled_from([1.0, 1.5])), epoch=draw(st.integers(1, 12)),
        selectivity=draw(st.sampled_from([*shares, *several])), room=draw(st.integers(1, 20)),
        seed=draw(st.integers(0, 99)), only_results=draw(st.booleans()),
    )  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    regions(), st.tuples(SECONDS, SECONDS, SECONDS, SECONDS, SECONDS, SECONDS, SECONDS)
)
def test_nothing_is_lost_and_the_order_is_that_of_the_source(
    region: Region, seconds: tuple[float, ...]
) -> None:
    names = ("split", "transfer", "seqno", "pulse", "merge", "heap", "work")
    found = simulate(region, Costs(**dict(zip(names, seconds, strict=True))))
    share, parts = min(region.selectivity, 1.0), max(1, int(region.selectivity))
    kept = [n for n in range(region.tuples) if int((n + 1) * share) > int(n * share)]
    assert found.items == [Item(n, part) for n in kept for part in range(parts)]
    assert found.times == sorted(found.times)


# -- mergers, by the examples of the publication


def test_a_merger_of_numbers_waits_for_the_one_that_follows() -> None:
    merger = NextHeap(3)
    for number in range(5):
        assert merger.take(number % 3, Item(number)) == [Item(number)]
    assert merger.take(0, Item(6)) == []
    assert merger.take(2, Item(7)) == []
    assert merger.take(1, Item(5)) == [Item(5), Item(6), Item(7)]


def test_a_merger_with_pulses_finds_out_that_a_tuple_was_dropped() -> None:
    """5 is gone for good once all channels were seen with more than that; 9 may still come."""
    merger = SeenHeap(3)
    for channel, number in enumerate((2, 3, 4)):
        merger.take(channel, Item(number))
    assert merger.take(0, Item(6)) == []
    assert merger.take(2, Item(10)) == []
    assert merger.take(1, Item(8)) == [Item(6)]
    assert merger.take(0, pulse_after(8)) == [Item(8)]
    assert merger.take(0, pulse_after(9)) == []
    assert merger.take(1, pulse_after(9)) == []
    assert merger.take(1, pulse_after(11)) == []
    assert merger.take(0, pulse_after(11)) == [Item(10)]


def test_a_merger_inside_a_shuffle_hands_each_pulse_on_once() -> None:
    merger = SeenHeap(3, keep_pulses=True)
    given_on = [item for c in range(3) for item in merger.take(c, pulse_after(9))]
    assert given_on == [pulse_after(9)]


# -- rates that are known


def test_a_splitter_that_is_the_bottleneck_bounds_the_rate() -> None:
    costs = replace(FREE, split=2e-6, seqno=1e-6, work=1e-6)
    for channels in (4, 16):
        region = Region(channels=channels, tuples=2_000, strategy=Strategy.NUMBERS)
        assert isclose(simulate(region, costs).rate, 1 / 3e-6, rel_tol=0.01)


def test_a_merger_that_is_the_bottleneck_bounds_the_rate() -> None:
    costs = replace(FREE, merge=5e-6, heap=1e-6, work=1e-6)
    region = Region(channels=8, tuples=2_000, strategy=Strategy.NUMBERS)
    assert isclose(simulate(region, costs).rate, 1 / 8e-6, rel_tol=0.01)


@pytest.mark.parametrize("channels", [1, 2, 7, 32])
def test_dear_work_dealt_out_in_turn_scales_with_the_channels(channels: int) -> None:
    region = Region(channels=channels, tuples=100 * channels, strategy=Strategy.ROUND_ROBIN)
    assert isclose(speedup(region, replace(FREE, work=1e-3)), channels, rel_tol=0.02)


@pytest.mark.parametrize("serial_us", [1, 5, 50])
def test_speed_ups_follow_amdahls_bound(serial_us: int) -> None:
    """The splitter takes its time for each tuple, however many channels share the work."""
    costs = replace(FREE, split=serial_us * 1e-6, work=1e-4)
    for channels in (1, 4, 64):
        region = Region(
            channels=channels, tuples=60 * channels + 600, strategy=Strategy.ROUND_ROBIN
        )
        bound = min(channels, 1e-4 / (serial_us * 1e-6))
        assert isclose(speedup(region, costs), bound, rel_tol=0.05)


def test_pulses_cost_the_splitter_one_for_each_channel_and_epoch() -> None:
    costs = replace(FREE, split=1e-6, pulse=1e-6)
    for epoch in (1, 10):
        region = Region(channels=8, tuples=8_000, strategy=Strategy.PULSES, epoch=epoch)
        assert isclose(simulate(region, costs).rate, 1e6 / (1 + 1 / epoch), rel_tol=0.02)


@pytest.mark.parametrize(("boost", "most"), [(1.0, 8.0), (1.5, 12.0)])
def test_twice_as_many_processes_as_cores_share_them(boost: float, most: float) -> None:
    region = Region(
        channels=16, tuples=16_000, strategy=Strategy.PULSES, keyed=True, shuffle=True, cores=16,
        boost=boost,
    )  # fmt: skip
    found = speedup(region, replace(FREE, work=1e-3))
    assert 0.9 * most <= found <= 1.01 * most


def test_work_for_a_few_tuples_only_is_not_worth_many_channels() -> None:
    costs = replace(read_costs(PUBLISHED), work=1e-6)
    region = Region(
        channels=32, tuples=16_000, strategy=Strategy.PULSES, keyed=True, selectivity=1 / 256,
        only_results=True,
    )  # fmt: skip
    assert speedup(region, costs) < 1.0


def test_one_worker_receives_works_and_sends() -> None:
    costs = replace(FREE, transfer=1e-6, work=3e-6)
    assert isclose(
        sequential_rate(Region(channels=1, tuples=1, strategy=Strategy.NUMBERS), costs), 1 / 5e-6
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"channels": 0}, {"strategy": Strategy.ROUND_ROBIN, "keyed": True}, {"selectivity": 0.5},
        {"selectivity": 1.5}, {"shuffle": True}, {"selectivity": 2.0},
    ],
)  # fmt: skip
def test_what_cannot_keep_its_order_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        Region(**{"channels": 2, "tuples": 9, "strategy": Strategy.NUMBERS, **wrong})


# -- beside what was published


def test_published_points_lie_near_the_model() -> None:
    costs = read_costs(PUBLISHED)
    near = [p for p in PUBLISHED_POINTS if p.channels <= 32]
    assert len(near) == 4
    for point in near:
        region = SHAPES[point.shape](point.channels, point.channels * 400)
        assert isclose(speedup(region, costs), point.speedup, rel_tol=0.08), point


def test_overheads_are_the_published_ones() -> None:
    found = overheads(read_costs(PUBLISHED), per_channel=200)
    for strategy, most in PUBLISHED_OVERHEADS.items():
        assert isclose(found[strategy], most, abs_tol=0.01)


# -- files and the command


def test_costs_are_read_back_and_wrong_ones_refused(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    write_costs(path, replace(FREE, work=2e-6), "a toy")
    assert read_costs(path) == replace(FREE, work=2e-6)
    path.write_text('{"split": 1}')
    with pytest.raises(ValueError, match="must have exactly"):
        read_costs(path)
    with pytest.raises(ValueError, match="the cost merge"):
        replace(FREE, merge=-1.0)
    for shipped in (MEASURED, PUBLISHED):
        assert read_costs(shipped).work > 0


def test_the_command_prints_saves_and_draws(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn, saved = tmp_path / "x.svg", tmp_path / "x.json"
    wanted = ["predict", "--channels", "1", "--channels", "2", "--per-channel", "20"]
    assert main([*wanted, "--plot", str(drawn), "--save", str(saved)]) == 0
    assert STATEFUL in capsys.readouterr().out
    assert saved.stat().st_size > 500
    lines = ElementTree.fromstring(drawn.read_text()).findall(
        ".//{http://www.w3.org/2000/svg}polyline"
    )
    assert len(lines) == len(SHAPES)


def test_a_drawing_has_a_ring_for_each_published_point_in_reach() -> None:
    found = curves(replace(FREE, work=1e-3), (1, 16), per_channel=5)
    drawn = ElementTree.fromstring(svg("toy", found, PUBLISHED_POINTS))
    rings = drawn.findall(".//{http://www.w3.org/2000/svg}circle")
    assert len(rings) == 1
    assert {STATELESS, SHUFFLE} <= {curve.shape for curve in found}
