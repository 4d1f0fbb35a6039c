"""`headrace generate`: what it writes, what it says, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from headrace.cli import generate
from headrace.cli.main import main
from headrace.lab.parameters import parameters_of
from headrace.lab.workloads.nexmark.settings import NexmarkSettings
from headrace.terminal.display import Look
from headrace.terminal.view import line


def said(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    try:
        found = main(["generate", *arguments])
    except SystemExit as e:
        found = int(e.code or 0)
    printed = capsys.readouterr()
    assert found == status
    return printed.err if status else printed.out


def test_events_are_written_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "events.jsonl"
    text = said(
        capsys, "nexmark", "--events", "2K", "--format", "jsonl", "--output", str(target)
    )
    assert text.startswith("2,000 events, ")
    assert f" MB, in {target} after " in text
    lines = target.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 2_000
    first = json.loads(lines[0])
    assert (first["name"], first["emailAddress"]) == ("Peter Jones", "nhd@xcat.com")


def test_settings_are_options_by_their_own_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said(
        capsys, "nexmark", "--num_events", "100", "--output", str(tmp_path / "events"),
        "--num_event_generators", "10", "--split", "--base_time", "5000",
        "--first_event_rate", "1", "--next_event_rate", "1",
    )
    nanos = pq.read_table(tmp_path / "events")["nanos"].to_pylist()
    # Ten generators side by side, each with an event every ten seconds.
    assert nanos == [(5 + 10 * (n // 10)) * 10**9 for n in range(100)]


def test_the_help_of_a_suite_shows_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "nexmark", "--help")
    words = text.split()
    for parameter in parameters_of(NexmarkSettings):
        assert f"--{parameter.name}" in words
    assert "headrace generate nexmark --events 10M --format parquet --output events" in text


@pytest.mark.parametrize("suite", ["yahoo", "hibench", "windowed"])
def test_the_other_suites_have_events_too(
    suite: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said(capsys, suite, "--events", "300", "--output", str(tmp_path / "events"))
    assert pq.read_table(tmp_path / "events")["number"].to_pylist() == list(range(300))


def test_a_suite_with_events_for_each_workload_wants_to_know_which(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = said(capsys, "kernels", "--events", "5", "--output", str(tmp_path / "x"), status=1)
    assert text.startswith("headrace: each workload of kernels has its own events: name one of ")
    said(capsys, "kernels", "finance", "--events", "50", "--output", str(tmp_path / "x"))
    assert len(pq.read_table(tmp_path / "x")) == 50


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (["nexmak", "--events", "5"], "there is no suite 'nexmak'; did you mean nexmark?"),
        (["nexmark", "--events", "many"], "num_events=many is outside its domain: a whole number"),
        (["nexmark", "--events", "-5"], "num_events=-5 is outside its domain"),
        (["nexmark", "--rate_shape", "round"], "rate_shape=round is outside its domain: one of"),
        (["nexmark", "--events", "0"], "events do not fit into files: say how many you need"),
    ],
)
def test_rubbish_is_answered_with_one_sentence(
    options: list[str], fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = said(capsys, *options, "--output", str(tmp_path / "events"), status=1)
    assert len(text.splitlines()) == 1
    assert text.startswith("headrace: ")
    assert fault in text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (["--output", "x", "--colour", "3"], "unrecognized arguments: --colour 3"),
        (["--events", "5"], "the following arguments are required: --output"),
        (["--output", "x", "--format", "csv"], "invalid choice: 'csv'"),
        (["--output", "x", "--processes", "0"], "0 is not a whole number from 1 to 1,000"),
    ],
)
def test_options_that_there_are_none_of_are_refused_with_the_usage(
    options: list[str], fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = said(capsys, "nexmark", *options, status=2)
    assert fault in text
    assert len(text.splitlines()) == 2


def test_existing_output_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "events"
    target.mkdir()
    text = said(capsys, "nexmark", "--events", "5", "--output", str(target), status=1)
    assert text == f"headrace: {target} exists already; choose another name or delete it\n"


@pytest.mark.parametrize("style", ["plain", "rich"])
def test_how_far_it_is_goes_to_the_display_in_the_style_asked_for(
    style: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[Look, str]] = []

    @contextmanager
    def remembered(look: Look, style: str) -> Iterator[None]:
        told.append((look, style))
        yield

    monkeypatch.setattr(generate, "showing", remembered)
    target = str(tmp_path / "events")
    options = ["nexmark", "--events", "2000", "--output", target, "--progress", style]
    assert main(["generate", *options]) == 0
    ((look, asked),) = told
    assert asked == style
    assert line(look(3.0)) == "headrace: nexmark: 2,000 of 2,000 events; 3 s"


def test_short_work_shows_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "nexmark", "--events", "5", "--output", str(tmp_path / "e")]) == 0
    assert capsys.readouterr().err == ""
