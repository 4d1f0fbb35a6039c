"""The stages' thread ends with its reader, and what failed in it is raised by the reader."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.transforms import environments

from headrace.compiler.compile import compile_pipeline
from headrace.engine.tasks import tasks_of
from headrace.plan.settings import Settings
from headrace.testing import LocalRunner
from headrace.worker import entry
from headrace.worker.entry import RowQueue, Stopped, run_superstep
from headrace.worker.exchange.super_tuples import PayloadKind, Rank, SuperTuple, from_batch
from headrace.worker.task.failures import MARK, TaskFailure
from tests.worker.harness import SEEN


def row(number: int, size: int = 1) -> SuperTuple:
    return SuperTuple(0, Rank.DATA, 0, PayloadKind.ROWS, number, 1, b"x" * size)


def stage_threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "headrace-stages"]


class Torn(beam.DoFn):  # type: ignore[misc]
    """Notes that it was torn down."""

    def process(self, element: int) -> Any:
        yield from ((i, "x" * 1_000) for i in range(20_000))

    def teardown(self) -> None:
        SEEN.setdefault("torn down", []).append(True)


def first_task(build: Any, settings: Settings) -> Any:
    """The task of the first superstep of a pipeline."""
    pipeline = beam.Pipeline(runner=LocalRunner())
    build(pipeline)
    proto = pipeline.to_runner_api(
        default_environment=environments.EmbeddedPythonEnvironment.default()
    )
    plan = compile_pipeline(proto, shards=1, name="test")
    return tasks_of(plan, settings)[0]


def large_output(p: beam.Pipeline) -> Any:
    return p | beam.Impulse() | beam.ParDo(Torn()) | beam.GroupByKey()


def test_a_reader_that_goes_away_stops_the_stages_and_tears_them_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(entry, "QUEUE_ROWS", 1)
    SEEN.clear()
    task = first_task(large_output, Settings(super_tuple_bytes=1_000))
    batches: Any = run_superstep(task, 0, iter(()))
    next(batches)
    assert len(stage_threads()) == 1
    batches.close()
    assert stage_threads() == []
    assert SEEN["torn down"] == [True]


def test_a_reader_that_is_forgotten_stops_the_stages() -> None:
    batches = run_superstep(first_task(large_output, Settings(super_tuple_bytes=1_000)), 0, [])
    next(batches)
    del batches
    gc.collect()
    assert stage_threads() == []


def test_a_whole_run_leaves_no_thread_and_the_collector_as_it_was() -> None:
    task = first_task(large_output, Settings())
    rows = [r for b in run_superstep(task, 0, iter(())) for r in from_batch(b)]
    assert sum(r.elements for r in rows if r.kind is not PayloadKind.REPORT) >= 20_000
    assert stage_threads() == []
    assert gc.isenabled()


WORKER = """
import gc, sys
worker = sys.argv[1] == "worker"
if worker:
    import pyspark.worker
from headrace.worker import entry
before = gc.get_freeze_count()
list(entry._in_thread(lambda outbox: outbox.send(None)))
print(before, gc.get_freeze_count() > 10_000)
"""


@pytest.mark.parametrize(("process", "frozen"), [("worker", "True"), ("other", "False")])
def test_modules_are_frozen_where_pyspark_collects_after_each_task(
    process: str, frozen: str
) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", WORKER, process], capture_output=True, text=True, check=True
    )
    assert ran.stdout.split() == ["0", frozen]


AFTER_PRELOADING = """
import gc
from headrace.worker import daemon
daemon.preload()
import pyspark.worker
from headrace.worker import entry
def walks_through_all(*_):
    raise AssertionError
gc.collect = gc.freeze = gc.get_freeze_count = walks_through_all
list(entry._in_thread(lambda outbox: outbox.send(None)))
"""


def test_no_task_freezes_or_counts_what_the_daemon_has_frozen() -> None:
    subprocess.run([sys.executable, "-c", AFTER_PRELOADING], check=True, timeout=120)


def test_a_failure_in_the_stages_is_raised_where_the_output_is_read() -> None:
    def failing(p: beam.Pipeline) -> Any:
        return p | beam.Impulse() | "Bad" >> beam.Map(lambda _: 1 // 0) | beam.Map(print)

    with pytest.raises(TaskFailure, match=r"by zero \[while running 'Bad'\]") as caught:
        list(run_superstep(first_task(failing, Settings()), 0, iter(())))
    assert MARK in str(caught.value)
    assert stage_threads() == []
    assert gc.isenabled()


def test_a_failing_input_is_raised_and_not_taken_for_its_end() -> None:
    def fail(number: int) -> Any:
        message = f"the shuffle is gone, batch {number}"
        raise OSError(message)

    with pytest.raises(TaskFailure, match="the shuffle is gone"):
        list(run_superstep(first_task(large_output, Settings()), 0, map(fail, [1])))


def test_a_full_box_waits_for_its_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry, "QUEUE_ROWS", 2)
    rows = RowQueue()
    sent: list[int] = []

    def send() -> None:
        for number in range(5):
            rows.send(row(number))
            sent.append(number)
        rows.send(None)

    thread = threading.Thread(target=send)
    thread.start()
    limit = time.monotonic() + 60
    while len(sent) < 2 and time.monotonic() < limit:
        time.sleep(0.001)
    assert sent == [0, 1]
    found = [r.seq for batch in rows.batches() for r in from_batch(batch)]
    thread.join()
    assert found == [0, 1, 2, 3, 4]


def test_a_closed_box_takes_nothing() -> None:
    rows = RowQueue()
    rows.close()
    with pytest.raises(Stopped):
        rows.send(row(1))


def test_batches_are_bounded_in_rows_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry, "BATCH_ROWS", 3)
    monkeypatch.setattr(entry, "BATCH_BYTES", 100)
    rows = RowQueue()
    for number in range(4):
        rows.send(row(number))
    for number in range(4, 7):
        rows.send(row(number, size=60))
    rows.send(None)
    sizes = [[r.seq for r in from_batch(batch)] for batch in rows.batches()]
    assert sizes == [[0, 1, 2], [3, 4, 5], [6]]
