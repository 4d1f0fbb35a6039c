"""Epochs of our own loop on a Spark Connect server: how they are laid out, and what they ask."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.window import FixedWindows

import headrace
from headrace.engine.resident import ResidentTask
from headrace.lab.experiments.connect.epochs import asked_in_epochs
from headrace.lab.experiments.streaming import ownloop
from headrace.lab.experiments.streaming.bed import Bed

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """One for each request that a task which stays has answered; no pause makes it leave."""
    monkeypatch.setattr("headrace.engine.layouts.SMALL_SECONDS", 60.0)  # a machine may be busy
    monkeypatch.setattr("headrace.engine.resident.IDLE_SECONDS", 60.0)
    found: list[bool] = []
    ask = ResidentTask.ask

    def noted(resident: ResidentTask, request: bytes) -> tuple[bytes | None, bool]:
        answer = ask(resident, request)
        found.append(answer[0] is not None)
        return answer

    monkeypatch.setattr(ResidentTask, "ask", noted)
    return found


@pytest.mark.parametrize("empty", [True, False], ids=["empty", "tiny"])
def test_a_small_epoch_is_one_task_and_asks_the_server_once_at_most(
    remote: Any, empty: bool, answered: list[bool]
) -> None:
    layouts: list[Any] = []
    bed = Bed(spark=remote, cores=2, say=print)
    with asked_in_epochs() as asked:
        _, wrong = ownloop.own_epochs(
            bed, 8, kept=True, small=True, empty=empty, heard=layouts.append
        )
    assert wrong == []
    assert layouts[-1].one_task >= 6  # not the first, nor the end of all sources
    # One that stays is asked for beside the epochs, and comes again when it has stayed for long.
    assert all(len(each) <= 2 for each in asked[2:8]), asked
    assert any(not each for each in asked[2:8]), asked
    assert sum(answered) >= 2


#: A key and a number.
Pair = tuple[str, int]


def once(note: str, *, dies: bool) -> Callable[[Pair], Pair]:
    """Give what fails, or ends its process, at one element; once."""

    def step(pair: Pair) -> Pair:  # in here, so that it travels by value
        if pair[1] == 5 and not os.path.exists(note):
            Path(note).touch()
            if dies:
                os.kill(os.getpid(), signal.SIGKILL)
            msg = "only once"
            raise ValueError(msg)
        return pair

    return step


def waits(note: str) -> Callable[[Pair], Pair]:
    """Give what takes long over one element."""

    def step(pair: Pair) -> Pair:
        if pair[1] == 5:
            Path(note).touch()
            time.sleep(200)
        return pair

    return step


def in_epochs(remote: Any, folder: Path, step: Callable[[Pair], Pair], *flags: str) -> Any:
    """Run a step on ten epochs of one element each, then sum up what came, by key."""
    stream = TestStream()
    for number in range(10):
        stream = stream.add_elements([("a", number)])
    pipeline = beam.Pipeline(
        runner=headrace.SparkRunner(spark=remote),
        options=PipelineOptions(["--streaming", f"--checkpoint={folder / 'checkpoint'}", *flags]),
    )
    sums = (
        pipeline
        | stream.advance_watermark_to_infinity()
        | beam.WindowInto(FixedWindows(10))
        | beam.Map(step)
        | beam.CombinePerKey(sum)
    )
    _ = sums | beam.Map(lambda pair: (folder / f"sum {pair[1]}").touch())
    return pipeline.run()


@pytest.mark.parametrize("dies", [True, False], ids=["the worker dies", "user code raises"])
def test_what_fails_in_a_task_that_stays_is_run_again(
    remote: Any, tmp_path: Path, answered: list[bool], dies: bool
) -> None:
    result = in_epochs(
        remote, tmp_path, once(str(tmp_path / "failed"), dies=dies), "--max_retries=1"
    )
    result.wait_until_finish()
    assert (tmp_path / "failed").exists()
    assert (tmp_path / "sum 45").exists(), list(tmp_path.iterdir())
    assert result.stream_status.retries == 1
    assert sum(answered) >= 4  # before it and after it


def test_a_run_is_cancelled_in_the_middle_of_a_task_that_stays(
    remote: Any, tmp_path: Path, answered: list[bool]
) -> None:
    begun = tmp_path / "begun"
    result = in_epochs(remote, tmp_path, waits(str(begun)))
    deadline = time.monotonic() + 120
    while not begun.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert sum(answered) >= 1
    start = time.monotonic()
    assert result.cancel() == "CANCELLED"
    assert time.monotonic() - start < 60
    assert remote.range(3).count() == 3  # the server has its cores back
