"""OpenLineage's events of whole runs, by its client's own transports."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import apache_beam as beam
import jsonschema  # type: ignore[import-untyped]
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from headrace.errors import OptionError
from headrace.io import ReadFromSpark
from headrace.plan.datasets import Touched
from headrace.telemetry import lineage
from headrace.testing import Collected, LocalRunner, ScriptedStream
from tests.telemetry.receiver import receiving
from tests.ui.test_findings import epoch

FACETS = {
    "type": "object",
    "additionalProperties": {
        "type": "object", "required": ["_producer", "_schemaURL"],
        "properties": {"_producer": {"type": "string"}, "_schemaURL": {"type": "string"}},
    },
}  # fmt: skip
DATASET = {
    "type": "object", "required": ["namespace", "name"],
    "properties": {
        "namespace": {"type": "string", "minLength": 1}, "name": {"type": "string", "minLength": 1},
        "facets": FACETS,
    },
}  # fmt: skip
#: What the specification, version 2, asks of a run event; written by hand.
EVENT = {
    "type": "object",
    "required": ["eventTime", "producer", "schemaURL", "run", "job"],
    "properties": {
        "eventType": {"enum": ["START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"]},
        "eventTime": {"pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d.*(Z|\+00:00)$"},
        "schemaURL": {"type": "string", "pattern": "#/\\$defs/RunEvent$"},
        "producer": {"type": "string", "pattern": "^[a-z]+:"},
        "run": {
            "type": "object", "required": ["runId"],
            "properties": {
                "runId": {"pattern": "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"},
                "facets": FACETS,
            },
        },
        "job": {**DATASET, "required": ["namespace", "name"]},
        "inputs": {"type": "array", "items": DATASET},
        "outputs": {"type": "array", "items": DATASET},
    },
}  # fmt: skip


def checked(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Hold events against the specification, and see that they are of one run."""
    for event in events:
        jsonschema.validate(event, EVENT)
    assert len({event["run"]["runId"] for event in events}) == 1
    return events


@pytest.fixture
def events_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that the client's own configuration names."""
    for name in ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG", "OPENLINEAGE_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "events.jsonl"
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "file")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__LOG_FILE_PATH", str(file))
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__APPEND", "true")
    monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "shop")
    return file


def read(file: Path) -> list[dict[str, Any]]:
    return checked([json.loads(line) for line in file.read_text().splitlines()])


def copy_files(folder: Path, *options: str) -> str:
    """Copy lines from one file to others; give what was written."""
    source = folder / "in.txt"
    source.write_text("a\nb\n")
    options = ("--lineage", "--job_name=copy", *options)
    with beam.Pipeline(runner=LocalRunner(), options=PipelineOptions(list(options))) as p:
        p | beam.io.ReadFromText(str(source)) | beam.io.WriteToText(str(folder / "out" / "part"))
    return "".join(sorted(f.read_text() for f in (folder / "out").iterdir()))


def test_a_batch_starts_and_completes_with_the_files_that_beam_names(
    events_at: Path, tmp_path: Path
) -> None:
    assert sorted(copy_files(tmp_path).split()) == ["a", "b"]
    start, end = read(events_at)
    assert (start["eventType"], end["eventType"]) == ("START", "COMPLETE")
    assert (end["job"]["namespace"], end["job"]["name"]) == ("shop", "copy")
    assert end["job"]["facets"]["jobType"]["processingType"] == "BATCH"
    for event in (start, end):
        assert [(d["namespace"], d["name"]) for d in event["inputs"]] == [
            ("file", str(tmp_path / "in.txt"))
        ]
        assert [(d["namespace"], d["name"]) for d in event["outputs"]] == [
            ("file", str(tmp_path / "out"))
        ]


def stream() -> tuple[ScriptedStream, Any, Collected]:
    clicks, out = ScriptedStream("shop string, price long"), Collected()
    p = beam.Pipeline(runner=LocalRunner(), options=PipelineOptions(["--lineage"]))
    p | "Clicks" >> ReadFromSpark(clicks) | "Out" >> out.sink("shop string, price long")
    return clicks, p.run(), out


def test_a_stream_tells_that_it_goes_on_and_is_drained(events_at: Path) -> None:
    clicks, result, out = stream()
    for price in range(3):
        clicks.add(("north", price))
        result.settle()
    result.drain()
    found = read(events_at)
    # Epochs of the same minute are one event.
    assert [event["eventType"] for event in found] == ["START", "RUNNING", "COMPLETE"]
    assert found[0]["job"]["facets"]["jobType"]["processingType"] == "STREAMING"
    assert len(out.rows) == 3


def test_a_stream_that_is_cancelled_is_aborted(events_at: Path) -> None:
    clicks, result, _ = stream()
    clicks.add(("north", 1))
    result.settle()
    result.cancel()
    assert read(events_at)[-1]["eventType"] == "ABORT"


def test_a_failure_is_told_by_its_class_and_step_alone(events_at: Path) -> None:
    def fail(text: str) -> str:
        raise ValueError(text)

    p = beam.Pipeline(runner=LocalRunner(), options=PipelineOptions(["--lineage"]))
    p | beam.Create(["secret"]) | "Fail" >> beam.Map(fail)
    with pytest.raises(ValueError, match="secret"):
        p.run().wait_until_finish()
    end = read(events_at)[-1]
    assert end["eventType"] == "FAIL"
    assert end["run"]["facets"]["errorMessage"]["message"] == "ValueError in step Fail"
    assert "secret" not in events_at.read_text()


def test_events_go_by_http_where_the_environment_says_so(
    events_at: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with receiving() as kept:
        monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "http")
        monkeypatch.setenv("OPENLINEAGE__TRANSPORT__URL", kept.url)
        copy_files(tmp_path)
        found = checked([json.loads(body) for body in kept.bodies("/api/v1/lineage")])
    assert [event["eventType"] for event in found] == ["START", "COMPLETE"]


def test_a_receiver_that_does_not_answer_changes_nothing(
    events_at: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(lineage, "CLOSE_SECONDS", 0.1)
    with receiving() as kept:
        kept.hold.clear()
        monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "http")
        monkeypatch.setenv("OPENLINEAGE__TRANSPORT__URL", kept.url)
        assert sorted(copy_files(tmp_path).split()) == ["a", "b"]
    assert "has not taken all events" in caplog.text


def test_a_transport_that_fails_changes_nothing(
    events_at: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__LOG_FILE_PATH", str(tmp_path))  # a folder
    assert sorted(copy_files(tmp_path).split()) == ["a", "b"]


def test_only_the_first_failure_of_a_transport_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    tried = []

    def emit(event: Any) -> None:
        tried.append(event.eventType.name)
        raise OSError(f"try {len(tried)}")  # noqa: EM102

    watcher = lineage.LineageWatcher(
        "shop", Touched(), streaming=True, version="1", spark="", emit=emit
    )
    watcher.epoch(epoch(1))
    watcher.ended("ENDED")
    assert tried == ["START", "RUNNING", "COMPLETE"]
    assert [text for text in caplog.messages if "OSError: try" in text] == [
        "an event of OpenLineage's was not sent: OSError: try 1. The run goes on; later failures "
        "of this kind are not logged"
    ]


def test_a_configuration_that_is_none_is_refused_before_the_run(
    events_at: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "pigeon")
    with pytest.raises(OptionError, match="--lineage"):
        copy_files(tmp_path)
    assert not (tmp_path / "out").exists()


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openlineage.client", None)
    with pytest.raises(OptionError, match=r"pip install headrace\[lineage\]"):
        stream()
