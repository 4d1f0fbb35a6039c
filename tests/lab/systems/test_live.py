"""Trials of systems that read data engines: a counter in this process, and the real ones."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.errors import OptionError
from headrace.lab.data_engine.client import EngineClient
from headrace.lab.data_engine.launch import Feed
from headrace.lab.data_engine.schedule import Schedule
from headrace.lab.experiments.in_series import find_rate_in_series
from headrace.lab.experiments.latency import summed_up
from headrace.lab.experiments.sustainable import Search
from headrace.lab.experiments.trial import Bench, Fault, Load, Patience, Trial, Work
from headrace.lab.experiments.waterfall import waterfall
from headrace.lab.spec import QUESTIONS
from headrace.lab.systems import harm
from headrace.lab.systems.choose import choose
from headrace.lab.systems.harm import python_workers
from headrace.lab.systems.live import LiveBench, LiveSettings
from headrace.lab.systems.system import Outcome, Request
from headrace.lab.systems.usage import Tally
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
    with pytest.raises(OptionError, match="steps of a live system cannot be slowed"):
        bench().trial(Load(schedule=Schedule.steady(10, 1), slowed={"x": 2.0}))


def test_a_fault_that_could_not_be_made_voids_the_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    """The counter has no worker that could be killed; a Spark of other tests may have some."""
    monkeypatch.setattr(harm, "python_workers", lambda _root: {})
    fault = Fault(kind="kill-worker", at_seconds=0.2)
    trial = bench().trial(Load(schedule=Schedule.steady(4_000, 1), fault=fault))
    assert trial.trouble == "the fault kill-worker was not made: no worker was at work at its time"


def test_only_python_below_a_jvm_of_ours_is_a_worker(tmp_path: Path) -> None:
    for pid, name, parent in (
        (10, "python3", 1), (11, "java", 10), (12, "python3", 11), (13, "python3", 12),
        (14, "python3", 10), (15, "bash", 11), (20, "java", 1), (21, "python3", 20),
        # A system's own process, with a JVM and a worker of its own.
        (30, "python3", 10), (31, "java", 30), (32, "bash", 31), (33, "python3", 32),
    ):
        (tmp_path / str(pid)).mkdir()
        rest = " ".join(["0"] * 9)
        (tmp_path / str(pid) / "stat").write_text(f"{pid} ({name}) S {parent} {rest} {pid} 5 0")
    assert python_workers(10, tmp_path) == {13: 18}
    assert python_workers(30, tmp_path) == {33: 38}
    assert python_workers(10, tmp_path / "nowhere") == {}


def test_usage_counts_a_process_without_those_that_are_left_out() -> None:
    here = Tally(os.getpid()).look()
    if here is None:
        pytest.skip("this system shows no processes in /proc")
    assert here.cpu_seconds > 0
    assert here.peak_bytes > 10_000_000
    nobody = Tally(os.getpid(), without=[os.getpid()]).look()
    assert nobody is not None
    assert nobody.cpu_seconds == 0
    assert Tally(os.getpid(), proc=Path("/nowhere")).look() is None


def test_what_a_process_used_still_counts_when_it_has_ended(tmp_path: Path) -> None:
    def shown(pid: int, parent: int, ticks: int) -> None:
        (tmp_path / str(pid)).mkdir(exist_ok=True)
        stat = ["S", str(parent), *["0"] * 9, str(ticks), "0", "0", "0"]
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (x) {' '.join(stat)}")
        (tmp_path / str(pid) / "status").write_text("VmHWM:\t1024 kB\n")

    shown(1, 0, 100)
    shown(2, 1, 700)
    tally = Tally(1, proc=tmp_path)
    tally.look()
    shown(1, 0, 200)
    for path in (tmp_path / "2").iterdir():
        path.unlink()
    (tmp_path / "2").rmdir()
    found = tally.look()
    assert found is not None
    assert found.cpu_seconds == 900 / os.sysconf("SC_CLK_TCK")
    assert found.peak_bytes == 2 * 2**20


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
