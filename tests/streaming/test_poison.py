"""Elements that user code cannot digest: retried, sent to dead letters, or named in the error."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms import window
from apache_beam.transforms.error_handling import ErrorHandler
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import CombiningValueStateSpec, TimerSpec, on_timer

from headrace.errors import OptionError, WorkerLostError
from tests.streaming.harness import Gathered, checkpointed, finished, jot, jotted, streaming

pytestmark = [pytest.mark.timeout(120, func_only=True)]

AT = window.TimestampedValue


class FailsAtFirst(beam.DoFn):  # type: ignore[misc]
    """Counts in state; fails at its first `bad` elements, as an RPC would, after it has counted."""

    COUNT = CombiningValueStateSpec("count", sum)

    def __init__(self, log: str, failures: int) -> None:
        self._log = log
        self._failures = failures

    def process(
        self, pair: tuple[str, str], count: Any = beam.DoFn.StateParam(COUNT)  # noqa: B008
    ) -> Iterator[tuple[str, int]]:
        count.add(1)
        if pair[1] == "bad":
            with Path(self._log).open("a", encoding="utf-8") as log:
                log.write("x")
            if len(Path(self._log).read_text(encoding="utf-8")) <= self._failures:
                msg = "no answer"
                raise ConnectionError(msg)
        yield pair[0], count.read()


def counted(p: beam.Pipeline, log: Path, failures: int, gathered: Gathered) -> None:
    stream = (
        TestStream().add_elements([("a", "good"), ("b", "good")])
        .add_elements([("a", "good"), ("b", "bad"), ("a", "good")])
        .advance_watermark_to_infinity()
    )  # fmt: skip
    _ = (
        p | stream | "Count" >> beam.ParDo(FailsAtFirst(str(log), failures))
        | gathered.sink("key string, count bigint")
    )


@pytest.mark.also_on_spark
def test_an_epoch_that_is_retried_starts_from_the_state_before_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gathered = Gathered()
    p = checkpointed(tmp_path, "--max_retries=2")
    counted(p, tmp_path / "log", 2, gathered)
    result = finished(p)
    # Counts that went on from a failed try would be 3 to 7.
    assert gathered.rows == [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2)]
    assert result.stream_status.retries == 2
    assert "epoch 2 failed and is run again in 0.5 s" in caplog.text
    assert "2 exceptions of --max_retries=2" in caplog.text


def test_after_the_last_retry_the_exception_ends_the_run_and_a_restart_goes_on(
    tmp_path: Path,
) -> None:
    gathered = Gathered()
    p = checkpointed(tmp_path, "--max_retries=1")
    counted(p, tmp_path / "log", 2, gathered)
    with pytest.raises(ConnectionError, match="no answer.*Count") as failure:
        finished(p)
    assert "[epoch 2 was tried 2 times, --max_retries=1]" in failure.value.__notes__
    assert gathered.rows == [("a", 1), ("b", 1)]
    again = checkpointed(tmp_path)
    counted(again, tmp_path / "log", 2, gathered)
    finished(again)
    assert gathered.rows == [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2)]


def test_a_sink_that_fails_once_gets_the_epoch_again(tmp_path: Path) -> None:
    from headrace.io import WriteToSpark

    taken: list[int] = []

    def store(frame: Any, epoch: int) -> None:
        rows = [row.value for row in frame.collect()]
        if rows and not (tmp_path / "failed").exists():
            (tmp_path / "failed").touch()
            msg = "the table is locked"
            raise OSError(msg)
        taken.extend(rows)

    p = streaming("--max_retries=1")
    _ = (
        p | TestStream().add_elements([1, 2, 3]).advance_watermark_to_infinity()
        | WriteToSpark(function=store, schema="value long")
    )
    assert finished(p).stream_status.retries == 1
    assert sorted(taken) == [1, 2, 3]


def test_a_negative_number_of_retries_is_refused() -> None:
    p = streaming("--max_retries=-1")
    _ = p | TestStream().advance_watermark_to_infinity()
    with pytest.raises(OptionError, match="--max_retries=-1"):
        p.run()


def kill(pair: tuple[str, int]) -> tuple[str, int]:
    if pair[1] == 3:
        os._exit(3)
    return pair


@pytest.mark.spark
def test_an_element_that_kills_its_worker_is_named_with_its_step_and_the_way_out(
    tmp_path: Path,
) -> None:
    p = checkpointed(tmp_path, shards=1)
    _ = (
        p | TestStream().add_elements([AT(("a", n), n) for n in range(1, 6)])
        .advance_watermark_to_infinity()
        | "Parse" >> beam.Map(kill) | "Next" >> beam.Map(str)
    )
    with pytest.raises(WorkerLostError) as failure:
        finished(p)
    told = str(failure.value)
    assert "epoch 1 was tried 3 times and a worker died each time" in told
    assert "'Parse'" in told
    assert "on shard 0, at element 3, (str, int) of time 1970-01-01T00:00:03Z" in told
    assert "use_subprocess=True" in told
    assert not (tmp_path / "checkpoint" / "traces").exists()


class SumsAndFails(beam.DoFn):  # type: ignore[misc]
    """Sums in state, tells the sum at the window's end; a negative number is an error."""

    TOTAL = CombiningValueStateSpec("total", sum)
    END = TimerSpec("end", TimeDomain.WATERMARK)

    def process(
        self,
        pair: tuple[str, int],
        span: Any = beam.DoFn.WindowParam,
        total: Any = beam.DoFn.StateParam(TOTAL),  # noqa: B008
        end: Any = beam.DoFn.TimerParam(END),  # noqa: B008
    ) -> Iterator[tuple[str, int]]:
        if pair[1] < 0:
            msg = f"negative: {pair[1]}"
            raise ValueError(msg)
        total.add(pair[1])
        end.set(span.end)
        yield from ()

    @on_timer(END)  # type: ignore[untyped-decorator]
    def tell(
        self,
        key: str = beam.DoFn.KeyParam,
        total: Any = beam.DoFn.StateParam(TOTAL),  # noqa: B008
    ) -> Iterator[tuple[str, int]]:
        yield key, total.read()


def told(letter: Any, span: Any = beam.DoFn.WindowParam) -> tuple[Any, str, float]:
    element, (_, shown, _) = letter
    return element, shown, float(span.end)


def test_dead_letters_of_maps_state_and_timers_keep_their_windows(tmp_path: Path) -> None:
    good, bad, handled = tmp_path / "good", tmp_path / "bad", tmp_path / "handled"
    stream = (
        TestStream()
        .add_elements([AT(("a", "1"), 1), AT(("a", "x"), 2), AT(("a", "-5"), 3), AT(("a", "2"), 4)])
        .advance_watermark_to(10)
        .add_elements([AT(("a", "-7"), 12), AT(("a", "4"), 13)])
        .advance_watermark_to_infinity()
    )  # fmt: skip
    with streaming() as p:
        with ErrorHandler("Handled" >> beam.Map(told) | jot(handled)) as handler:
            numbers = (
                p | stream | beam.WindowInto(window.FixedWindows(10))
                | "Parse" >> beam.MapTuple(lambda k, v: (k, int(v)))
                .with_output_types(tuple[str, int])
                .with_exception_handling(error_handler=handler)
            )
        sums, letters = numbers | "Sum" >> beam.ParDo(SumsAndFails()).with_exception_handling(
            allow_unsafe_userstate_in_process=True
        )
        _ = sums | "Good" >> jot(good)
        _ = letters | beam.Map(told) | "Bad" >> jot(bad)
    assert sorted(jotted(good)) == [("a", 3), ("a", 4)]
    assert sorted(jotted(bad)) == [
        (("a", -7), "ValueError('negative: -7')", 20.0),
        (("a", -5), "ValueError('negative: -5')", 10.0),
    ]
    ((element, shown, end),) = jotted(handled)
    assert (element, end) == (("a", "x"), 10.0)
    assert "invalid literal" in shown


def digest(number: int) -> int:
    if number == 2:
        os._exit(3)
    return number * 10


def dawdle(number: int) -> int:
    if number == 3:
        time.sleep(60)
    return number * 10


@pytest.mark.spark
def test_what_kills_or_hangs_becomes_a_dead_letter_in_a_process_of_its_own(
    tmp_path: Path,
) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    with streaming(shards=1) as p:
        numbers = p | TestStream().add_elements([1, 2, 3, 4]).advance_watermark_to_infinity()
        sane, deadly = numbers | "Digest" >> beam.Map(digest).with_exception_handling(
            use_subprocess=True
        )
        quick, slow = numbers | "Dawdle" >> beam.Map(dawdle).with_exception_handling(timeout=5)
        _ = (sane, quick) | beam.Flatten() | "Good" >> jot(good)
        _ = (deadly, slow) | "Letters" >> beam.Flatten() | beam.Keys() | "Bad" >> jot(bad)
    assert sorted(jotted(good)) == [10, 10, 20, 30, 40, 40]
    assert sorted(jotted(bad)) == [2, 3]
