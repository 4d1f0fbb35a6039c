"""When a failed epoch is run again, and what is said when it is not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.engine.retries import LONGEST_PAUSE_SECONDS, Tries
from headrace.engine.traces import forget_traces, where_lost
from headrace.errors import ColumnTypeError, WorkerLostError
from headrace.worker.task.trace import MARK_BYTES, Trace

LOST = WorkerLostError("a Python worker died")


def test_without_retries_an_exception_ends_the_run_and_a_lost_worker_is_tried_three_times() -> None:
    assert Tries(0).pause_after(ValueError("poison")) is None
    tries = Tries(0)
    assert [tries.pause_after(LOST) for _ in range(3)] == [0.0, 0.0, None]


def test_pauses_double_up_to_a_bound() -> None:
    tries = Tries(9)
    pauses = [tries.pause_after(OSError("no answer")) for _ in range(10)]
    assert pauses == [0.5, 1, 2, 4, 8, 16, *[LONGEST_PAUSE_SECONDS] * 3, None]


def test_what_headrace_refuses_is_not_tried_again() -> None:
    assert Tries(5).pause_after(ColumnTypeError("column 'at'")) is None


def test_lost_workers_and_exceptions_are_counted_apart() -> None:
    tries = Tries(1)
    found = [tries.pause_after(e) for e in (LOST, ValueError(), LOST)]
    assert found == [0.0, 0.5, 0.0]


def test_the_last_exception_says_how_often_it_was_tried() -> None:
    tries = Tries(2)
    error = ValueError("poison")
    for _ in range(3):
        tries.pause_after(error)
    assert tries.given_up(7, error, "") is error
    assert error.__notes__ == ["[epoch 7 was tried 3 times, --max_retries=2]"]


def test_a_lost_epoch_says_where_and_names_the_way_out() -> None:
    tries = Tries(0, lost=3)
    told = str(tries.given_up(7, LOST, "'Parse' on shard 1, at element 3, str"))
    assert "epoch 7 was tried 3 times" in told
    assert "died in 'Parse' on shard 1, at element 3, str." in told
    assert "use_subprocess=True" in told


SCRIPT = """
import os, sys
from headrace.worker.task.trace import Trace
trace = Trace(sys.argv[1], 2, 1)
trace.element(("Parse", "Score", "Sum", "Write"), ("key", 5), 1_000_000)
trace.element(("Parse",), ("k", b""), 2_000_000)
os.kill(os.getpid(), 9)
"""


def test_the_last_mark_survives_the_process_that_made_it(tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder)], check=False,
        env={**os.environ, "PYTHONPATH": root},
    )  # fmt: skip
    assert done.returncode == -9
    other = Trace(str(folder), 2, 0)  # was merely cancelled
    other.timer(("Wait",), "alarm")
    said = "Job aborted due to stage failure: Task 1 in stage 4.0 failed 1 times"
    assert where_lost(str(folder), said) == (
        "'Parse' on shard 1, at element 2, (str, bytes) of time 1970-01-01T00:00:02Z"
    )
    assert where_lost("", said) == "shard 1"
    assert where_lost("", "no word of a task") == ""
    forget_traces(str(folder))
    assert not folder.exists()


def test_a_task_that_ends_leaves_no_trace(tmp_path: Path) -> None:
    trace = Trace(str(tmp_path), 0, 0)
    trace.timer(("Long" * 500,) * 5, "alarm" * 500)
    assert (tmp_path / "0000-00000.trace").stat().st_size == MARK_BYTES
    trace.done()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("micros", [-(10**18) * 9, 10**18 * 9], ids=["past", "future"])
def test_no_time_is_too_odd_to_be_told(tmp_path: Path, micros: int) -> None:
    trace = Trace(str(tmp_path), 0, 0)
    trace.element(("A",), None, micros)
    assert "NoneType of time" in where_lost(str(tmp_path), "")
