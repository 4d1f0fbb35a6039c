"""Logs of events: the same in every format and with any number of processes, complete or absent."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.errors import OptionError
from headrace.lab.data import files
from headrace.lab.data.files import Format, log
from headrace.lab.workloads.nexmark import generator
from headrace.lab.workloads.nexmark.settings import NexmarkSettings

MADE = generator(NexmarkSettings(num_events=2_500))


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices of 200 events, so that 2,500 make three Parquet files."""
    monkeypatch.setattr(files, "SLICE", 200)


def lines() -> str:
    return "".join(f"{MADE.to_line(record)}\n" for record in MADE.elements(0, 2_500)[0])


@pytest.mark.usefixtures("small_slices")
def test_parquet_is_a_folder_of_parts_with_all_columns_in_order(tmp_path: Path) -> None:
    target = log(MADE, tmp_path / "events")
    parts = sorted(target.iterdir())
    assert [part.name for part in parts] == [f"part-0000{n}.parquet" for n in range(3)]
    assert [pq.ParquetFile(part).num_row_groups for part in parts] == [5, 5, 3]
    table = pa.concat_tables([pq.read_table(part) for part in parts])
    assert table.schema.equals(MADE.schema)
    assert table.to_pylist() == MADE.batch(0, 2_500).to_pylist()


@pytest.mark.usefixtures("small_slices")
def test_an_arrow_file_has_all_columns_in_order(tmp_path: Path) -> None:
    target = log(MADE, str(tmp_path / "events.arrow"), Format.ARROW)
    with pa.ipc.open_file(target) as reader:
        assert reader.num_record_batches == 13
        assert reader.read_all().to_pylist() == MADE.batch(0, 2_500).to_pylist()


@pytest.mark.usefixtures("small_slices")
def test_json_lines_are_the_records_in_order(tmp_path: Path) -> None:
    target = log(MADE, tmp_path / "events.jsonl", Format.JSONL)
    assert target.read_text(encoding="utf-8") == lines()


@pytest.mark.usefixtures("small_slices")
def test_two_processes_write_the_same_bytes_as_one(tmp_path: Path) -> None:
    target = log(MADE, tmp_path / "two.jsonl", Format.JSONL, 2)
    assert target.read_text(encoding="utf-8") == lines()
    one, two = log(MADE, tmp_path / "one"), log(MADE, tmp_path / "two", processes=2)
    for part in sorted(one.iterdir()):
        assert (two / part.name).read_bytes() == part.read_bytes()
    assert len(list(two.iterdir())) == 3


@pytest.mark.usefixtures("small_slices")
@pytest.mark.parametrize("fmt", list(Format))
def test_progress_is_told_of_every_slice(fmt: Format, tmp_path: Path) -> None:
    told: list[int] = []
    log(MADE, tmp_path / "events", fmt, progress=told.append)
    assert told == [*range(200, 2_500, 200), 2_500]


@pytest.mark.usefixtures("small_slices")
@pytest.mark.parametrize("fmt", list(Format))
def test_what_fails_in_the_middle_leaves_nothing_behind(fmt: Format, tmp_path: Path) -> None:
    def stop(written: int) -> None:
        if written > 1_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        log(MADE, tmp_path / "events", fmt, progress=stop)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("fmt", list(Format))
def test_what_is_there_already_is_not_touched(fmt: Format, tmp_path: Path) -> None:
    target = tmp_path / "events"
    target.write_text("mine")
    with pytest.raises(OptionError, match="events exists already"):
        log(MADE, target, fmt)
    assert target.read_text() == "mine"


def test_a_folder_that_is_missing_is_made(tmp_path: Path) -> None:
    assert log(MADE, tmp_path / "a" / "b" / "events").is_dir()


def test_a_target_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OptionError, match="events cannot be written: "):
        log(MADE, tmp_path / "file" / "events", Format.JSONL)


def test_a_stream_without_an_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="say how many you need"):
        log(generator(NexmarkSettings(num_events=0)), tmp_path / "events")


def test_slices_get_smaller_when_records_are_large(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"num_events": 3_000, "avg_bid_byte_size": 10_000}
    large = generator(NexmarkSettings(**settings))
    with mock.patch.object(files, "_SLICE_BYTES", 10**7):
        target = log(large, tmp_path / "events")
    groups = pq.ParquetFile(target / "part-00000.parquet")
    assert groups.metadata.row_group(0).num_rows in range(800, 1_300)  # 10 MB of 9.5 KB each
    assert pq.read_table(target)["number"].to_pylist() == list(range(3_000))
