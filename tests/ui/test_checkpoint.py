"""A checkpoint looked at from outside: what its manifests say, while it grows, untouched."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from headrace.cli import ui
from headrace.testing import LocalRunner, ScriptedStream
from headrace.ui.checkpoint import CheckpointWatch, checkpoint_files
from tests.ui.faults import COLUMNS, Bed, grouped, rows

ROOT = Path(__file__).parents[2]


def listed(folder: Path) -> dict[str, int]:
    return {
        str(p.relative_to(folder)): p.stat().st_mtime_ns for p in folder.rglob("*") if p.is_file()
    }


def test_the_manifests_of_a_run_are_shown_as_they_come(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    bed = Bed(options=[], stream=ScriptedStream(COLUMNS))
    options = PipelineOptions([f"--checkpoint={folder}", "--job_name=shop"])
    p = beam.Pipeline(runner=LocalRunner(), options=options)
    grouped(bed, p)
    result = p.run()
    try:
        bed.stream.add(*rows(0))
        result.settle()
        files = checkpoint_files(str(folder))
        assert files is not None
        before = listed(folder)
        watch = CheckpointWatch(files)
        found = watch.history.document()
        assert listed(folder) == before
        assert (found["name"], found["kind"], found["shards"]) == ("shop", "checkpoint", 2)
        assert [e["epoch"] for e in found["epochs"]] == [0, 1]
        assert set(found["epochs"][-1]["sources"]["Clicks"]["partitions"]) == {"0", "1", "2", "3"}
        steps = {step for stage in found["graph"]["stages"] for step in stage["steps"]}
        assert {"Pair", "Name"} <= steps
        for batch in (1, 2, 3):
            bed.stream.add(*rows(batch, silent="3"))
            result.settle()
        watch.look()
        assert [f.sentence for f in watch.history.seen().findings] == [
            "source partition 3 of Clicks holds the watermark"
        ]
    finally:
        result.cancel()


def test_a_checkpoint_shows_as_many_past_epochs_as_the_page_says(tmp_path: Path) -> None:
    least, most = 3, 13
    page = " ".join((ROOT / "docs" / "guide" / "live-page.md").read_text("utf-8").split())
    assert f"`headrace ui` shows {least} to {most} epochs" in page
    folder = tmp_path / "checkpoint"
    bed = Bed(options=[], stream=ScriptedStream(COLUMNS))
    options = PipelineOptions([f"--checkpoint={folder}", "--progress=off"])
    p = beam.Pipeline(runner=LocalRunner(), options=options)
    grouped(bed, p)
    result = p.run()
    shown = []
    try:
        for batch in range(30):
            bed.stream.add(*rows(batch)[:10])
            result.settle()
            files = checkpoint_files(str(folder))
            assert files is not None
            shown.append(len(CheckpointWatch(files).history.document()["epochs"]))
    finally:
        result.cancel()
    assert min(shown[least:]) == least
    assert least < max(shown) <= most


def test_a_folder_that_is_no_checkpoint_is_told_so(tmp_path: Path) -> None:
    asked = SimpleNamespace(checkpoint=str(tmp_path), port=0, host="127.0.0.1")
    assert ui.run(asked) == 2  # type: ignore[arg-type]
