"""User code that talks too much, leaves threads behind or never ends harms no one else."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.runners.runner import PipelineState
from apache_beam.testing.util import assert_that, equal_to

from tests.bad_input.harness import assert_session_still_works, spark_pipeline

pytestmark = [pytest.mark.spark, pytest.mark.timeout(60, func_only=True)]

LINES = 5_000


def talk(element: int) -> int:
    for line in range(LINES):
        print("a line on standard output", line)
        logging.getLogger("talker").warning("word %d", line)
    return element


def test_a_dofn_that_prints_and_logs_a_lot_is_heard_live_to_its_last_word(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is gathered up on the way; only what travels in reports has a limit."""
    with spark_pipeline(shards=1) as p:
        made = p | beam.Create([7], reshuffle=False) | beam.Map(talk)
        assert_that(made, equal_to([7]))
    words = [r.getMessage() for r in caplog.records if r.name == "talker"]
    assert words == [f"word {n}" for n in range(LINES)]
    printed = [line for line in capsys.readouterr().out.splitlines() if "a line on" in line]
    assert printed == [f"a line on standard output {n}" for n in range(LINES)]


class KeepsALock(beam.DoFn):  # type: ignore[misc]
    def __init__(self) -> None:
        self._lock = threading.Lock()

    def process(self, element: int) -> Iterator[int]:
        with self._lock:
            yield element


def test_a_dofn_that_holds_a_lock_is_sent_with_a_new_one() -> None:
    """Beam pickles a lock as a fresh one, so what looks unpicklable runs."""
    with spark_pipeline() as p:
        assert_that(p | beam.Create([1, 2]) | beam.ParDo(KeepsALock()), equal_to([1, 2]))


@pytest.mark.parametrize("daemon", [True, False], ids=["daemon", "not a daemon"])
def test_a_thread_left_running_does_not_keep_the_pipeline(daemon: bool) -> None:
    def start_a_thread(element: int) -> int:
        threading.Thread(target=time.sleep, args=(20,), daemon=daemon).start()
        return element

    start = time.monotonic()
    with spark_pipeline() as p:
        assert_that(p | beam.Create([1, 2]) | beam.Map(start_a_thread), equal_to([1, 2]))
    assert time.monotonic() - start < 20
    assert_session_still_works()


class NeverEnds(beam.DoFn):  # type: ignore[misc]
    """Counts in a file for ever, so that a test can see whether it still lives."""

    def __init__(self, path: str, *, speaks: bool) -> None:
        self._path = path
        self._speaks = speaks

    def process(self, element: int) -> Iterator[int]:
        del element
        for number in itertools.count():
            Path(self._path).write_text(str(number), encoding="utf-8")
            time.sleep(0.01)
            if self._speaks:
                yield number


def wait_until(said: str, condition: object, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, said
        time.sleep(0.2)


@pytest.mark.parametrize("speaks", [True, False], ids=["a generator", "a silent loop"])
def test_what_never_ends_is_cancelled_within_seconds(tmp_path: Path, speaks: bool) -> None:
    sign = tmp_path / "count"
    p = spark_pipeline()
    endless = beam.ParDo(NeverEnds(str(sign), speaks=speaks))
    _ = p | beam.Create([1]) | endless | beam.Map(lambda x: (x, 1)) | beam.GroupByKey()
    result = p.run()
    wait_until("the DoFn never started", sign.exists, 40)
    assert result.wait_until_finish(duration=300) == PipelineState.RUNNING
    assert result.state == PipelineState.RUNNING

    start = time.monotonic()
    assert result.cancel() == PipelineState.CANCELLED
    assert time.monotonic() - start < 10
    assert result.wait_until_finish() == PipelineState.CANCELLED
    assert result.cancel() == PipelineState.CANCELLED  # asking twice does no harm

    def stopped() -> bool:
        before = sign.read_text(encoding="utf-8")
        time.sleep(0.5)
        return sign.read_text(encoding="utf-8") == before

    wait_until("the DoFn runs on after the cancellation", stopped, 15)
    assert_session_still_works()


def test_waiting_for_a_while_tells_that_the_pipeline_still_runs(tmp_path: Path) -> None:
    gate = tmp_path / "gate"

    def wait_at_the_gate(element: int, path: str) -> int:
        while not Path(path).exists():
            time.sleep(0.05)
        return element

    p = spark_pipeline()
    _ = p | beam.Create([1]) | beam.Map(wait_at_the_gate, str(gate))
    result = p.run()
    start = time.monotonic()
    assert result.wait_until_finish(duration=200) == PipelineState.RUNNING
    assert 0.2 <= time.monotonic() - start < 40  # the gate is shut for ever
    gate.touch()
    assert result.wait_until_finish() == PipelineState.DONE
