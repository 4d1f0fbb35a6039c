"""Signals that ask to end, while a run is waited for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from headrace.engine.signals import ENDING, ToldToEndError, told_to_end


def wait_for_a_signal() -> None:
    """What a run does: wait without end."""
    threading.Event().wait(20)


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_is_raised_in_the_block_and_means_what_it_did_behind_it(number: int) -> None:
    before = signal.getsignal(number)
    assert before is signal.SIG_DFL
    with pytest.raises(ToldToEndError, match=signal.Signals(number).name), told_to_end():
        threading.Timer(0.05, os.kill, (os.getpid(), number)).start()
        wait_for_a_signal()
    assert [signal.getsignal(each) for each in ENDING] == [signal.SIG_DFL, signal.SIG_DFL]


def test_handlers_of_the_program_and_ignored_signals_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[int] = []

    def own(number: int, frame: object) -> None:
        del frame
        heard.append(number)

    try:
        signal.signal(signal.SIGTERM, own)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as `nohup` does
        with told_to_end():
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
        with told_to_end():
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [signal.SIG_DFL]


OBEYS = """
import os, signal, sys, threading
from headrace.engine.signals import ToldToEndError, told_to_end
try:
    with told_to_end():
        os.kill(os.getpid(), signal.SIGTERM)
        threading.Event().wait(20)
except ToldToEndError as told:
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
