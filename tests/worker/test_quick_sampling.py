"""Where time goes is sampled until a stage says that it is over, and nobody waits for that."""

from __future__ import annotations

import threading
import time

from apache_beam.runners.worker import statesampler
from apache_beam.utils.counters import CounterFactory

from headrace.worker.batched.operations import QuickSampler

#: Beam's sampler first sleeps a hundredth of its period; a process that ends waits for its thread.
LONG_MS, LONG_SLEEP = 500_000, 5.0


def spent(sampler: QuickSampler, seconds: float) -> int:
    """Be in a state for some time; give what the sampler says of it, in milliseconds."""
    state = sampler.scoped_state("step", "process")
    with state:
        time.sleep(seconds)
        found: int = state.sampled_msecs_int()
    return found


def sampled(sampler: QuickSampler, least: int, since: float) -> tuple[int, float]:
    """Be in a state until so many milliseconds are told; give them, and those since a moment.

    When a thread that samples gets its turn is the machine's affair.
    """
    state, end, found = sampler.scoped_state("step", "process"), time.monotonic() + 60, 0
    with state:
        while found < least and time.monotonic() < end:
            time.sleep(0.01)
            found = state.sampled_msecs_int()
    return found, (time.monotonic() - since) * 1_000


class Watched(QuickSampler):
    """Knows how many threads sample for it. Other tests leave threads that end when they like."""

    def __init__(self, period_ms: int) -> None:
        super().__init__("stage", CounterFactory(), period_ms)
        self._sampling: set[int] = set()
        self.begun = threading.Event()
        self.most = 0

    def run(self) -> None:
        self._sampling.add(threading.get_ident())
        self.most = max(self.most, self.threads)
        self.begun.set()
        super().run()
        self._sampling.remove(threading.get_ident())

    @property
    def threads(self) -> int:
        """The threads that sample now."""
        return len(self._sampling)


def begun(period_ms: int) -> Watched:
    sampler = Watched(period_ms)
    sampler.start()
    assert sampler.begun.wait(60)
    return sampler


def test_the_end_of_sampling_is_not_waited_for() -> None:
    start = time.monotonic()
    sampler = begun(LONG_MS)
    sampler.stop()
    assert sampler.threads == 1  # it sleeps
    assert time.monotonic() - start < LONG_SLEEP
    assert statesampler.get_current_tracker() is None


def test_who_begins_anew_finds_no_other_thread() -> None:
    sampler = begun(10)
    for _ in range(20):
        sampler.stop()
        sampler.reset()
        sampler.start()
    assert sampler.most <= 2  # one of them may be about to leave
    sampler.reset()  # a bundle that failed has stopped nothing
    assert not sampler.started


def test_time_is_counted_until_the_end_and_anew_after_it() -> None:
    since = time.monotonic()
    sampler = begun(10)
    first, took = sampled(sampler, 100, since)
    assert 100 <= first <= took + 10  # what is told goes by periods
    sampler.stop()
    at_end = sampler.scoped_state("step", "process").sampled_msecs_int()
    assert spent(sampler, 0.1) == at_end
    sampler.reset()
    since = time.monotonic()
    sampler.start()
    found, took = sampled(sampler, 1, since)
    assert 1 <= found <= took + 10
    sampler.stop()
