"""Signals that ask to end, while a run is waited for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from headrace.engine.signals import ENDING, EndRequestedError, end_on_request
from headrace.results import HeadraceResult
from tests.streaming.harness import until


def wait_for_a_signal() -> None:
    """What a run does: wait without end."""
    threading.Event().wait(20)


@pytest.fixture(autouse=True)
def _as_a_terminal_starts_it() -> Iterator[None]:
    """Let signals do what they usually do: under `nohup` one of them is ignored."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in ENDING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_is_raised_in_the_block_and_means_what_it_did_behind_it(number: int) -> None:
    with pytest.raises(EndRequestedError, match=signal.Signals(number).name), end_on_request():
        threading.Timer(0.05, os.kill, (os.getpid(), number)).start()
        wait_for_a_signal()
    assert [signal.getsignal(each) for each in ENDING] == [signal.SIG_DFL, signal.SIG_DFL]


def test_a_signal_is_not_lost_in_code_that_catches_everything_and_goes_on() -> None:
    went_on = False
    with pytest.raises(EndRequestedError), end_on_request():
        with suppress(BaseException):
            os.kill(os.getpid(), signal.SIGTERM)
            wait_for_a_signal()
        went_on = True
    assert went_on


def test_a_signal_that_does_not_wake_the_main_thread_ends_its_wait_for_a_run() -> None:
    """Another thread hears it: so it is where it comes just before the main one falls asleep."""
    result = object.__new__(HeadraceResult)
    result._done = threading.Event()
    threading.Timer(0.2, signal.raise_signal, (signal.SIGTERM,)).start()
    late = threading.Timer(20, result._done.set)
    late.start()
    try:
        with pytest.raises(EndRequestedError), end_on_request():
            result._wait()
        assert not result._done.is_set()
    finally:
        late.cancel()


def test_what_an_inner_block_has_raised_is_not_raised_again_by_the_outer_one() -> None:
    with end_on_request():
        with pytest.raises(EndRequestedError), end_on_request():
            os.kill(os.getpid(), signal.SIGTERM)
            wait_for_a_signal()
        went_on = True
    assert went_on


def test_handlers_of_the_program_and_ignored_signals_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[int] = []

    def own(number: int, frame: object) -> None:
        del frame
        heard.append(number)

    try:
        signal.signal(signal.SIGTERM, own)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as `nohup` does
        with end_on_request():
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGHUP)
            time.sleep(0.01)
        assert heard == [signal.SIGTERM]
        assert signal.getsignal(signal.SIGTERM) is own
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        for number in ENDING:
            signal.signal(number, signal.SIG_DFL)


def test_another_thread_changes_nothing() -> None:
    found: list[object] = []

    def look() -> None:
        with end_on_request():
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [signal.SIG_DFL]


OBEYS = """
import os, signal, sys, threading
from headrace.engine.signals import EndRequestedError, end_on_request
try:
    with end_on_request():
        os.kill(os.getpid(), signal.SIGTERM)
        threading.Event().wait(20)
except EndRequestedError as told:
    print("tidy", flush=True)
    if sys.argv[1] == "twice":
        os.kill(os.getpid(), signal.SIGTERM)
        print("still here", flush=True)
    told.obey()
"""


@pytest.mark.parametrize("how", ["once", "twice"])
def test_the_process_ends_by_the_signal_and_a_second_one_ends_it_at_once(how: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", OBEYS, how], stdout=subprocess.PIPE, text=True, check=False,
        timeout=30, env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
    assert (done.stdout, done.returncode) == ("tidy\n", -signal.SIGTERM)


ENDLESS = textwrap.dedent(
    """
    import sys

    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.transforms import window

    from headrace.io import ReadFromSpark
    from headrace.runner import SparkRunner, start_session

    spark = start_session("local[1]")
    frame = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
    options = PipelineOptions(["--shards=1", "--progress=off"])
    p = beam.Pipeline(runner=SparkRunner(spark=spark), options=options)
    (
        p
        | ReadFromSpark(frame, timestamp="timestamp")
        | beam.Map(lambda row: ("k", row.value)).with_output_types(tuple[str, int])
        | beam.WindowInto(window.FixedWindows(10_000_000))
        | beam.CombinePerKey(sum)
    )
    p.run().wait_until_finish()
    """
)


@pytest.mark.spark
@pytest.mark.timeout(300, func_only=True)
def test_a_run_that_is_told_to_end_says_what_is_kept_and_leaves_nothing(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.getcwd(), "TMPDIR": str(tmp_path)},
    )
    made = "headrace-checkpoint-*/manifests/*"
    try:
        until(lambda: bool(list(tmp_path.glob(made))) or process.poll() is not None, 240)
        assert list(tmp_path.rglob("data.mdb")) != []
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=40)
    finally:
        process.kill()
    assert process.returncode == -signal.SIGTERM
    assert "SIGTERM: stopped after epoch" in errors
    assert "without --checkpoint, no state is kept" in errors
    assert list(tmp_path.rglob("*.mdb")) == []
    # Only the folder of this user and this boot stay, for the next run.
    assert [path.name for path in tmp_path.glob("headrace-*")] == [f"headrace-state-{os.geteuid()}"]
