"""Trials of systems that read data engines: a counter in this process, and the real ones."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from headrace.errors import OptionError
from headrace.lab.data_engine.client import EngineClient
from headrace.lab.data_engine.launch import Feed
from headrace.lab.data_engine.schedule import Schedule
from headrace.lab.experiments.costs import measure_growth
from headrace.lab.experiments.in_series import find_rate_in_series
from headrace.lab.experiments.latency import summed_up
from headrace.lab.experiments.sustainable import Search
from headrace.lab.experiments.waterfall import waterfall
from headrace.lab.meter import Process
from headrace.lab.record.trial import Bench, Fault, Load, Patience, Trial, Work
from headrace.lab.spec import QUESTIONS
from headrace.lab.systems import harm
from headrace.lab.systems.choose import choose
from headrace.lab.systems.harm import python_workers
from headrace.lab.systems.live import LiveBench, LiveSettings
from headrace.lab.systems.started import Started
from headrace.lab.systems.system import Glance, Outcome, Request, checkpoint_of
from headrace.lab.systems.usage import Tally, spent
from headrace.lab.workload import Mode, Row

#: Every question on every system: minutes.
SLOW = "HEADRACE_SLOW" in os.environ


class Counting:
    """Counts in plain Python, so many events a second, and hands rows out after a delay."""

    name = "counting"

    def __init__(
        self, *, delay: float = 0.0, capacity: float = 1e9, harm: str = "none"
    ) -> None:
        self._delay, self._capacity, self._harm = delay, capacity, harm

    def prepare(self, request: Request) -> None:
        """Nothing is to be started."""

    def stop(self) -> None:
        """Nothing was started."""

    def run(self, request: Request) -> Outcome:
        if self._harm == "raise":
            msg = "out of order"
            raise RuntimeError(msg)
        (address,) = Feed.read(request.source.path).addresses
        size = request.settings.window_ms
        counts: Counter[tuple[int, int]] = Counter()
        lasts: dict[tuple[int, int], int] = {}
        out: list[tuple[float, tuple[Row, ...]]] = []
        at, before, allowed = 0, time.monotonic(), 0.0
        with EngineClient(address) as client:
            while True:
                now = time.monotonic()
                # What was not used within a tenth of a second is gone: no credit for idle times.
                spare = self._capacity * 0.1
                allowed, before = min(spare, allowed + (now - before) * self._capacity), now
                batches, status = client.pull(at, int(min(allowed, 100_000)), wait=0.02)
                allowed -= sum(batch.num_rows for batch in batches)
                for batch in batches:
                    at += batch.num_rows
                    millis = batch.column("nanos").to_numpy() // 1_000_000 // size * size
                    keys, numbers = (batch.column(n).to_pylist() for n in ("key", "number"))
                    for place, number in zip(
                        zip(millis.tolist(), keys, strict=True), numbers, strict=True
                    ):
                        counts[place] += 1
                        lasts[place] = number
                client.acknowledge(at)
                done = status.ended and at >= status.total
                newest = max((window for window, _ in counts), default=0)
                ready = [place for place in counts if place[0] < newest or done]
                rows = tuple((*place, counts.pop(place), lasts[place]) for place in ready)
                if rows:
                    out.append((time.time() + self._delay, self._harmed(rows)))
                if done:
                    return Outcome(
                        system=self.name, engine="a loop", mode=Mode.STREAMING, events=at,
                        seconds=1.0, rows=None, row_count=None, stamped=tuple(out),
                    )
                if not batches:
                    time.sleep(0.005)

    def _harmed(self, rows: tuple[Row, ...]) -> tuple[Row, ...]:
        if self._harm == "double":
            return (*rows, rows[0])
        return rows[1:] if self._harm == "drop" else rows


def bench(**how: Any) -> LiveBench:
    settings = LiveSettings(keys=4, window_ms=250, warm_seconds=0.5)
    return LiveBench("counting", settings, Counting(**how))


def load(rate: float = 4_000, seconds: float = 3, patience: Patience | None = None) -> Load:
    return Load(schedule=Schedule.steady(rate, seconds), patience=patience)


def test_a_right_answer_has_latencies_from_the_intended_time_of_sending() -> None:
    trial = bench(delay=0.5).trial(load())
    assert not trial.trouble
    assert not trial.unsustained
    assert trial.engine == "a loop"
    # Windows of the load alone, four keys each; the last one may not be over.
    assert 11 * 4 <= len(trial.due) <= 12 * 4
    found = summed_up(4_000, [trial])
    # The delay, and what it takes to see the next window's first event; a busy machine adds to it.
    assert 0.5 <= found.at(0.5).value < 1.0
    assert float(trial.latency.min()) >= 0.5
    stages = {stage.name: stage.seconds for stage in waterfall(trial)}
    assert stages["other"] >= 0.45
    assert 0 <= stages["queue"] < 0.5
    assert trial.cost.engine_cpu_seconds is not None


@pytest.mark.parametrize(("harm", "said"), [
    ("double", "0 rows missing"), ("drop", "0 too many"), ("raise", "RuntimeError: out of order"),
])
def test_a_system_that_loses_doubles_or_raises_has_a_void_trial(harm: str, said: str) -> None:
    assert said in bench(harm=harm).trial(load(seconds=1)).trouble


def test_a_system_that_is_too_slow_is_cut_off_and_still_checked() -> None:
    patience = Patience(acceptable_seconds=0.25, limit_seconds=0.5)
    trial = bench(capacity=1_500).trial(load(seconds=6, patience=patience))
    assert trial.unsustained
    assert not trial.trouble
    assert trial.made < 20_000
    assert int(trial.queue_lengths.max()) > 1_000


def test_what_cannot_be_done_to_a_live_system_is_refused() -> None:
    asked = Load(schedule=Schedule.steady(10, 1), fault=Fault(kind="outage", at_seconds=1))
    with pytest.raises(OptionError, match="cannot be given the fault 'outage': kill-worker"):
        bench().trial(asked)
    with pytest.raises(OptionError, match="its steps cannot be slowed; those of headrace can"):
        bench().paced({"Key": 2.0})
    with pytest.raises(OptionError, match="how to make the step 'Key' faster: its cost is not"):
        LiveBench("headrace", SMALL).paced({"Key": 0.5})
    with pytest.raises(OptionError, match="set cost are those of the question filter, not of cou"):
        LiveBench("headrace", LiveSettings(costs=(("Parse", 10.0),))).asked("count")
    with pytest.raises(OptionError, match="pyflink has no steps of a set cost; headrace, direct"):
        LiveBench("pyflink", LiveSettings(costs=(("Parse", 10.0),)))


def test_a_fault_that_could_not_be_made_voids_the_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    """The counter has no worker that could be killed; a Spark of other tests may have some."""
    monkeypatch.setattr(harm, "python_workers", lambda _root: {})
    fault = Fault(kind="kill-worker", at_seconds=0.2)
    trial = bench().trial(Load(schedule=Schedule.steady(4_000, 1), fault=fault))
    assert trial.trouble == "the fault kill-worker was not made: no worker was at work at its time"


def process(pid: int, parent: int, command: str, seconds: float) -> Process:
    return Process(
        pid=pid, parent=parent, command=command, own_seconds=seconds, cpu_seconds=seconds + 100.0
    )


def test_only_python_below_a_jvm_of_ours_is_a_worker() -> None:
    found = [process(pid, parent, name, pid + 5.0) for pid, name, parent in (
        (10, "python3", 1), (11, "java", 10), (12, "python3", 11), (13, "python3", 12),
        (14, "python3", 10), (15, "bash", 11), (20, "java", 1), (21, "python3", 20),
        # A system's own process, with a JVM and a worker of its own.
        (30, "python3", 10), (31, "java", 30), (32, "bash", 31), (33, "python3", 32),
    )]
    assert python_workers(10, found) == {13: 18.0}
    assert python_workers(30, found) == {33: 38.0}
    assert python_workers(40, found) == {}


def test_usage_counts_a_process_without_those_that_are_left_out() -> None:
    here = Tally(os.getpid()).look()
    assert here is not None
    assert here.cpu_seconds > 0
    nobody = Tally(os.getpid(), without=[os.getpid()]).look()
    assert nobody is not None
    assert nobody.cpu_seconds == 0
    assert Tally(os.getpid(), processes=list).look() is None


def test_what_the_left_out_have_started_is_left_out_too() -> None:
    found = [process(1, 0, "x", 1.0), process(2, 1, "x", 20.0), process(3, 2, "x", 300.0),
             process(4, 1, "x", 4_000.0), process(5, 0, "x", 50_000.0)]
    tally = Tally(1, without=[2], processes=lambda: found, peak=lambda pid: pid)
    used = tally.look()
    assert used is not None
    assert (used.cpu_seconds, used.peak_bytes) == (4_001.0, 5)


def test_what_is_used_is_told_by_part() -> None:
    found = [process(1, 0, "python3", 5)]
    tally = Tally(1, without=[6], processes=lambda: found)
    before = tally.look()
    found[:] = [
        process(1, 0, "python3", 7), process(2, 1, "java", 11), process(3, 2, "python3", 1),
        process(4, 3, "python3 (x)", 13), process(5, 1, "bash", 3), process(6, 1, "python3", 99),
    ]
    used, parts = spent(before, tally.look())
    assert parts == {"driver": 2, "jvm": 11, "workers": 14, "other": 3}
    assert used == 30
    assert spent(before, None) == (None, {})


def test_memory_that_the_lab_has_held_since_before_is_no_systems() -> None:
    before = bytearray(os.urandom(1)) * 300_000_000
    others = [child.pid for child in psutil.Process().children()]  # a JVM of other tests
    tally = Tally(os.getpid(), without=others)
    added = bytearray(os.urandom(1)) * 80_000_000
    found = tally.look()
    if found is None or found.peak_bytes is None:
        pytest.skip("this system keeps no high-water mark of memory")
    assert 80_000_000 <= found.peak_bytes < 250_000_000
    assert len(before) > len(added)


def test_the_jvm_of_spark_is_none_of_a_system_that_does_not_run_on_spark(tmp_path: Path) -> None:
    """Beam's local runner was told to hold the memory of a JVM that stood idle beside it."""
    shutil.copy("/bin/sleep", tmp_path / "java")
    jvm = subprocess.Popen([str(tmp_path / "java"), "60"])
    try:
        here = os.getpid()
        assert jvm.pid in Started("direct", None).others(here)
        assert jvm.pid not in Started("headrace", None).others(here)
        assert jvm.pid not in Started("spark", None).others(here)
        # A system in a process of its own has its JVM below that.
        assert jvm.pid not in Started("pyflink", None).others(here + 1)
    finally:
        jvm.kill()
        jvm.wait()


def test_what_a_process_used_still_counts_when_it_has_ended() -> None:
    shown = [process(1, 0, "x", 1.0), process(2, 1, "x", 7.0)]
    tally = Tally(1, processes=lambda: shown, peak=lambda _pid: 2**20)
    tally.look()
    shown = [process(1, 0, "x", 2.0)]
    used = tally.look()
    assert used is not None
    assert (used.cpu_seconds, used.peak_bytes) == (9.0, 2 * 2**20)


def test_a_peak_that_nobody_keeps_is_not_known() -> None:
    shown = [process(1, 0, "x", 1.0)]
    tally = Tally(1, processes=lambda: shown, peak=lambda _pid: 0)
    used = tally.look()
    assert used is not None
    assert (used.cpu_seconds, used.peak_bytes) == (1.0, None)


SMALL = LiveSettings(keys=4, window_ms=500, warm_seconds=2, panes=3, one_in=7, every=25)


def test_a_question_of_order_wants_one_data_engine() -> None:
    with pytest.raises(OptionError, match="the question state depends on order"):
        LiveBench("direct", SMALL).asked("state", {"partitions": 2})
    with pytest.raises(OptionError, match="there is no question 'join'"):
        LiveBench("direct", SMALL).asked("join")
    with pytest.raises(OptionError, match="direct has no setting 'shard'"):
        LiveBench("direct", SMALL).asked("count", {"shard": 2})


@pytest.mark.parametrize("question", QUESTIONS if SLOW else ["count", "state"])
def test_beams_local_runner_answers_right(question: str) -> None:
    bench = LiveBench("direct", SMALL).asked(question, {"warm_seconds": 0.5})
    trial = bench.trial(load(rate=1_000, seconds=2))
    assert not trial.trouble
    assert "FnApiRunner" in trial.engine
    assert len(trial.due) >= 3 * 4


@pytest.mark.spark
def test_headrace_survives_the_kill_of_a_worker_with_a_right_answer(spark: Any) -> None:
    settings = LiveSettings(keys=4, window_ms=500, warm_seconds=4)
    fault = Fault(kind="kill-worker", at_seconds=3)
    asked = Load(schedule=Schedule.steady(2_000, 8), fault=fault)
    trial = LiveBench("headrace", settings, choose("headrace", spark)).trial(asked)
    assert not trial.trouble
    assert float(trial.left.max()) > fault.at_seconds


@pytest.mark.spark
@pytest.mark.parametrize("name", ["headrace", "spark"] if SLOW else ["headrace"])
@pytest.mark.parametrize("question", QUESTIONS if SLOW else ["state"])
def test_headrace_and_spark_answer_every_question_right(
    spark: Any, name: str, question: str
) -> None:
    bench = LiveBench(name, SMALL, choose(name, spark), question)
    trial = bench.trial(load(rate=1_000, seconds=4))
    assert not trial.trouble
    assert len(trial.due) >= 3 * 4


@pytest.mark.spark
def test_headrace_with_slow_and_fast_steps_answers_right(spark: Any) -> None:
    settings = LiveSettings(
        keys=4, warm_seconds=1, one_in=5, costs=(("Parse", 50.0), ("Match", 100.0))
    )
    bench = LiveBench("headrace", settings, choose("headrace", spark), "filter")
    trial = bench.paced({"Parse": 2.0, "Match": 0.5}).trial(load(rate=1_000, seconds=3))
    assert not trial.trouble
    assert len(trial.due) > 400


@pytest.mark.spark
@pytest.mark.parametrize("name", ["headrace", "spark"] if SLOW else ["spark"])
def test_headrace_and_spark_read_the_same_engines_and_answer_right(spark: Any, name: str) -> None:
    settings = LiveSettings(keys=4, window_ms=500, warm_seconds=2, partitions=2)
    trial = LiveBench(name, settings, choose(name, spark)).trial(load(rate=2_000, seconds=4))
    assert not trial.trouble
    assert len(trial.due) >= 4 * 4
    assert np.all(trial.latency > 0)


def test_a_load_waits_for_a_system_that_takes_long_to_start() -> None:
    class Sleepy(Counting):
        def run(self, request: Request) -> Outcome:
            (address,) = Feed.read(request.source.path).addresses
            with EngineClient(address) as client:
                client.offer()  # the schedule begins, and the first epoch is planned
            time.sleep(3)
            return super().run(request)

    settings = LiveSettings(keys=4, window_ms=250, warm_seconds=0.5)
    patience = Patience(acceptable_seconds=0.5, limit_seconds=1.0)
    trial = LiveBench("counting", settings, Sleepy()).trial(load(seconds=2, patience=patience))
    assert not trial.trouble
    assert not trial.unsustained
    assert trial.made == 4_000 * 2
    assert float(trial.latency.max()) < 2  # what it slept is no latency
    assert np.all(np.diff(trial.queue_seconds) > 0)


class Growing(Counting):
    """The counter, which tells of a state that grows by 40,000 bytes a second, and writes files."""

    def run(self, request: Request) -> Outcome:
        began, folder = time.time(), checkpoint_of(request)
        folder.mkdir()

        def look() -> Glance:
            (folder / f"{time.time_ns()}").write_bytes(b"x" * 3_000)  # twice a second
            return Glance(state_bytes=int((time.time() - began) * 40_000))

        with request.watch(look):
            return super().run(request)


def test_the_growth_of_the_state_and_of_the_checkpoint_is_seen_while_a_system_runs() -> None:
    settings = LiveSettings(keys=4, window_ms=250, warm_seconds=0.5)
    growing = measure_growth(LiveBench("counting", settings, Growing()), rate=2_000, seconds=5)
    assert not growing.void
    assert growing.state is not None and growing.checkpoint is not None
    assert growing.state.slope.value == pytest.approx(40_000, rel=0.1)
    assert growing.checkpoint.slope.value == pytest.approx(6_000, rel=0.3)
    silent = measure_growth(bench(), rate=2_000, seconds=2)
    assert silent.void == "the state was not looked at"


@pytest.mark.spark
@pytest.mark.parametrize("name", ["headrace", "spark"] if SLOW else ["headrace"])
def test_the_growth_of_a_state_of_sparks_is_seen(spark: Any, name: str) -> None:
    bench = LiveBench(name, SMALL, choose(name, spark), "state")
    found = measure_growth(bench, rate=1_000, seconds=6)
    assert not found.void
    assert found.state is not None and found.checkpoint is not None
    # Four keys have a few bytes of state each; the checkpoint holds them, and old files of it go.
    assert 0 < found.trial.state_bytes.max() < 1_000_000
    assert found.trial.checkpoint_bytes.min() > 0


class Running(Counting):
    """The counter, which gives its rows while it runs."""

    answers_while_running = True


def in_series(capacity: float, work: Work, harm: str = "none") -> tuple[Trial, ...]:
    settings = LiveSettings(keys=4, window_ms=250, warm_seconds=0.3)
    bench = LiveBench("counting", settings, Running(capacity=capacity, delay=0.2, harm=harm))
    return bench.series(work, 2_000)


def test_a_series_has_the_figures_of_each_load_and_starts_the_system_once() -> None:
    told: list[Trial] = []
    patience = Patience(acceptable_seconds=0.25, limit_seconds=0.5)

    def work(running: Bench) -> None:
        for rate, seconds in ((2_000, 2), (9_000, 6), (1_000, 2)):
            told.append(running.trial(load(rate, seconds, patience)))

    trials = in_series(3_000, work)
    assert [bool(trial.unsustained) for trial in told] == [False, True, False]
    assert [bool(trial.unsustained) for trial in trials] == [False, True, False]
    assert not any(trial.trouble for trial in trials)
    assert all(len(trial.due) == 0 for trial in told)  # nobody has rows before the end
    for trial, rate in zip(trials, (2_000, 9_000, 1_000), strict=True):
        assert trial.engine == "a loop"
        assert trial.verdict.rows > 0
        assert np.all((trial.due >= 0) & (trial.due <= trial.load.schedule.seconds))
        assert float(trial.latency.min()) >= 0.2
        assert trial.load.schedule.phases[0].rate == rate
    assert trials[0].made == 4_000 and trials[2].made == 2_000
    assert trials[1].made < 40_000
    # Seven of eight windows are over when a load of two seconds ends; four keys each.
    assert 6 * 4 <= len(trials[0].due) <= 8 * 4
    # The clock of a load is its own: what the one before had queued is no latency of the next.
    assert float(trials[2].latency.max()) < 1.5
    assert int(trials[1].queue_lengths.max()) > 2_000 > int(trials[2].queue_lengths.max())


@pytest.mark.parametrize(("harm", "said"), [
    ("double", "0 rows missing"), ("drop", "0 too many"), ("raise", "RuntimeError: out of order"),
])
def test_a_series_of_a_system_that_loses_doubles_or_raises_is_void(harm: str, said: str) -> None:
    def work(running: Bench) -> None:
        running.trial(load(2_000, 1))

    assert said in in_series(1e9, work, harm)[0].trouble


def test_a_search_in_series_finds_what_a_live_system_was_given() -> None:
    search = Search(
        first_rate=500, ramp=True, precision=0.3, probe_seconds=3, confirm_seconds=3,
        patience=Patience(acceptable_seconds=0.5, limit_seconds=1, drain_seconds=3),
    )
    settings = LiveSettings(keys=4, window_ms=250, warm_seconds=0.3)
    bench = LiveBench("counting", settings, Running(capacity=6_000))
    found = find_rate_in_series(bench, search).found
    assert not found.void
    assert 6_000 / 1.3 / 1.1 <= found.rate <= 6_000 / 0.85 * 1.1
    assert found.confirmation is not None and len(found.confirmation.left)


def test_a_system_that_answers_at_its_end_has_a_run_for_each_load() -> None:
    def work(running: Bench) -> None:
        for rate in (2_000, 3_000):
            assert len(running.trial(load(rate, 1)).due)

    assert [trial.made for trial in bench().series(work, 2_000)] == [2_000, 3_000]


@pytest.mark.spark
@pytest.mark.parametrize("name", ["headrace", "spark"] if SLOW else ["headrace"])
@pytest.mark.parametrize("question", QUESTIONS if SLOW else ["count"])
def test_headrace_and_spark_are_put_under_two_loads_in_one_run(
    spark: Any, name: str, question: str
) -> None:
    def work(running: Bench) -> None:
        for rate in (1_000, 3_000):
            running.trial(load(rate, 3))

    bench = LiveBench(name, SMALL, choose(name, spark), question)
    first, second = bench.series(work, 1_000)
    assert not first.trouble and not second.trouble
    assert (first.made, second.made) == (3_000, 9_000)
    for trial in (first, second):
        assert len(trial.due) >= 2 * 4
        assert np.all(trial.latency > 0)
    assert first.engine == second.engine
