"""Folders of epochs made of files that workers wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.io.places import EpochFolders
from headrace.io.sinks import WriteToSpark


def folders(path: Path) -> EpochFolders:
    made = EpochFolders(str(path), "parquet", {}, ())
    made._first["w"] = 5  # the place has been made ready: five epochs of another run are there
    return made


def staged(made: EpochFolders, attempt: str, **files: str) -> tuple[str, list[str]]:
    place = Path(made.staging("w", attempt))
    place.mkdir(parents=True)
    for name, text in files.items():
        (place / name).write_text(text)
    return str(place), list(files)


def there(path: Path) -> dict[str, str]:
    return {
        f"{file.parent.name}/{file.name}": file.read_text()
        for file in path.rglob("*")
        if file.is_file()
    }


def test_files_become_the_folder_of_their_epoch_and_nothing_else_is_left(tmp_path: Path) -> None:
    made = folders(tmp_path)
    place, names = staged(made, "1.1", a="rows", b="more")
    (Path(place) / "stray").write_text("of a task that failed")
    made.take(2, "w", place, names)
    assert there(tmp_path) == {"epoch=00000007/a": "rows", "epoch=00000007/b": "more"}


def test_a_second_attempt_replaces_the_first(tmp_path: Path) -> None:
    made = folders(tmp_path)
    made.take(0, "w", *staged(made, "1.1", a="old", b="old"))
    made.take(0, "w", *staged(made, "2.1", c="new"))
    assert there(tmp_path) == {"epoch=00000005/c": "new"}


def test_what_an_attempt_that_failed_has_left_goes_with_the_next_epoch(tmp_path: Path) -> None:
    made = folders(tmp_path)
    staged(made, "1.1", a="of an epoch whose worker was lost")
    made.take(0, "w", *staged(made, "1.2", b="rows"))
    assert there(tmp_path) == {"epoch=00000005/b": "rows"}


def test_a_second_attempt_without_rows_removes_those_of_the_first(tmp_path: Path) -> None:
    made = folders(tmp_path)
    made.take(0, "w", *staged(made, "1.1", a="old"))
    made.take(0, "w", made.staging("w", "2.1"), [])
    assert there(tmp_path) == {}


def test_readers_pass_over_files_that_are_not_in_place_yet(tmp_path: Path) -> None:
    place = Path(folders(tmp_path).staging("w", "1.1"))
    assert place.relative_to(tmp_path).parts[0].startswith("_")


@pytest.mark.parametrize(
    ("arguments", "taken"),
    [
        ({"path": "/data/rows"}, True),
        ({"path": "file:///data/rows"}, True),
        ({"path": "/data/rows", "format": "Parquet"}, True),
        ({"path": "rows"}, False),  # Spark may have another idea of where it is
        ({"path": "hdfs://there/rows"}, False),
        ({"path": "/data/rows", "format": "json"}, False),
        ({"path": "/data/rows", "options": {"compression": "zstd"}}, False),
        ({"path": "/data/rows", "partition_by": ["day"]}, False),
        ({"table": "rows"}, False),
        ({"function": print}, False),
    ],
)
def test_workers_write_plain_parquet_on_a_local_disk_alone(
    arguments: dict[str, Any], taken: bool
) -> None:
    assert WriteToSpark(**arguments).takes_files is taken
