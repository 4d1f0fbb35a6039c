"""The lab, measured by a system whose figures are set: what it finds must be what was set.

All of it in a time of the fake's own; nothing waits.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import OptionError
from headrace.lab.data_engine.schedule import Schedule
from headrace.lab.experiments.congestion import CongestedLoad, measure_congestion
from headrace.lab.experiments.costs import costs_of, measure_growth
from headrace.lab.experiments.fake import FakeBench, FakeSettings, served
from headrace.lab.experiments.latency import Latency, summed_up
from headrace.lab.experiments.recovery import measure_fault
from headrace.lab.experiments.scaling import Scaling, measure_scaling
from headrace.lab.experiments.spike import SpikeLoad, measure_spike
from headrace.lab.experiments.sustainable import ProbeStatus, Search, find_rate
from headrace.lab.experiments.sweep import sweep
from headrace.lab.experiments.waterfall import waterfall
from headrace.lab.record.trial import Fault, Load, Patience, Trial

SEARCH = Search(
    first_rate=1_000, probe_seconds=30, confirm_seconds=90,
    patience=Patience(acceptable_seconds=0.25, limit_seconds=1),
)


def measure_latency(bench: FakeBench, rate: float, *, seconds: float, repeats: int) -> Latency:
    load = Load(schedule=Schedule.steady(rate, seconds))
    return summed_up(rate, [bench.trial(load) for _ in range(repeats)])


@settings(max_examples=10, deadline=None)
@given(st.floats(300, 10_000), st.floats(0.001, 1), st.sampled_from([0.0, 0.2]))
def test_capacity_and_delay_are_found_within_five_percent(
    capacity: float, delay: float, epoch: float
) -> None:
    bench = FakeBench(FakeSettings(capacity=capacity, delay_seconds=delay, epoch_seconds=epoch))
    found = find_rate(bench, SEARCH)
    assert not found.void
    assert found.rate == pytest.approx(capacity, rel=0.05)
    latency = measure_latency(bench, found.rate * 0.5, seconds=20, repeats=2)
    # An event waits for half an epoch on average, and takes its service time.
    expected = delay + epoch / 2 + 1 / capacity
    assert latency.mean is not None
    assert latency.mean.value == pytest.approx(expected, rel=0.05)
    if not epoch:
        assert latency.at(0.99).value == pytest.approx(delay + 1 / capacity, rel=0.05)


@given(st.lists(st.floats(0, 10), min_size=1, max_size=40).map(sorted), st.floats(0.01, 2))
def test_events_are_served_one_after_the_other(due: list[float], service: float) -> None:
    expected, free = [], 0.0
    for at in due:
        free = max(at, free)
        expected.append(free)
        free += service
    assert served(np.array(due), service).tolist() == pytest.approx(expected)


@pytest.mark.parametrize("first", [100, 40_000])
def test_the_search_finds_the_same_from_below_and_from_above(first: float) -> None:
    search = Search(
        first_rate=first, probe_seconds=30, confirm_seconds=60, patience=SEARCH.patience
    )
    found = find_rate(FakeBench(FakeSettings(capacity=5_000)), search)
    assert found.rate == pytest.approx(5_000, rel=0.05)
    assert found.probes[-1].is_confirmation
    assert {probe.status for probe in found.probes} == {
        ProbeStatus.KEPT_UP, ProbeStatus.FELL_BEHIND,
    }


def test_what_a_short_probe_lets_pass_the_long_run_does_not() -> None:
    """A probe of three seconds sees no queue build up; the confirmation does."""
    search = Search(
        first_rate=1_000, probe_seconds=3, confirm_seconds=300, precision=0.05,
        patience=Patience(acceptable_seconds=0.5, limit_seconds=2),  # no line: five times 0.5 s
    )
    found = find_rate(FakeBench(FakeSettings(capacity=5_000)), search)
    assert any(
        probe.is_confirmation and probe.status is ProbeStatus.FELL_BEHIND
        for probe in found.probes
    )
    assert found.rate == pytest.approx(5_000, rel=0.05)


def test_a_queue_that_grows_slowly_is_seen_before_it_is_long() -> None:
    """At 4 % above the capacity the queue would be a second long after 26 s; probes last 12."""
    search = Search(
        first_rate=5_200, probe_seconds=12, confirm_seconds=12, precision=0.02,
        patience=Patience(acceptable_seconds=1, limit_seconds=2),
    )
    found = find_rate(FakeBench(FakeSettings(capacity=5_000)), search)
    assert found.probes[0].reason.startswith("the queue grows by ")
    assert found.rate == pytest.approx(5_000, rel=0.03)


def test_a_system_that_sustains_nothing_has_no_rate() -> None:
    found = find_rate(FakeBench(FakeSettings(capacity=0.5)), SEARCH)
    assert (found.rate, found.confirmation, found.void) == (0, None, "")


def test_a_generator_that_is_too_slow_voids_the_figure() -> None:
    found = find_rate(FakeBench(FakeSettings(capacity=50_000, generator_rate=10_000)), SEARCH)
    assert "at 16,000 events/s: the generator could not make its events in time" in found.void
    assert found.rate == 0


class Interrupted(FakeBench):
    """A fake whose second trial is spoilt by something else."""

    def __init__(self, times: int) -> None:
        super().__init__(FakeSettings(capacity=5_000))
        self._count, self._times = 0, times

    def trial(self, load: Load) -> Trial:
        self._count += 1
        found = super().trial(load)
        spoilt = 2 <= self._count < 2 + self._times
        return replace(found, void="the machine was busy") if spoilt else found


def test_a_probe_that_was_spoilt_once_is_made_again_and_one_spoilt_twice_voids_the_search() -> None:
    found = find_rate(Interrupted(1), SEARCH)
    assert found.rate == pytest.approx(5_000, rel=0.05)
    assert [probe.status for probe in found.probes[1:3]] == [ProbeStatus.VOID, ProbeStatus.KEPT_UP]
    assert found.probes[1].rate == found.probes[2].rate
    assert find_rate(Interrupted(2), SEARCH).void == "at 2,000 events/s: the machine was busy"


@pytest.mark.parametrize("harm", ["drop_every", "double_every"])
def test_one_event_lost_or_doubled_of_ten_thousand_is_caught(harm: str) -> None:
    bench = FakeBench(FakeSettings(capacity=5_000, **{harm: 10_000}))  # type: ignore[arg-type]
    found = find_rate(bench, SEARCH)
    assert "wrong answer" in found.void
    assert ("0 too many" in found.void) == (harm == "drop_every")
    assert found.rate == 0
    latency = measure_latency(bench, 4_000, seconds=20, repeats=2)
    assert "wrong answer" in latency.void
    assert latency.percentiles == ()


def test_a_healthy_system_comes_back_from_a_spike() -> None:
    found = measure_spike(FakeBench(FakeSettings(capacity=2_000)), SpikeLoad(rate=500))
    # The spike brings 2 s x 5,000/s; 2,000/s are served meanwhile: 6,000 are left. Then 1,500/s
    # more are served than come, until 500 (a second's worth) are left.
    assert found.longest_queue == pytest.approx(6_000, rel=0.05)
    assert found.recovery_seconds == pytest.approx(5_500 / 1_500, rel=0.05)
    assert found.came_back


def test_a_system_that_is_slow_only_after_a_spike_is_caught() -> None:
    settings = FakeSettings(capacity=2_000, spike_queue=1_000, spoilt_delay=1.5)
    found = measure_spike(FakeBench(settings), SpikeLoad(rate=500))
    assert not found.void
    assert found.recovery_seconds is not None
    assert not found.came_back
    assert found.before is not None and found.after is not None
    assert found.after.value / found.before.value == pytest.approx(1.5, rel=0.05)


def test_a_system_that_never_catches_up_has_no_recovery() -> None:
    found = measure_spike(FakeBench(FakeSettings(capacity=505)), SpikeLoad(rate=500))
    assert found.recovery_seconds is None
    assert not found.came_back


def test_the_recovery_from_a_fault_is_the_outage_and_the_backlog() -> None:
    bench = FakeBench(FakeSettings(capacity=2_000, restart_seconds=3))
    found = measure_fault(
        bench, rate=1_000, seconds=60, fault=Fault(kind="kill-worker", at_seconds=20)
    )
    # 3,000 events wait after the outage, and 1,000/s more are served than come: 3 s more, less
    # what is tolerated above the latency before.
    assert found.recovery_seconds == pytest.approx(6, rel=0.05)
    assert not found.void


def test_the_recovery_from_a_fault_that_lasts_counts_from_its_end() -> None:
    bench = FakeBench(FakeSettings(capacity=2_000, restart_seconds=0))
    fault = Fault(kind="slow-disk", at_seconds=20, lasts_seconds=5)
    found = measure_fault(bench, rate=1_000, seconds=60, fault=fault)
    # 5,000 events wait when it is over, and 1,000/s more are served than come.
    assert found.recovery_seconds == pytest.approx(5, rel=0.05)


def test_a_fault_that_loses_events_voids_the_figure() -> None:
    bench = FakeBench(FakeSettings(loses_on_fault=1))
    fault = Fault(kind="kill-driver", at_seconds=5)
    found = measure_fault(bench, rate=1_000, seconds=20, fault=fault)
    assert found.void == "wrong answer: 1 rows missing, 0 too many"


def scaled(counts: list[int], what: str = "cores", **how: Any) -> Scaling:
    return measure_scaling(
        lambda count: FakeBench(FakeSettings(capacity=2_000, **{**how, what: count})),
        lambda bench, first: find_rate(
            bench, SEARCH if first is None else replace(SEARCH, first_rate=first)
        ),
        counts, precision=SEARCH.precision, predicts=what == "cores",
    )


@pytest.mark.parametrize("serial", [0.0, 0.2, 0.6])
def test_two_cores_are_predicted_of_one_and_hold_for_a_system_of_amdahls(serial: float) -> None:
    found = scaled([1, 2], serial_share=serial)
    # Amdahl: n cores take serial + (1 - serial) / n of the time.
    assert [point.found.rate for point in found.points] == pytest.approx(
        [2_000, 2_000 / (serial + (1 - serial) / 2)], rel=0.03
    )
    one, two = found.points
    assert one.predicted is None
    assert two.predicted == pytest.approx(2_000 / (serial + (1 - serial) / 2), rel=0.05)
    assert two.error == pytest.approx(0, abs=0.05)
    assert found.unsure == ""
    assert found.predicted(8) == pytest.approx(2_000 / (serial + (1 - serial) / 8), rel=0.1)
    assert found.parts["driver"] == pytest.approx(serial / 2_000)
    assert found.speed_up(two) == pytest.approx(1 / (serial + (1 - serial) / 2), rel=0.05)


def test_a_system_whose_cores_hinder_each_other_is_not_predicted() -> None:
    found = scaled([1, 2], serial_share=0.2, contention=0.4)
    # One core shows nothing of it: 0.2 + 0.4 of the time were predicted, and 0.4 more is taken.
    assert found.points[1].error == pytest.approx(1 / 0.6 * 1.0 - 1, rel=0.1)
    assert found.unsure == f"the model was off by {found.points[1].error:+.0%} on 2 cores"
    assert found.predicted(8) is None


def test_the_model_knows_that_the_machine_has_no_more_cores_than_it_has() -> None:
    found = scaled([1, 2, 4], machine_cores=2)
    # Two cores less the data engine's share of them: 500 + 1 microseconds an event.
    assert [point.predicted for point in found.points[1:]] == pytest.approx(
        [2 / 501e-6, 2 / 501e-6], rel=0.03
    )
    assert found.points[2].found.rate == pytest.approx(2 / 501e-6, rel=0.03)
    assert found.unsure == ""


def test_nothing_is_said_of_more_cores_where_nothing_was_checked() -> None:
    alone = scaled([1])
    assert (alone.unsure, alone.predicted(2)) == ("the model was not checked on more cores", None)
    lame = scaled([1, 2], drop_every=1_000)
    assert "wrong answer" in lame.unsure and "wrong answer" in lame.points[1].void
    assert lame.points[1].error is None
    with pytest.raises(OptionError, match="from few to many"):
        scaled([2, 1])


def test_more_shards_than_cores_give_no_more() -> None:
    found = scaled([1, 2, 4], "shards", cores=2, serial_share=0.2)
    ratios = [found.speed_up(point) for point in found.points]
    assert ratios == pytest.approx([1, 1 / 0.6, 1 / 0.6], rel=0.06)
    assert all(point.predicted is None for point in found.points)


def test_a_sweep_over_time_finds_the_wait_and_the_cost_of_each_batch() -> None:
    settings = FakeSettings(
        capacity=10_000, delay_seconds=0.1, cpu_seconds_per_event=1e-5, cpu_seconds_per_batch=0.01
    )
    found = sweep(
        lambda value: FakeBench(replace(settings, trigger_ms=value)), [100, 1_000],
        rate=1_000, seconds=60,
    )
    for each, every in zip(found, (0.1, 1.0), strict=True):
        # Of the events of a batch one of a hundred waits for nearly all of its time.
        assert each.p99 is not None and each.median is not None
        assert each.p99.value == pytest.approx(0.1 + 1e-4 + every * 0.99, rel=0.02)
        assert each.median.value == pytest.approx(0.1 + 1e-4 + every * 0.5, rel=0.02)
        per_event = 1e-5 + 0.01 / (1_000 * every)
        assert each.cpu_seconds_per_million == pytest.approx(per_event * 1e6, rel=0.03)


def test_a_sweep_over_sizes_finds_the_wait_for_the_rest_of_a_bundle() -> None:
    settings = FakeSettings(capacity=10_000, delay_seconds=0.1, cpu_seconds_per_batch=0.01)
    found = sweep(
        lambda value: FakeBench(replace(settings, bundle_events=value)), [1, 100, 500],
        rate=1_000, seconds=50,
    )
    for each in found:
        assert each.p99 is not None
        assert each.p99.value == pytest.approx(0.1 + 1e-4 + each.value * 1e-3 * 0.99, rel=0.02)
        per_event = 1e-4 + 0.01 / each.value
        assert each.cpu_seconds_per_million == pytest.approx(per_event * 1e6, rel=0.02)


def test_a_value_with_a_wrong_answer_is_void_alone() -> None:
    right, wrong = sweep(
        lambda value: FakeBench(FakeSettings(drop_every=value)), [0, 100], rate=1_000, seconds=10
    )
    assert right.p99 is not None and not right.void
    assert "wrong answer" in wrong.void
    assert (wrong.p99, wrong.median, wrong.cpu_seconds_per_million) == (None, None, None)


def test_costs_are_per_million_events_and_the_engine_is_apart() -> None:
    bench = FakeBench(FakeSettings(cpu_seconds_per_event=2e-5, state_bytes_per_event=8))
    trial = bench.trial(Load(schedule=Schedule.steady(1_000, 10)))
    found = costs_of(trial)
    assert found.cpu_seconds_per_million == pytest.approx(20)
    assert found.engine_cpu_seconds_per_million == pytest.approx(1)
    assert found.checkpoint_bytes == 80_000


def test_state_that_grows_is_told_from_state_that_does_not() -> None:
    growing = FakeBench(FakeSettings(state_bytes_per_event=8))
    found = measure_growth(growing, rate=1_000, seconds=20)
    for slope in (found.state, found.checkpoint):
        assert slope is not None
        assert slope.slope.value == pytest.approx(8_000, rel=0.05)
        assert slope.grows
    steady = measure_growth(FakeBench(), rate=1_000, seconds=20)
    assert steady.state is not None and not steady.state.grows


class Silent(FakeBench):
    """A fake of whose state nobody tells."""

    def trial(self, load: Load) -> Trial:
        none = np.zeros(0)
        sizes = none.astype(np.int64)
        return replace(
            super().trial(load), state_seconds=none, state_bytes=sizes,
            checkpoint_seconds=none, checkpoint_bytes=sizes,
        )


def test_growth_of_a_state_that_nobody_looked_at_is_void() -> None:
    found = measure_growth(Silent(), rate=1_000, seconds=20)
    assert (found.state, found.checkpoint) == (None, None)
    assert found.void == "the state was not looked at"


def test_congestion_is_worked_off_at_what_is_left_of_the_capacity() -> None:
    load = CongestedLoad(rate=2_000, times=1.5, below=0.5, over_seconds=10, after_seconds=40)
    found = measure_congestion(FakeBench(FakeSettings(capacity=2_000)), load)
    assert not found.void
    # 10 s x 1,000/s too many wait in the end; then 1,000/s more are served than come, until a
    # second's worth of them is left, and until nobody waits.
    assert found.longest_queue == pytest.approx(10_000, rel=0.05)
    assert found.queue_seconds == pytest.approx(9, rel=0.05)
    assert found.young_seconds == pytest.approx(10, rel=0.05)
    # Late are those that came in these 20 s, of all since the congestion began.
    assert found.late_share == pytest.approx((30_000 + 10_000) / (30_000 + 40_000), rel=0.02)
    assert (found.lost_rows, found.doubled_rows) == (0, 0)


def test_congestion_that_loses_or_never_ends_is_told() -> None:
    load = CongestedLoad(rate=2_000, over_seconds=10, after_seconds=40)
    found = measure_congestion(FakeBench(FakeSettings(capacity=2_000, drop_every=10_000)), load)
    assert found.lost_rows > 0
    assert "wrong answer" in found.void
    never = measure_congestion(FakeBench(FakeSettings(capacity=1_010)), load)
    assert (never.queue_seconds, never.young_seconds) == (None, None)
    with pytest.raises(OptionError, match="it wants more than 1, and less than 1"):
        CongestedLoad(rate=1, times=0.9)


def test_the_waterfall_shows_the_stages_as_they_were_set() -> None:
    settings = FakeSettings(capacity=5_000, delay_seconds=0.1, epoch_seconds=0.2)
    trial = FakeBench(settings).trial(Load(schedule=Schedule.steady(1_000, 20)))
    found = {stage.name: stage for stage in waterfall(trial)}
    assert list(found) == ["queue", "epoch", "shuffle", "compute", "commit"]
    assert found["epoch"].seconds == pytest.approx(0.1, rel=0.1)
    assert found["shuffle"].seconds == pytest.approx(0.02, rel=0.1)
    assert found["compute"].seconds == pytest.approx(0.05, rel=0.1)
    assert found["commit"].seconds == pytest.approx(0.03, rel=0.1)
    assert sum(stage.share for stage in found.values()) == pytest.approx(1)


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(OptionError, match="add up to 1"):
        FakeSettings(steps=(("a", 0.5),))
    with pytest.raises(OptionError, match="no rate would be refused"):
        Search(first_rate=1, probe_seconds=5)
    with pytest.raises(OptionError, match="more than a fake can serve"):
        FakeBench().trial(Load(schedule=Schedule.steady(1e9, 1)))
