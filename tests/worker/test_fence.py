"""Tasks of a driver that was overtaken stop, and move no files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from apache_beam.io.filesystems import FileSystems

from headrace.errors import CheckpointError
from headrace.state.files import Files
from headrace.worker.task import fence

NEXT = "incarnations/00000002.json"


@pytest.fixture
def epoch(tmp_path: Path) -> Iterator[Any]:
    """As much of an epoch as the fence looks at."""
    files = Files(str(tmp_path / "checkpoint"))
    yield SimpleNamespace(files=files, next_driver=NEXT, incarnation=1, number=7)
    fence.enter(None)


def overtake(epoch: Any) -> None:
    epoch.files.write(NEXT, b"{}")


def test_a_task_of_the_newest_driver_goes_on(epoch: Any) -> None:
    fence.enter(epoch)
    fence.check()


def test_a_task_of_an_older_driver_does_not_begin(epoch: Any) -> None:
    overtake(epoch)
    with pytest.raises(CheckpointError, match="incarnation 1 and stops, epoch 7 does not count"):
        fence.enter(epoch)


@pytest.mark.parametrize("change", ["rename", "copy", "delete"])
def test_beam_s_file_sinks_change_no_files_once_the_driver_is_overtaken(
    epoch: Any, tmp_path: Path, change: str
) -> None:
    made, target = tmp_path / "made", tmp_path / "target"
    made.write_text("rows")
    arguments = ([str(made)],) if change == "delete" else ([str(made)], [str(target)])
    fence.enter(epoch)
    overtake(epoch)
    with pytest.raises(CheckpointError, match="a newer driver has taken checkpoint"):
        getattr(FileSystems, change)(*arguments)
    assert made.read_text() == "rows" and not target.exists()
    fence.enter(None)
    getattr(FileSystems, change)(*arguments)
    assert made.exists() is (change == "copy")
