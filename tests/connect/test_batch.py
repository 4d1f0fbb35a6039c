"""Batch pipelines on a Spark Connect server that knows nothing of headrace."""

from __future__ import annotations

import gc
import os
import random
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.metrics import Metrics
from apache_beam.metrics.metric import MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec
from apache_beam.transforms.window import FixedWindows

import headrace
from headrace.io import ReadFromSpark, WriteToSpark
from tests.connect.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def pipeline(remote: Any, *flags: str) -> beam.Pipeline:
    options = PipelineOptions(["--progress=off", *flags])
    return beam.Pipeline(runner=headrace.SparkRunner(remote), options=options)


def test_frames_go_in_and_out_through_windows_and_a_combine(remote: Any, tmp_path: Path) -> None:
    remote.createDataFrame(
        [("north", 3, 1), ("south", 4, 2), ("north", 5, 61), ("north", 7, 62)],
        "gauge string, level long, second long",
    ).createOrReplaceTempView("readings")  # of the user's session, by which the frame is known
    frame = remote.sql("SELECT * FROM readings WHERE level < 7")
    with pipeline(remote) as p:
        _ = (
            p
            | ReadFromSpark(frame, timestamp="second")
            | beam.Map(lambda row: (row.gauge, row.level))
            | beam.WindowInto(FixedWindows(60))
            | beam.CombinePerKey(max)
            | WriteToSpark(str(tmp_path / "highest"), schema="gauge string, level long")
        )
    rows = remote.read.parquet(str(tmp_path / "highest")).collect()
    assert sorted(map(tuple, rows)) == [("north", 3), ("north", 5), ("south", 4)]


def test_functions_run_once_however_many_sinks_there_are(remote: Any, tmp_path: Path) -> None:
    """Rows that are kept for a second job must be those of the first, found again by their plan."""
    with pipeline(remote, "--shards=2") as p:
        drawn = (
            p
            | beam.Create(range(50))
            | beam.Reshuffle()
            | beam.Map(lambda n: (n, random.SystemRandom().randrange(1 << 60)))
        )
        for name in ("one", "two"):
            _ = drawn | name >> WriteToSpark(str(tmp_path / name), schema="n long, drawn long")
    one, two = (
        sorted(map(tuple, remote.read.parquet(str(tmp_path / name)).collect()))
        for name in ("one", "two")
    )
    assert one == two
    assert [n for n, _ in one] == list(range(50))


def test_side_inputs_state_and_metrics(remote: Any) -> None:
    # In here, so that it travels by value: the server's Python does not have these tests.
    class Number(beam.DoFn):  # type: ignore[misc]
        SEEN = ReadModifyWriteStateSpec("seen", VarIntCoder())

        def process(
            self, pair: Any, seen: Any = beam.DoFn.StateParam(SEEN)  # noqa: B008
        ) -> Iterator[Any]:
            Metrics.counter("here", "elements").inc()
            found = (seen.read() or 0) + 1
            seen.write(found)
            yield pair[0], found

    p = pipeline(remote, "--shards=3")
    least = p | "least" >> beam.Create([2])
    numbered = (
        p
        | beam.Create([("a", 1), ("b", 1), ("a", 2), ("a", 3)])
        | beam.ParDo(Number()).with_input_types(tuple[str, int])
        | beam.Filter(lambda pair, least: pair[1] >= least, beam.pvalue.AsSingleton(least))
    )
    assert_that(numbered, equal_to([("a", 2), ("a", 3)]))
    result = p.run()
    result.wait_until_finish()
    (counter,) = result.metrics().query(MetricsFilter().with_name("elements"))["counters"]
    assert counter.committed == 4


def test_an_exception_is_the_users_own_with_the_step(remote: Any) -> None:
    def parse(text: str) -> int:
        return int(text)

    with pytest.raises(ValueError, match=r"invalid literal.*'four'") as failure:
        with pipeline(remote) as p:
            _ = p | beam.Create(["3", "four"]) | "Parse" >> beam.Map(parse)
    assert "Parse" in str(failure.value)


def test_the_users_session_stays_as_it_was(remote: Any) -> None:
    names = ("spark.sql.adaptive.enabled", "spark.sql.execution.arrow.maxRecordsPerBatch")
    before = [remote.conf.get(name) for name in names]
    with pipeline(remote) as p:
        _ = p | beam.Create([1]) | beam.Map(lambda n: n + 1)
    assert [remote.conf.get(name) for name in names] == before
    assert remote.getTags() == set()


def test_a_package_of_the_pipeline_is_sent_there(remote: Any, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "sluice").mkdir(parents=True)
    (project / "sluice" / "__init__.py").write_text("def lift(x):\n    return x + 10\n")
    (project / "setup.py").write_text(
        "from setuptools import setup\nsetup(name='sluice', version='1', packages=['sluice'])\n"
    )

    def lifted(x: int) -> int:
        from sluice import lift  # type: ignore[import-not-found]

        return int(lift(x))

    with pipeline(remote, f"--setup_file={project / 'setup.py'}") as p:
        assert_that(p | beam.Create([1, 2]) | beam.Map(lifted), equal_to([11, 12]))


def test_a_run_that_is_cancelled_ends_on_the_server(remote: Any, tmp_path: Path) -> None:
    import time

    begun = str(tmp_path / "begun")

    def wait(number: int) -> int:
        with open(begun, "w"):
            time.sleep(120)
        return number

    p = pipeline(remote)
    _ = p | beam.Create([1]) | beam.Map(wait)
    result = p.run()
    until(lambda: os.path.exists(begun))
    start = time.monotonic()
    result.cancel()
    assert result.wait_until_finish() == "CANCELLED"
    assert time.monotonic() - start < 60


def test_a_pipeline_that_is_over_leaves_nothing_in_this_process(
    remote: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left would ask the server something when the process ends; one that is gone, long."""
    clients: list[Any] = []
    clone = type(remote).cloneSession

    def cloned(session: Any) -> Any:
        made = clone(session)
        clients.append(weakref.ref(made.client))
        return made

    monkeypatch.setattr(type(remote), "cloneSession", cloned)
    with pipeline(remote) as p:
        _ = p | beam.Create([1]) | beam.Map(lambda n: n + 1)
    del p

    def gone() -> bool:
        gc.collect()
        return [client() for client in clients] == [None]

    until(gone, seconds=30)
