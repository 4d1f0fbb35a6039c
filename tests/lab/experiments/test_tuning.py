"""Ramps, bounds on latency and tuning, on a system whose figures are set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import OptionError
from headrace.lab.data_engine.queue import LATE
from headrace.lab.experiments.fake import FakeBench, FakeSettings
from headrace.lab.experiments.ramp import Ramp, estimated
from headrace.lab.experiments.sustainable import ProbeStatus, Search, find_rate
from headrace.lab.experiments.tuning import tune
from headrace.lab.measure import Measuring
from headrace.lab.record.trial import Load, Patience, Trial
from headrace.lab.spec import read_spec

#: As short as `make lab` has it.
SHORT = Search(
    first_rate=1_000, probe_seconds=6, confirm_seconds=6, precision=0.3, ramp=True,
    patience=Patience(acceptable_seconds=0.5, limit_seconds=2),
)


@settings(max_examples=20, deadline=None)
@given(st.floats(500, 9_000), st.sampled_from([0.0, 0.5]))
def test_a_ramp_estimates_the_capacity(capacity: float, epoch: float) -> None:
    ramp = Ramp(first_rate=200, steps=15)
    bench = FakeBench(FakeSettings(capacity=capacity, epoch_seconds=epoch))
    trial = bench.trial(ramp.load())
    assert estimated(trial, ramp) == pytest.approx(capacity, rel=0.2)


def test_a_ramp_that_is_kept_up_with_gives_its_last_rate() -> None:
    ramp = Ramp(first_rate=100, steps=5)
    trial = FakeBench(FakeSettings(capacity=1e6)).trial(ramp.load())
    assert not trial.unsustained
    assert estimated(trial, ramp) == pytest.approx(100 * 1.6**4)


def test_a_search_after_a_ramp_takes_few_probes_and_finds_the_rate() -> None:
    for capacity in (1_300, 5_000, 21_000):
        found = find_rate(FakeBench(FakeSettings(capacity=capacity)), SHORT)
        assert not found.void
        # So short a probe lets pass what is half the precision too much.
        assert capacity / 1.35 <= found.rate <= capacity * 1.2
        assert found.probes[0].status is ProbeStatus.ESTIMATED
        assert len(found.probes) <= 5
        # One that kept up and one that did not, so near each other, are the figure.
        behind = [p.rate for p in found.probes if p.status is ProbeStatus.FELL_BEHIND]
        assert min(behind) <= found.rate * 1.31
        assert found.confirmation is not None
        assert found.confirmation.load.schedule.phases[0].rate == found.rate


def test_a_search_after_a_ramp_is_as_exact_as_it_is_told() -> None:
    search = replace(SHORT, precision=0.02, probe_seconds=20, confirm_seconds=60)
    found = find_rate(FakeBench(FakeSettings(capacity=7_000)), search)
    assert found.rate == pytest.approx(7_000, rel=0.05)


def test_a_wrong_answer_in_a_ramp_voids_the_search() -> None:
    found = find_rate(FakeBench(FakeSettings(capacity=5_000, drop_every=1_000)), SHORT)
    assert found.rate == 0
    assert found.void.startswith("in a ramp: wrong answer")


class AtTheEnd(FakeBench):
    """Takes events at once, and works them through when all have come: its queue is never long."""

    def trial(self, load: Load) -> Trial:
        trial = super().trial(replace(load, patience=None))
        work = np.arange(1, trial.made + 1) / self.settings.capacity
        left = load.schedule.seconds + work
        return replace(
            trial, left=left, stages={}, queue_lengths=np.zeros_like(trial.queue_lengths)
        )


def test_a_system_that_computes_after_the_load_has_not_kept_up() -> None:
    search = replace(SHORT, ramp=False, precision=0.05, first_rate=500)
    patience = Patience(acceptable_seconds=0.5, limit_seconds=2, drain_seconds=3)
    found = find_rate(AtTheEnd(FakeSettings(capacity=4_000)), replace(search, patience=patience))
    # What it can work through in 3 s, it may have got in 6.
    assert found.rate == pytest.approx(4_000 * 3 / 6, rel=0.06)
    assert any("s after the load" in probe.reason for probe in found.probes)


def test_a_rate_whose_latency_is_above_the_bound_is_not_sustained() -> None:
    slow = FakeSettings(capacity=5_000, delay_seconds=0.8)
    assert find_rate(FakeBench(slow), replace(SHORT, p99_seconds=1.0)).rate > 3_500
    found = find_rate(FakeBench(slow), replace(SHORT, p99_seconds=0.5))
    assert found.rate == 0
    assert found.probes[-1].reason == "p99 0.80 s, above the bound of 0.5 s"


CANDIDATES: tuple[Mapping[str, Any], ...] = (
    {}, {"capacity": 9_000.0, "delay_seconds": 3.0}, {"capacity": 8_000.0},
    {"capacity": 3_000.0}, {"capacity": 20_000.0, "drop_every": 500},
)


def test_tuning_chooses_the_highest_rate_within_the_bound_and_says_why_not_the_others() -> None:
    fake = FakeBench(FakeSettings(capacity=5_000))
    heard = []
    found = tune(
        lambda changes: fake.asked("count", changes), CANDIDATES,
        replace(SHORT, p99_seconds=1.0, precision=0.2),
        told=lambda each, probe: heard.append((dict(each), probe.rate)),
    )
    assert found.settings == {"capacity": 8_000.0}
    assert 8_000 / 1.25 <= found.rate <= 8_800
    first, slow, best, weak, wrong = found.tried
    assert 3_900 <= first.rate <= 5_500
    assert (slow.rate, weak.rate, wrong.rate) == (0, 0, 0)
    assert "p99 3.00 s, above the bound of 1 s" in slow.said
    assert weak.said.startswith("at ")
    assert "wrong answer" in wrong.said
    # One that is no better costs one run.
    assert len([each for each, _ in heard if each == CANDIDATES[3]]) == 1


def test_tuning_that_finds_nothing_keeps_the_first_settings() -> None:
    fake = FakeBench(FakeSettings(capacity=5_000, delay_seconds=9.0))
    found = tune(
        lambda changes: fake.asked("count", changes), ({}, {"capacity": 9_000.0}),
        replace(SHORT, p99_seconds=1.0),
    )
    assert (found.settings, found.rate) == ({}, 0)
    with pytest.raises(OptionError, match="no settings to choose from"):
        tune(lambda _changes: fake, (), SHORT)
    with pytest.raises(OptionError, match="a fake has no setting 'per_batch'"):
        fake.asked("count", {"per_batch": 2})


class Limited:
    """A system behind a data engine that can send so many events a second and no more."""

    name = "limited"

    def __init__(self, capacity: float, most: float) -> None:
        self._bench, self._most = FakeBench(FakeSettings(capacity=capacity)), most

    def trial(self, load: Load) -> Trial:
        trial = self._bench.trial(load)
        late = load.schedule.phases[0].rate > self._most
        return replace(trial, void=f"{LATE} 0.60 s behind its own schedule") if late else trial


def test_a_system_that_can_do_more_than_can_be_sent_has_its_least_figure() -> None:
    search = replace(SHORT, ramp=False, first_rate=1_000, precision=0.1)
    found = find_rate(Limited(50_000, 9_000), search)
    assert found.is_least
    assert not found.void
    assert 8_000 <= found.rate <= 9_000
    slower = find_rate(Limited(5_000, 9_000), search)
    assert not slower.is_least
    assert slower.rate == pytest.approx(5_000, rel=0.2)
    # Nothing was sustained before: the figure is void, as ever.
    never = find_rate(Limited(50_000, 500), search)
    assert never.void.startswith("at 1,000 events/s: the data engine was")


def test_what_is_the_least_has_no_upper_bound_in_the_summary() -> None:
    spec = read_spec("[systems.fake]\ncapacity = 50000\n[sustainable]\nprobe_seconds = 12\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headrace.lab.measure.bench_of", lambda _spec: Asked(50_000, 9_000))
        measuring = Measuring(spec)
        measuring.run()
    (figure,) = measuring.figures
    assert figure.value is not None and 8_000 <= figure.value <= 9_000
    assert figure.high == float("inf")


class Asked(Limited):
    """The same, whatever it is asked."""

    def asked(self, question: str, changes: Mapping[str, Any] | None = None) -> Limited:
        del question, changes
        return self

    def stop(self) -> None:
        """Nothing was started."""


class Behind(Limited):
    """Falls behind at any rate, as a system whose epochs take longer than a queue may be long."""

    def trial(self, load: Load) -> Trial:
        return replace(self._bench.trial(load), unsustained="above 1 for 2 looks in a row")


def test_a_system_that_falls_behind_at_any_rate_is_soon_given_up_after_a_ramp() -> None:
    found = find_rate(Behind(5_000, 1e9), SHORT)
    assert found.rate == 0
    assert 5 <= len(found.probes) <= 9
