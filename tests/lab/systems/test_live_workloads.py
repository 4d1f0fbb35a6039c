"""Workloads asked of live systems: one in this process, and the real ones."""

from __future__ import annotations

import os
import time
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.errors import OptionError
from headrace.lab.data_engine.client import EngineClient
from headrace.lab.data_engine.launch import Feed
from headrace.lab.data_engine.schedule import Schedule
from headrace.lab.experiments.in_series import find_rate_in_series
from headrace.lab.experiments.latency import summed_up
from headrace.lab.experiments.sustainable import Search
from headrace.lab.live.facts import FACTS
from headrace.lab.measure import Measuring
from headrace.lab.record.trial import Bench, Load, Patience, RefusedError, Trial
from headrace.lab.results.summary import REFUSED
from headrace.lab.spec import only, read_spec
from headrace.lab.systems.choose import choose
from headrace.lab.systems.live import LiveBench, LiveSettings
from headrace.lab.systems.system import Outcome, Request
from headrace.lab.workload import Mode

#: Every workload on both systems: minutes.
SLOW = "HEADRACE_SLOW" in os.environ
AGGREGATION = "windowed:aggregation"


class Averaging:
    """Answers `windowed:aggregation` with a dictionary, and hands each second's windows out."""

    name = "averaging"
    answers_while_running = True

    def __init__(self, harm: str = "none", delay: float = 0.0) -> None:
        self._harm, self._delay = harm, delay

    def prepare(self, request: Request) -> None:
        """Nothing is to be started."""

    def stop(self) -> None:
        """Nothing was started."""

    def run(self, request: Request) -> Outcome:
        (address,) = Feed.read(request.source.path).addresses
        counts: Counter[tuple[int, int]] = Counter()
        sums: Counter[tuple[int, int]] = Counter()
        out: list[tuple[float, pa.Table]] = []
        at, newest = 0, 0
        with EngineClient(address) as client:
            while True:
                batches, status = client.pull(at, 100_000, wait=0.02)
                for batch in batches:
                    at += batch.num_rows
                    seconds = (batch.column("nanos").to_numpy() // 1_000_000_000).tolist()
                    keys, values = (batch.column(n).to_pylist() for n in ("key", "value"))
                    for second, key, value in zip(seconds, keys, values, strict=True):
                        for start in (second - 1, second):
                            counts[start, key] += 1
                            sums[start, key] += value
                        newest = max(newest, second)
                client.acknowledge(at)
                done = status.ended and at >= status.total
                ready = [place for place in counts if done or place[0] + 2 <= newest]
                rows = [
                    (key, start * 1_000, sums[start, key] / counts[start, key], counts[start, key])
                    for start, key in ready
                ]
                for place in ready:
                    del counts[place]
                if rows:
                    out.append((time.time() + self._delay, self._table(rows)))
                if done:
                    return Outcome(
                        system=self.name, engine="a loop", mode=Mode.STREAMING, events=at,
                        seconds=1.0, rows=None, row_count=None, tables=tuple(out),
                    )
                if not batches:
                    time.sleep(0.005)

    def _table(self, rows: list[tuple[int, int, float, int]]) -> pa.Table:
        if self._harm == "double":
            rows = [*rows, rows[0]]
        if self._harm == "drop":
            rows = rows[1:]
        if self._harm == "wrong":
            key, start, average, count = rows[0]
            rows[0] = (key, start, average, count + 1)
        columns = zip(*rows, strict=True)
        names = ("key", "window_start", "average", "count")
        return pa.table(dict(zip(names, map(list, columns), strict=True)))


def bench(**how: Any) -> LiveBench:
    return LiveBench("averaging", LiveSettings(warm_seconds=0.5), Averaging(**how), AGGREGATION)


def load(rate: float = 2_000, seconds: float = 5) -> Load:
    return Load(schedule=Schedule.steady(rate, seconds))


def test_results_of_windows_are_as_old_as_the_time_since_the_end_of_the_window() -> None:
    trial = bench(delay=0.5).trial(load())
    assert not trial.trouble
    assert trial.made == 10_000
    # Windows of two seconds end every second, at half seconds of the load: 160 keys have each.
    assert set(np.round(trial.due, 3).tolist()) <= {0.5, 1.5, 2.5, 3.5, 4.5}
    assert len(trial.due) > 3 * 150
    assert float(trial.latency.min()) >= 0.5
    assert summed_up(2_000, [trial]).at(0.5).value < 2.0


@pytest.mark.parametrize(("harm", "said"), [
    ("double", "wrong answer: 0 rows missing"), ("drop", "0 too many"), ("wrong", "wrong answer"),
])
def test_a_lost_doubled_or_wrong_row_voids_a_probe_and_the_search(harm: str, said: str) -> None:
    assert said in bench(harm=harm).trial(load()).trouble
    search = Search(
        first_rate=1_000, precision=0.9, probe_seconds=4, confirm_seconds=4,
        patience=Patience(acceptable_seconds=1, limit_seconds=2), most_probes=2,
    )
    found = find_rate_in_series(bench(harm=harm), search).found
    assert "wrong answer" in found.void or "no rate was found in 2 probes" in found.void
    assert not found.rate


def test_a_series_deals_rows_to_the_loads_in_which_their_windows_end() -> None:
    def work(running: Bench) -> None:
        for rate in (2_000, 4_000):
            running.trial(load(rate, 4))

    first, second = bench(delay=0.2).series(work, 2_000)
    assert not first.trouble and not second.trouble
    for trial in (first, second):
        assert trial.verdict.expected > 2 * 150
        assert len(trial.due) > 2 * 150
        assert float(trial.due.min()) >= 0 and float(trial.due.max()) <= 4
        assert 0.2 <= float(trial.latency.min())
        assert float(trial.latency.max()) < 3.5  # the rest between two loads is nobody's latency


def test_what_has_no_date_has_a_void_latency_with_the_reason() -> None:
    trial = bench().trial(load(seconds=2))
    nothing = np.zeros(0)
    undated = Trial(
        system="x", engine="", load=trial.load, verdict=trial.verdict, made=1, due=nothing,
        left=nothing, undated=FACTS["nexmark:q12"].undated,
    )
    assert summed_up(1.0, [undated]).void.startswith("the clock of a system decides")


def test_who_cannot_be_asked_a_workload_says_why() -> None:
    with pytest.raises(RefusedError, match="workloads are asked of headrace and spark"):
        LiveBench("direct", LiveSettings()).asked("nexmark:q1")
    with pytest.raises(RefusedError, match="answer it: Spark has no trigger by processing time"):
        LiveBench("spark", LiveSettings()).asked("nexmark:q12")
    with pytest.raises(OptionError, match="no question 'nexmark:q99'; of workloads there are"):
        LiveBench("spark", LiveSettings()).asked("nexmark:q99")
    with pytest.raises(OptionError, match="depends on order; set partitions = 1"):
        LiveBench("spark", LiveSettings()).asked("nexmark:q1", {"partitions": 2})


SPEC = """
questions = ["nexmark:q1", "nexmark:q12"]
[systems.fake]
[systems.direct]
[sustainable]
probe_seconds = 12
confirm_seconds = 12
[fault]
questions = ["nexmark:q1"]
"""


def test_a_question_that_is_refused_is_a_figure_with_the_reason() -> None:
    measuring = Measuring(read_spec(SPEC.partition("[fault]")[0]))
    measuring.run()
    rates = {(f.system, f.question): f for f in measuring.figures if f.name == "rate"}
    for question in ("nexmark:q1", "nexmark:q12"):
        assert rates["fake", question].value
        assert rates["direct", question].void.startswith(f"{REFUSED}workloads are asked of")


def test_some_of_the_questions_of_a_spec_can_be_asked() -> None:
    spec = read_spec(SPEC)
    assert only(spec, ["nexmark:q1"]).questions == ("nexmark:q1",)
    assert list(only(spec, ["nexmark:q1"]).experiments) == ["sustainable", "fault"]
    few = only(spec, ["nexmark:q12"])
    assert (few.questions, list(few.experiments)) == (("nexmark:q12",), ["sustainable"])
    assert few.text.startswith("# only: nexmark:q12\n")
    with pytest.raises(OptionError, match="the spec does not ask 'count'; it asks nexmark:q1"):
        only(spec, ["count"])


@pytest.mark.spark
@pytest.mark.parametrize("name", ["headrace", "spark"])
@pytest.mark.parametrize(
    "question", [each for each in FACTS if each != "nexmark:q12"] if SLOW else ["yahoo:campaigns"]
)
def test_headrace_and_spark_answer_a_workload_right(spark: Any, name: str, question: str) -> None:
    def work(running: Bench) -> None:
        for rate in (1_000, 3_000):
            running.trial(load(rate, 4))

    bench = LiveBench(name, LiveSettings(warm_seconds=1), choose(name, spark), question)
    first, second = bench.series(work, 1_000)
    assert not first.trouble and not second.trouble
    assert (first.made, second.made) == (4_000, 12_000)
    for trial in (first, second):
        assert trial.verdict.expected > 0
        assert len(trial.due) > 0
        assert np.all(trial.latency > 0)
