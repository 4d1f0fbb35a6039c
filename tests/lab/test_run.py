"""Running workloads from end to end on Beam's local runner, and once on Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import OptionError, UnsupportedTransformError
from headrace.lab.catalog import CATALOG
from headrace.lab.endpoints.names import Sink, SinkKind, Source, SourceKind
from headrace.lab.run import RunReport, run_workload
from headrace.lab.systems.choose import choose
from headrace.lab.systems.system import Glance, Request
from headrace.lab.workload import Mode, Row
from tests.lab import toy
from tests.lab.json_lines import read_json_lines

#: By hand: numbers 0 1 2 0 1 2 ..., one a second, in windows of ten seconds.
ANSWER = [
    (1_600_000_000, 0, 4), (1_600_000_000, 1, 3), (1_600_000_000, 2, 3),
    (1_600_000_010, 0, 3), (1_600_000_010, 1, 4), (1_600_000_010, 2, 3),
    (1_600_000_020, 0, 2), (1_600_000_020, 1, 1), (1_600_000_020, 2, 2),
]
SETTINGS = toy.ToySettings(events=25)


def request(folder: Path, name: str = "counts", **changes: Any) -> Request:
    fields: dict[str, Any] = {
        "workload": toy.CATALOG.workload("toy", name), "settings": SETTINGS,
        "mode": Mode.STREAMING, "folder": folder, **changes,
    }
    return Request(**fields)


def direct(asked: Request, **more: Any) -> RunReport:
    return run_workload(asked, choose("direct"), **more)


def rows_of(report: RunReport) -> list[Row]:
    assert report.outcome.rows is not None
    return sorted(report.outcome.rows.read(toy.COLUMNS))


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("kind", [SourceKind.GENERATOR, SourceKind.VECTOR])
def test_a_right_answer_is_found_right(tmp_path: Path, mode: Mode, kind: SourceKind) -> None:
    report = direct(request(tmp_path, mode=mode, source=Source(kind)))
    assert report.verdict is not None
    assert report.right and report.verdict.right
    assert rows_of(report) == ANSWER
    assert (report.outcome.events, report.row_count, report.verdict.expected) == (25, 9, 9)


def test_the_outcome_names_the_engine_that_ran(tmp_path: Path) -> None:
    outcome = direct(request(tmp_path)).outcome
    assert outcome.engine.startswith("Beam 2.77")
    assert "FnApiRunner (DONE)" in outcome.engine
    assert outcome.seconds > 0
    assert outcome.events_per_second == pytest.approx(25 / outcome.seconds)


def test_a_wrong_answer_is_found_wrong(tmp_path: Path) -> None:
    """The pipeline loses the number 0 and doubles the number 1."""
    report = direct(request(tmp_path, "forgetful"))
    assert report.verdict is not None and not report.right
    assert report.verdict.missing_rows == tuple(row for row in ANSWER if row[1] == 0)
    assert report.verdict.surplus_rows == tuple(row for row in ANSWER if row[1] == 1)


def test_rows_are_written_as_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "out" / "rows.jsonl"
    direct(request(tmp_path / "run"), output=str(path))
    assert sorted(read_json_lines(path, toy.COLUMNS)) == ANSWER
    first = json.loads(path.read_text().splitlines()[0])
    assert list(first) == ["start", "value", "times"]


@pytest.mark.parametrize("kind", [SinkKind.NULL, SinkKind.METER, SinkKind.CONSOLE])
def test_a_sink_that_keeps_nothing_counts_and_is_not_judged(
    tmp_path: Path, kind: SinkKind, capsys: pytest.CaptureFixture[str]
) -> None:
    report = direct(request(tmp_path, sink=Sink(kind)))
    assert report.verdict is None
    assert report.unjudged == f"the sink {kind.value} keeps no rows"
    assert report.row_count == 9
    printed = capsys.readouterr().out.splitlines()
    if kind is SinkKind.CONSOLE:
        assert sorted(printed) == sorted("\t".join(map(str, row)) for row in ANSWER)
    else:
        assert printed == []
    if kind is SinkKind.METER:
        assert report.outcome.notes == (
            "window to 1600000010.000: 3 rows", "window to 1600000020.000: 3 rows",
            "window to 1600000030.000: 3 rows",
        )


def test_no_events_give_no_rows(tmp_path: Path) -> None:
    report = direct(request(tmp_path, source=Source(SourceKind.NULL)))
    assert (report.outcome.events, report.row_count, report.verdict) == (0, 0, None)
    assert report.unjudged == "there were no events"


@pytest.mark.parametrize("mode", Mode)
def test_lines_of_a_file_are_judged_if_they_are_the_generators_own(
    tmp_path: Path, mode: Mode
) -> None:
    generator = toy.ToyGenerator(SETTINGS)
    lines = [generator.to_line(element) for element in generator.elements(0, 25)[0]]
    path = tmp_path / "events.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines))
    source = Source(SourceKind.FILE, str(path))
    report = direct(request(tmp_path / "one", mode=mode, source=source))
    assert report.verdict is not None and report.right
    assert rows_of(report) == ANSWER

    path.write_text("".join(f"{line}\n" for line in lines[:20]))
    report = direct(request(tmp_path / "two", mode=mode, source=source))
    assert report.verdict is None
    assert report.unjudged == f"{path} has 20 lines, these settings make 25"
    assert rows_of(report) == ANSWER[:6]
    assert report.outcome.events == 20


def test_the_oracle_is_not_asked_if_nobody_wants_it(tmp_path: Path) -> None:
    report = direct(request(tmp_path, "forgetful"), check=False)
    assert report.verdict is None and report.unjudged == "not asked for"
    assert not (tmp_path / "log").exists()


def test_a_folder_belongs_to_one_run(tmp_path: Path) -> None:
    direct(request(tmp_path))
    direct(request(tmp_path))
    other = toy.ToySettings(events=25, keys=2)
    with pytest.raises(OptionError, match="holds a run with keys 3, not 2; give another folder"):
        direct(request(tmp_path, settings=other))
    with pytest.raises(OptionError, match="with mode streaming, not batch"):
        direct(request(tmp_path, mode=Mode.BATCH))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"source": Source(SourceKind.FILE, "no/such/file")}, "there is no file no/such/file"),
        ({"source": Source(SourceKind.SPARK)}, "the system must be headrace or spark"),
        ({"sink": Sink(SinkKind.SPARK, "x")}, "the system must be headrace or spark"),
        ({"name": "batch-only"}, "toy batch-only can be run in batch only"),
    ],
    ids=["file", "source", "sink", "mode"],
)
def test_what_cannot_be_run_is_refused_with_the_reason(
    tmp_path: Path, changes: dict[str, Any], told: str
) -> None:
    with pytest.raises(OptionError, match=told):
        direct(request(tmp_path, **changes))


def test_triggers_that_ask_for_the_time_are_refused_where_there_is_no_clock(tmp_path: Path) -> None:
    workload = CATALOG.workload("nexmark", "q12")
    asked = request(tmp_path, workload=workload, settings=workload.settings(num_events=100))
    with pytest.raises(UnsupportedTransformError, match="nexmark q12: Beam's FnApiRunner has no"):
        direct(asked)


def test_what_spark_alone_cannot_answer_is_refused_before_it_starts(tmp_path: Path) -> None:
    asked = request(tmp_path, "batch-only", mode=Mode.BATCH)
    with pytest.raises(OptionError, match="cannot answer toy batch-only: Spark has no toys"):
        run_workload(asked, choose("spark"))
    asked = request(tmp_path / "other", source=Source(SourceKind.VECTOR))
    with pytest.raises(OptionError, match="the source vector gives lines or nothing"):
        run_workload(asked, choose("spark"))


def test_an_unknown_system_is_refused() -> None:
    with pytest.raises(OptionError, match="no system 'flink'; there are headrace, spark, direct"):
        choose("flink")


@pytest.mark.spark
def test_headrace_and_spark_alone_give_the_same_answer_in_streaming(
    spark: Any, tmp_path: Path
) -> None:
    seen: list[Glance] = []

    class Look:
        def __init__(self, look: Any) -> None:
            self._look = look

        def __enter__(self) -> None:
            pass

        def __exit__(self, *unused: object) -> None:
            seen.append(self._look())

    for name, source in (
        ("headrace", SourceKind.GENERATOR), ("headrace", SourceKind.SPARK),
        ("spark", SourceKind.SPARK),
    ):
        asked = request(
            tmp_path / f"{name}-{source.value}", source=Source(source), shards=2, readers=2,
            watch=Look,
        )
        report = run_workload(asked, choose(name, spark))
        assert report.verdict is not None and report.right, report.verdict
        assert rows_of(report) == ANSWER
        assert report.outcome.checkpoint_bytes
        assert f"Spark {spark.version}" in report.outcome.engine
    assert [glance.events for glance in seen[:-1]] == [25, 25]  # a start for each
    assert seen[-1].events == 26  # one more closes the last window
    day = (toy.START // toy.SECOND // 86_400 + 1000) * 86_400
    assert seen[-1].watermark == day * toy.SECOND


@pytest.mark.spark
def test_headrace_goes_on_with_the_folder_of_an_earlier_run(spark: Any, tmp_path: Path) -> None:
    first = run_workload(request(tmp_path, shards=2), choose("headrace", spark))
    again = run_workload(request(tmp_path, shards=2), choose("headrace", spark))
    assert rows_of(first) == rows_of(again) == ANSWER
    assert first.outcome.events_per_second is not None
    assert again.outcome.events_per_second is None  # most of the time is not in its figure
