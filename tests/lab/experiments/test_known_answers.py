"""The lab, measured by a system whose figures are set: what it finds must be what was set.

All of it in a time of the fake's own; nothing waits.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import OptionError
from headrace.lab.data_engine.schedule import Schedule
from headrace.lab.experiments.costs import costs_of, measure_growth
from headrace.lab.experiments.fake import FakeBench, FakeSettings, served
from headrace.lab.experiments.latency import Latency, summed_up
from headrace.lab.experiments.recovery import measure_fault
from headrace.lab.experiments.scaling import measure_scaling
from headrace.lab.experiments.spike import SpikeLoad, measure_spike
from headrace.lab.experiments.sustainable import ProbeStatus, Search, find_rate
from headrace.lab.experiments.trial import Fault, Load, Patience, Trial
from headrace.lab.experiments.waterfall import causal_profile, waterfall

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


def test_a_fault_that_loses_events_voids_the_figure() -> None:
    bench = FakeBench(FakeSettings(loses_on_fault=1))
    fault = Fault(kind="kill-driver", at_seconds=5)
    found = measure_fault(bench, rate=1_000, seconds=20, fault=fault)
    assert found.void == "wrong answer: 1 rows missing, 0 too many"


def test_scaling_finds_the_serial_share_and_predicts_more_cores() -> None:
    bench = FakeBench(FakeSettings(capacity=2_000, serial_share=0.2))
    found = measure_scaling(bench, SEARCH, [1, 2])
    # Amdahl: 2 cores give 1 / (0.2 + 0.4), 8 give 1 / (0.2 + 0.1).
    assert [point.rate for _, point in found.points] == pytest.approx(
        [2_000, 2_000 / 0.6], rel=0.03
    )
    assert found.predicted(8) == pytest.approx(2_000 / 0.3, rel=0.1)
    with pytest.raises(OptionError, match="from few to many"):
        measure_scaling(bench, SEARCH, [2, 1])


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
    assert found.bytes_per_second is not None
    assert found.bytes_per_second.slope.value == pytest.approx(8_000, rel=0.05)
    assert found.bytes_per_second.grows
    steady = measure_growth(FakeBench(), rate=1_000, seconds=20)
    assert steady.bytes_per_second is not None and not steady.bytes_per_second.grows


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


@pytest.mark.parametrize("pipelined", [False, True])
def test_the_causal_profile_says_what_a_faster_step_gives(pipelined: bool) -> None:
    steps = (("parse", 0.2), ("count", 0.5), ("write", 0.3))
    bench = FakeBench(FakeSettings(capacity=2_000, steps=steps, pipelined=pipelined))
    found = {up.step: up for up in causal_profile(bench, SEARCH, [name for name, _ in steps])}
    # One after the other: half of a step's share is saved. Side by side: only the slowest counts,
    # until the next one (0.3 of 0.5) does.
    expected = (
        {"parse": 0, "count": 0.5 / 0.3 - 1, "write": 0} if pipelined
        else {name: 1 / (1 - share / 2) - 1 for name, share in steps}
    )
    for name, gain in expected.items():
        assert 1 + found[name].gain == pytest.approx(1 + gain, rel=0.1)
        # Confirmed by a rerun with the step really faster.
        rerun = bench.trial(
            Load(
                schedule=Schedule.steady(2_000 * (1 + gain) * 0.97, 30), slowed={name: 0.5},
                patience=SEARCH.patience,
            )
        )
        assert not rerun.unsustained


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(OptionError, match="add up to 1"):
        FakeSettings(steps=(("a", 0.5),))
    with pytest.raises(OptionError, match="no rate would be refused"):
        Search(first_rate=1, probe_seconds=5)
    with pytest.raises(OptionError, match="more than a fake can serve"):
        FakeBench().trial(Load(schedule=Schedule.steady(1e9, 1)))
