"""Sources, sinks and the rows that sinks keep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import OptionError
from headrace.lab.data.timeline import Timeline
from headrace.lab.endpoints import event_log, line_log
from headrace.lab.endpoints.names import (
    Sink,
    SinkKind,
    Source,
    SourceKind,
    read_sink,
    read_source,
)
from headrace.lab.endpoints.rows import (
    RowsInMemory,
    RowsInParquet,
    write_json_lines,
)
from headrace.lab.endpoints.sources import differs, events_of, held, spooled
from headrace.lab.workload import Column, Kind
from tests.lab import toy
from tests.lab.json_lines import read_json_lines

COLUMNS = (Column("name", Kind.STRING), Column("count", Kind.LONG), Column("mean", Kind.DOUBLE))
TOY = toy.ToyGenerator(toy.ToySettings(events=25))


def test_endpoints_are_read_by_name_and_path() -> None:
    assert read_source("generator") == Source(SourceKind.GENERATOR)
    assert read_source("spark:log:of/today") == Source(SourceKind.SPARK, "log:of/today")
    assert read_sink("spark:rows") == Sink(SinkKind.SPARK, "rows")
    assert {read_sink(kind.value).kind for kind in SinkKind if kind is not SinkKind.SPARK} == (
        set(SinkKind) - {SinkKind.SPARK}
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("fil:x", "there is no source 'fil'; there are generator, vector, file, console"),
        ("file", "the source file needs a path"),
        ("vector:x", "the source vector has no path"),
    ],
)
def test_a_source_that_makes_no_sense_is_refused(text: str, told: str) -> None:
    with pytest.raises(OptionError, match=told):
        read_source(text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("nul", "no sink 'nul'; there are file, vector, columns, console, meter, spark, null"),
        ("spark", "the sink spark needs a path"),
        ("file:x", "the sink file has no path; --output"),
    ],
)
def test_a_sink_that_makes_no_sense_is_refused(text: str, told: str) -> None:
    with pytest.raises(OptionError, match=told):
        read_sink(text)


@given(st.lists(st.tuples(st.text(), st.integers(-(2**62), 2**62), st.floats(allow_nan=False))))
def test_rows_survive_the_way_through_a_file_of_json_lines(rows: list[Any]) -> None:
    path = Path(_scratch()) / "rows.jsonl"
    write_json_lines(path, COLUMNS, rows)
    assert read_json_lines(path, COLUMNS) == rows
    assert list(path.parent.iterdir()) == [path]  # nothing half-written stays


_FOLDERS: list[str] = []


def _scratch() -> str:
    return _FOLDERS[-1]


@pytest.fixture(autouse=True, scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> None:
    _FOLDERS.append(str(tmp_path_factory.mktemp("rows")))


def test_rows_in_folders_by_epoch_are_read_in_the_order_of_the_columns(tmp_path: Path) -> None:
    hidden = tmp_path / ".above" / "_rows"  # only names below the folder decide what is read
    for epoch, (name, count) in enumerate([("a", 1), ("b", 2)]):
        folder = hidden / f"epoch={epoch:08d}"
        folder.mkdir(parents=True)
        table = pa.table({"mean": [0.5], "count": [count], "name": [name]})
        pq.write_table(table, folder / "part.parquet")
    notes = hidden / "_headrace"
    notes.mkdir()
    (notes / "note.parquet").write_bytes(b"no Parquet at all")
    assert sorted(RowsInParquet(str(hidden)).read(COLUMNS)) == [("a", 1, 0.5), ("b", 2, 0.5)]


def test_no_folder_means_no_rows(tmp_path: Path) -> None:
    assert RowsInParquet(str(tmp_path / "none")).read(COLUMNS) == []
    assert RowsInMemory(((1,),)).read(COLUMNS) == [(1,)]


def test_held_elements_are_those_of_the_generator_with_their_times() -> None:
    assert list(held(TOY))[:4] == [
        ((value, toy.START + second * toy.SECOND), toy.START + second * toy.SECOND)
        for second, value in enumerate([0, 1, 2, 0])
    ]
    assert len(list(held(TOY))) == 25


def lines_of(generator: toy.ToyGenerator) -> list[str]:
    elements, _ = generator.elements(0, generator.events)
    return [generator.to_line(element) for element in elements]


def test_a_file_of_the_generators_own_lines_does_not_differ(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    lines = lines_of(TOY)
    path.write_text("".join(f"{line}\n" for line in lines))
    assert differs(str(path), TOY) == ""
    assert events_of(Source(SourceKind.FILE, str(path)), TOY) == 25
    path.write_text("".join(f"{line}\n" for line in lines[:24]))
    assert differs(str(path), TOY) == f"{path} has 24 lines, these settings make 25"
    path.write_text("".join(f"{line}\n" for line in [*lines, lines[0]]))
    assert "more lines than the 25" in differs(str(path), TOY)
    path.write_text("".join(f"{line}\n" for line in [lines[1], *lines[1:]]))
    assert differs(str(path), TOY) == f"line 1 of {path} is not event 0 of these settings"


def test_a_bad_line_of_the_console_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    good = lines_of(TOY)[0]
    monkeypatch.setattr("sys.stdin", [f"{good}\n", '{"x": 1}\n'])
    with pytest.raises(OptionError, match='line 2 of the standard input: no number: {"x": 1}'):
        spooled(Source(SourceKind.CONSOLE), TOY, tmp_path)


def test_the_lines_of_the_console_become_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.stdin", [f"{line}\n" for line in lines_of(TOY)])
    source = spooled(Source(SourceKind.CONSOLE), TOY, tmp_path)
    assert differs(source.path, TOY) == ""
    assert spooled(source, TOY, tmp_path) == source


def test_a_log_holds_every_event_once_and_files_age_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_log, "ROWS_PER_FILE", 10)
    told: list[int] = []
    pattern = event_log.write_log(TOY, tmp_path, done=told.append)
    assert told == [10, 20, 25]
    files = sorted(Path(pattern).parent.glob("*.parquet"))
    assert [pq.read_table(path).num_rows for path in files] == [10, 10, 5]
    assert pq.read_table(files[2])["number"].to_pylist() == [20, 21, 22, 23, 24]
    ages = [path.stat().st_mtime for path in files]
    assert ages == sorted(set(ages))
    assert toy.counts(pattern, TOY.settings) == [
        (1_600_000_000, 0, 4), (1_600_000_000, 1, 3), (1_600_000_000, 2, 3),
        (1_600_000_010, 1, 4), (1_600_000_010, 2, 3), (1_600_000_010, 0, 3),
        (1_600_000_020, 2, 2), (1_600_000_020, 0, 2), (1_600_000_020, 1, 1),
    ]


def test_closing_events_lie_far_ahead_at_the_beginning_of_a_day_within_one_second() -> None:
    fast = toy.ToyGenerator(toy.ToySettings(events=25, rate=10))
    for generator, expected in ((TOY, 1), (fast, 10)):
        first, count = event_log.far_ahead(generator)
        assert count == expected
        times = [generator.watermark(number) for number in range(first, first + count)]
        day = 86_400 * toy.SECOND
        assert times[0] % day == 0
        assert times[-1] - times[0] < toy.SECOND
        assert 999 * day < times[0] - generator.watermark(25) <= 1000 * day


def test_the_closing_file_is_younger_than_all_others(tmp_path: Path) -> None:
    event_log.write_log(TOY, tmp_path)
    event_log.write_closing(TOY, tmp_path, "tests.lab.toy")
    (events,) = (tmp_path / "events").glob("*.parquet")
    (closing,) = (tmp_path / "closing").glob("*.parquet")
    assert closing.stat().st_mtime > events.stat().st_mtime
    assert pq.read_schema(closing) == pq.read_schema(events)


class Shuffled(toy.ToyGenerator):
    """Five numbers in each other's place."""

    def _micros(self, number: int) -> int:
        line = Timeline(base_ms=toy.START // 1000, rate=1, group=5)
        return int(line.nanos(pa.array([number]).to_numpy())[0]) // 1000


@pytest.mark.parametrize("per_file", [3, 5, 100])
def test_lines_in_parquet_say_how_far_out_of_order_they_are(tmp_path: Path, per_file: int) -> None:
    generator = Shuffled(toy.ToySettings(events=25))
    line_log.write_lines(generator, tmp_path, per_file=per_file)
    _, times = generator.elements(0, 25)
    worst = max(max(times[: n + 1]) - times[n] for n in range(25))
    assert worst > 0
    assert line_log.disorder_seconds(tmp_path) == worst / toy.SECOND
    files = sorted(tmp_path.glob("*.parquet"))
    lines = [line for path in files for line in pq.read_table(path)["line"].to_pylist()]
    assert lines == lines_of(generator)


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"time": [1], "line": ["x"]}, "time int64, line string"),
        ({"number": [1], "price": [2.0]}, "number int64, price double"),
        ({"line": ["x"]}, "has line string"),
    ],
)
def test_a_folder_of_another_shape_is_refused_and_not_read_as_an_empty_stream(
    tmp_path: Path, columns: dict[str, list[Any]], told: str
) -> None:
    pq.write_table(pa.table(columns), tmp_path / "0.parquet")
    with pytest.raises(OptionError, match=told):
        line_log.check_lines(tmp_path)


def test_a_folder_without_files_or_with_rubbish_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="there are none"):
        line_log.check_lines(tmp_path / "nowhere")
    (tmp_path / ".hidden.parquet").write_bytes(b"half a file")
    with pytest.raises(OptionError, match="there are none"):
        line_log.check_lines(tmp_path)
    (tmp_path / "0.parquet").write_bytes(b"rubbish")
    with pytest.raises(OptionError, match="cannot read .*0.parquet"):
        line_log.check_lines(tmp_path)


def test_what_the_lab_writes_itself_is_of_the_right_shape(tmp_path: Path) -> None:
    line_log.write_lines(TOY, tmp_path, per_file=4)
    line_log.check_lines(tmp_path)
