"""Checkpoints of older formats: they open, their rows are read, and their runs go on.

What is promised stands in docs/checkpoint-format.md; that page is held against the code here too.
"""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Callable
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from headrace.cli.main import main
from headrace.engine.checkpoint import manifests
from headrace.engine.checkpoint.manifests import Manifest, number_of
from headrace.state import changelog
from headrace.state.files import Files
from headrace.state.layout import Kind, kind_of
from headrace.state.snapshot import read_chain
from headrace.state.store import MemoryStore
from headrace.testing import LocalRunner, Stores
from headrace.worker.userstate.residuals import Residuals
from tests.checkpoints.pipeline import AFTER, CUT_AFTER, build
from tests.streaming.harness import checkpointed, jotted

HOME = Path(__file__).parent
ROOT = HOME.parents[1]
PAGE = (ROOT / "docs" / "checkpoint-format.md").read_text(encoding="utf-8")
ARCHIVES = sorted(HOME.glob("format-*.tar.gz"))
#: Formats of which nobody kept a checkpoint.
LOST_FORMATS = {1}
#: What the pipeline keeps at the cut, in every format.
KINDS = {
    Kind.CELL, Kind.TIMER, Kind.TIMER_EVENT, Kind.TIMER_CLOCK, Kind.TIMER_HOLD, Kind.GROUP,
    Kind.SLICE, Kind.SIDE, Kind.PENDING_SIDE, Kind.PENDING_MAIN, Kind.PENDING_ELEMENTS,
    Kind.RESIDUAL, Kind.META,
}  # fmt: skip
#: How it keeps its sessions: up to format 3, and from 4 on.
AS_TRIGGERS = {Kind.TRIGGER, Kind.TRIGGER_VALUES, Kind.TRIGGER_EVENT, Kind.TRIGGER_HOLD}
AS_SESSIONS = {Kind.SESSION, Kind.SESSION_DUE}


def format_of(archive: Path) -> int:
    return int(archive.name.removeprefix("format-").removesuffix(".tar.gz"))


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.name.partition(".")[0])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Unpack a stored checkpoint into `checkpoint` of a folder of its own."""
    tmp_path.chmod(0o700)
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path / "checkpoint", filter="data")
    for path in (tmp_path / "checkpoint").rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return tmp_path


def newest(folder: Path) -> Manifest:
    names = (folder / "checkpoint" / "manifests").iterdir()
    return Manifest.from_bytes(max(names, key=lambda path: number_of(path.name) or 0).read_bytes())


def test_there_is_a_checkpoint_of_every_format_that_can_be_read() -> None:
    assert {*map(format_of, ARCHIVES)} | LOST_FORMATS == {*manifests.READABLE}
    assert max(manifests.READABLE) == manifests.FORMAT


def test_it_is_whole_and_its_manifest_says_where_everything_is(stored: Path) -> None:
    assert main(["state", "verify", str(stored / "checkpoint")]) == 0
    manifest = newest(stored)
    assert (manifest.epoch, manifest.shards) == (CUT_AFTER, 2)
    assert manifest.sources.begun and not manifest.sources.drained
    assert dict(manifest.sources.steps) == {"Script": 4}
    (mark,) = manifest.sources.marks.values()
    assert mark == 5_000_000


def test_its_rows_are_of_kinds_that_are_known(stored: Path) -> None:
    files = Files(str(stored / "checkpoint"))
    found = {
        kind_of(name)
        for chain in newest(stored).partitions.values()
        for name, _ in read_chain(files, chain, lambda _: True)
    }
    of_sessions = AS_SESSIONS if Kind.SESSION in found else AS_TRIGGERS
    assert found - {Kind.RESIDUAL_HOLD} == KINDS | of_sessions


def test_its_residuals_hold_and_come_back(stored: Path) -> None:
    """Up to format 2 they had no index; it is made when they are first opened."""
    files = Files(str(stored / "checkpoint"))
    taken = []
    for chain in newest(stored).partitions.values():
        store = MemoryStore()
        for name, value in read_chain(files, chain, lambda _: True):
            store.put(name, value)
        rows = [name for name in store.rows if kind_of(name) is Kind.RESIDUAL]
        for stage in {int.from_bytes(name[1:3], "big") for name in rows}:
            rests = Residuals(stage)
            rests.attach(store)
            wakeup = rests.next_wakeup()  # Beam takes off what the bundle took
            assert wakeup is not None and 999_000_000 < wakeup <= 1_000_000_000
            taken += rests.take_all()
            assert not [n for n in store.rows if kind_of(n) in (Kind.RESIDUAL, Kind.RESIDUAL_HOLD)]
    assert len(taken) == 2  # of a and of b


def test_a_format_that_cannot_be_read_is_refused_with_the_way_out(
    stored: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(manifests, "READABLE", (99,))
    assert main(["state", "verify", str(stored / "checkpoint")]) != 0
    printed = capsys.readouterr()
    assert "run the pipeline with the version that wrote" in printed.err + printed.out


def in_process(folder: Path) -> beam.Pipeline:
    options = ["--streaming", "--shards=2", "--progress=off"]
    return beam.Pipeline(
        runner=LocalRunner(stores=Stores.LMDB),
        options=PipelineOptions(
            [*options, f"--checkpoint={folder / 'checkpoint'}", f"--state_dir={folder / 'local'}"]
        ),
    )


@pytest.mark.parametrize(
    "place", [in_process, pytest.param(checkpointed, marks=pytest.mark.spark, id="spark")]
)
@pytest.mark.timeout(240)
def test_its_run_goes_on_to_the_end_with_the_right_answers(
    stored: Path, place: Callable[[Path], beam.Pipeline]
) -> None:
    pipeline = place(stored)
    build(pipeline, stored / "out")
    pipeline.run().wait_until_finish()
    assert sorted(jotted(stored / "out")) == sorted(AFTER)
    assert newest(stored).epoch > CUT_AFTER
    assert main(["state", "verify", str(stored / "checkpoint")]) == 0


def test_the_page_names_every_kind_of_row_by_its_letter() -> None:
    rows = re.findall(r"^\| `([A-Z_]+)` \| `(.)` \| [^|]+ \| [^|]+ \| (.+) \|$", PAGE, flags=re.M)
    assert {kind: letter for kind, letter, _ in rows} == {k.name: k.value for k in Kind}
    for _, _, writers in rows:
        for path in re.findall(r"`([^`]+)`", writers):
            assert (ROOT / "headrace" / path).is_file(), path


def test_the_page_names_every_key_of_a_manifest() -> None:
    part = PAGE.partition("## What a manifest holds")[2].partition("\n## ")[0]
    named = [key for row in re.findall(r"^\| (`[^|]+`) \|", part, re.M) for key in row.split(", ")]
    written = Manifest(epoch=1, incarnation=1, shards=1, pipeline="", partitions={}).to_bytes()
    assert sorted(key.strip("`") for key in named) == sorted(json.loads(written.splitlines()[0]))


def test_the_page_names_every_format() -> None:
    told = re.findall(r"^\| (\d+) \| ", PAGE, flags=re.MULTILINE)
    assert tuple(map(int, told)) == manifests.READABLE
    assert f"a format of their own, {changelog._FORMAT} so far" in PAGE
