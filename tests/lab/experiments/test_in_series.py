"""A search in one run, on a system whose figures are set; nothing waits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.lab.data_engine.schedule import Schedule
from headrace.lab.experiments.fake import FakeBench, FakeSettings
from headrace.lab.experiments.in_series import find_rate_in_series
from headrace.lab.experiments.sustainable import ProbeStatus, Search, find_rate
from headrace.lab.record.trial import Bench, Load, Patience, Trial, Work

SEARCH = Search(
    first_rate=1_000, probe_seconds=30, confirm_seconds=90,
    patience=Patience(acceptable_seconds=0.25, limit_seconds=1),
)
#: As `make lab` searches.
QUICK = Search(
    first_rate=1_000, probe_seconds=5, confirm_seconds=5, precision=0.3, ramp=True,
    patience=Patience(acceptable_seconds=1.5, limit_seconds=3, drain_seconds=3),
)


class Counted(FakeBench):
    """A fake that says how often it was started."""

    def __init__(self, settings: FakeSettings) -> None:
        super().__init__(settings)
        self.starts = 0
        self._in_series = False

    def trial(self, load: Load) -> Trial:
        self.starts += not self._in_series
        return super().trial(load)

    def series(self, work: Work, rate: float) -> tuple[Trial, ...]:
        self.starts += 1
        self._in_series = True
        try:
            return super().series(work, rate)
        finally:
            self._in_series = False


@settings(max_examples=10, deadline=None)
@given(st.floats(300, 10_000), st.sampled_from([0.0, 0.2]))
def test_the_capacity_is_found_within_five_percent_in_one_run(
    capacity: float, epoch: float
) -> None:
    bench = Counted(FakeSettings(capacity=capacity, delay_seconds=0.05, epoch_seconds=epoch))
    found = find_rate_in_series(bench, SEARCH).found
    assert not found.void
    assert found.rate == pytest.approx(capacity, rel=0.05)
    assert found.confirmation is not None and len(found.confirmation.left)
    assert bench.starts == 1


@settings(max_examples=30, deadline=None)
@given(st.floats(500, 200_000))
def test_a_quick_search_brackets_the_capacity_by_its_own_precision(capacity: float) -> None:
    found = find_rate_in_series(FakeBench(FakeSettings(capacity=capacity)), QUICK).found
    kept = {probe.rate for probe in found.probes if probe.status is ProbeStatus.KEPT_UP}
    behind = {probe.rate for probe in found.probes if probe.status is ProbeStatus.FELL_BEHIND}
    assert found.rate == max(kept) < min(behind) <= found.rate * 1.3 * 1.001
    # A probe too short for a line lets a queue pass that grows by half the precision.
    assert capacity / 1.3 / 1.01 <= found.rate <= capacity / (1 - 0.3 / 2) * 1.01
    assert len(found.probes) <= 5


@pytest.mark.parametrize("harm", ["drop_every", "double_every"])
def test_one_event_lost_or_doubled_of_ten_thousand_voids_the_figure(harm: str) -> None:
    bench = FakeBench(FakeSettings(capacity=5_000, **{harm: 10_000}))  # type: ignore[arg-type]
    found = find_rate_in_series(bench, SEARCH).found
    assert "wrong answer" in found.void
    assert (found.rate, found.confirmation) == (0, None)


def test_a_generator_that_is_too_slow_voids_the_figure() -> None:
    bench = FakeBench(FakeSettings(capacity=50_000, generator_rate=10_000))
    found = find_rate_in_series(bench, SEARCH).found
    assert "at 16,000 events/s: the generator could not make its events in time" in found.void
    assert found.rate == 0


class Hoarding(Counted):
    """Takes all that comes, and computes at the end what is more than it can."""

    def trial(self, load: Load) -> Trial:
        found = super().trial(load)
        able = 2_000 * load.schedule.seconds
        late = max(0.0, (found.made - able) / 2_000)
        return replace(found, left=found.left + late)


def test_a_rate_whose_results_left_too_late_is_taken_back_and_searched_below() -> None:
    """The queue stays short up to 8,000/s, and what leaves is at most 2,000/s."""
    bench = Hoarding(FakeSettings(capacity=8_000))
    found = find_rate_in_series(bench, QUICK).found
    assert not found.void
    # 5 s of load and 3 s after it: 16,000 events.
    assert 3_200 / 1.3 / 1.01 <= found.rate <= 3_200
    taken_back = [probe for probe in found.probes if "after the load" in probe.reason]
    assert taken_back and taken_back[0].status is ProbeStatus.FELL_BEHIND
    assert bench.starts > 1


def test_what_comes_after_the_search_is_of_the_same_run_and_has_its_rows() -> None:
    bench = Counted(FakeSettings(capacity=5_000, delay_seconds=0.1))

    def half(running: Bench, rate: float) -> None:
        running.trial(Load(schedule=Schedule.steady(rate / 2, 4)))

    shown = find_rate_in_series(bench, QUICK, then=half)
    (latency,) = shown.further
    assert latency.load.schedule.phases[0].rate == shown.found.rate / 2
    assert float(latency.latency.mean()) == pytest.approx(0.1 + 1 / 5_000, rel=0.05)
    assert bench.starts == 1


def test_a_bound_on_latency_has_a_run_for_each_probe() -> None:
    bench = Counted(FakeSettings(capacity=5_000, delay_seconds=0.1))
    found = find_rate_in_series(bench, replace(QUICK, p99_seconds=0.05)).found
    assert found.rate == 0
    assert bench.starts == len(found.probes) > 1


def test_an_estimate_of_a_cold_system_that_was_far_too_low_is_left_behind_by_doubling() -> None:
    class Cold(Counted):
        """Its first load finds it at a tenth of what it can."""

        def trial(self, load: Load) -> Trial:
            self.settings = replace(self.settings, capacity=self._next)
            self._next = 50_000.0
            return super().trial(load)

        _next = 5_000.0

    found = find_rate_in_series(Cold(FakeSettings()), QUICK).found
    assert 50_000 / 1.3 / 1.01 <= found.rate <= 50_000 / (1 - 0.3 / 2) * 1.01
    ramps = [probe for probe in found.probes if probe.status is ProbeStatus.ESTIMATED]
    assert len(ramps) == 1
    assert len(found.probes) <= 9


def test_a_ramp_counts_the_time_that_a_system_works_after_it_was_cut_off() -> None:
    """It takes 9,000/s and computes 3,000/s: its results are not known yet, its work is seen."""

    class Ahead(FakeBench):
        def trial(self, load: Load) -> Trial:
            found = super().trial(load)
            return replace(found, busy_seconds=found.made / 3_000)

    found = find_rate_in_series(Ahead(FakeSettings(capacity=9_000)), QUICK).found
    blind = find_rate_in_series(FakeBench(FakeSettings(capacity=9_000)), QUICK).found
    assert 3_000 / 1.3 < found.probes[0].rate < 3_000 * 1.8
    assert blind.probes[0].rate > 9_000 / 1.3


def test_a_system_that_never_rests_is_searched_again_when_its_rows_say_that_it_kept_up() -> None:
    class Restless(Counted):
        def trial(self, load: Load) -> Trial:
            return replace(super().trial(load), busy_seconds=load.schedule.seconds + 8)

    bench = Restless(FakeSettings(capacity=5_000))
    found = find_rate_in_series(bench, QUICK).found
    assert not found.void
    assert 5_000 / 1.3 / 1.01 <= found.rate <= 5_000 / (1 - 0.3 / 2) * 1.01
    assert bench.starts > 1


class Cold(FakeBench):
    """A fake that does half as much while its first load lasts."""

    def __init__(self, capacity: float) -> None:
        super().__init__(FakeSettings(capacity=capacity))
        self._half = FakeBench(FakeSettings(capacity=capacity / 2))
        self._tried = 0

    def trial(self, load: Load) -> Trial:
        self._tried += 1
        return self._half.trial(load) if self._tried == 1 else super().trial(load)


@pytest.mark.parametrize(("is_cold", "rate"), [(True, 1_000), (False, 1_000 / 1.3)])
def test_the_first_probe_of_a_system_just_started_is_made_again(
    is_cold: bool, rate: float
) -> None:
    near = replace(QUICK, ramp=False, is_near=True, is_cold=is_cold)
    found = find_rate(Cold(1_100), near)
    assert found.rate == pytest.approx(rate)
    statuses = [probe.status for probe in found.probes if probe.rate == 1_000]
    assert statuses[0] is ProbeStatus.FELL_BEHIND
    assert len(statuses) == (2 if is_cold else 1)
