"""`headrace state` on folders made by the real writers of manifests and files of state."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli.main import main
from headrace.cli.state import iso
from headrace.engine.checkpoint.checkpoints import Checkpoint
from headrace.engine.checkpoint.manifests import SourceRecord
from headrace.state.chain import Chain
from headrace.state.changelog import write_rows
from headrace.state.files import Files
from headrace.state.layout import Kind, name, part
from tests.engine.test_spark_log import Log

NOON = 1_893_499_200_000_000  # 2030-01-01T12:00:00Z
GLOBAL_END = 9_223_371_950_454_775_000  # where Beam's global window ends
CELL_1 = name(Kind.CELL, 1, 7, part(b"key"))
CELL_2 = name(Kind.CELL, 1, 9, part(b"other"))
TIMER = name(Kind.TIMER_EVENT, 1, 7, time=NOON)
ENDLESS = name(Kind.EXPIRY, 2, 7, time=GLOBAL_END)

PIPELINE = {
    "name": "auction", "fingerprint": "f00d", "shards": 11,
    "stages": [
        {"number": 1, "name": "Sum/Merge", "superstep": 1, "operators": ["Sum"], "state": {}}
    ],
    "channels": [],
}
LOG = "state/1-0/00000001-00000001-0.log"
AT_START = SourceRecord()


def chain_of(
    files: Files, partition: str, *logs: dict[bytes, bytes | None], first: int = 0
) -> Chain:
    chain = Chain()
    for epoch, rows in enumerate(logs, first):
        names = sorted(rows)
        link = write_rows(
            files, f"state/{partition}/{epoch:08d}-00000001-0.log",
            (names, [rows[row] for row in names]), until=epoch + 1,
        )
        chain = chain.extended(link)
    return chain


@pytest.fixture
def place(tmp_path: Path) -> str:
    """Two epochs: the second deletes one row of the first, changes one and adds two."""
    place = str(tmp_path / "checkpoint")
    with Checkpoint.open(place, PIPELINE, now=NOON) as checkpoint:
        first: dict[bytes, bytes | None] = {CELL_1: b"old", CELL_2: b"x"}
        second: dict[bytes, bytes | None] = {
            CELL_1: b"n" * 50, CELL_2: None, TIMER: b"", ENDLESS: b"e"
        }
        whole = chain_of(checkpoint.files, "1-0", first, second)
        tenth = chain_of(checkpoint.files, "1-10", {CELL_2: b"y"})
        partitions = [{"1-0": Chain(logs=whole.logs[:1], version=1, past=whole.past[:1])},
                 {"1-10": tenth, "1-2": Chain(), "1-0": whole}]
        for found in partitions:
            checkpoint.commit(
                checkpoint.manifest(partitions=found, watermarks={}, sources=AT_START, batches={})
            )
    return place


def said(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> list[str]:
    assert main(["state", *arguments]) == status
    printed = capsys.readouterr()
    return (printed.out if status < 2 and printed.out else printed.err).splitlines()


def test_ls_tells_epochs_drivers_and_units_in_the_order_of_their_numbers(
    place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = said(capsys, "ls", place)
    assert lines[0] == "pipeline auction, fingerprint f00d"
    assert lines[1].startswith("drivers started: 1, last incarnation 1 (process ")
    assert lines[1].endswith("started at 2030-01-01T12:00:00+00:00)")
    assert lines[2:4] == ["newest epoch 1; kept: 0, 1; 11 shards", ""]
    size = sum(path.stat().st_size for path in Path(place, "state", "1-0").iterdir())
    assert [line.split() for line in lines[4:]] == [
        ["partition", "superstep", "shard", "rows", "bytes", "base", "logs"],
        ["1-0", "1", "0", "6", f"{size:,}", "0", "2"],
        ["1-2", "1", "2", "0", "0", "0", "0"],
        ["1-10", "1", "10", "1", lines[-1].split()[4], "0", "1"],
    ]


def test_ls_counts_living_rows_by_stage_and_kind(
    place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = said(capsys, "ls", place, "--kinds")
    table = [line.split() for line in lines[lines.index("", 4) + 1 :]]
    # Names: 3 bytes, for kinds with a time 8, key group 4, then 1 + length for a part.
    assert table == [
        ["stage", "kind", "rows", "bytes", "step"],
        ["1", "CELL", "2", str((7 + 4 + 50) + (7 + 6 + 1)), "Sum/Merge"],
        ["1", "TIMER_EVENT", "1", "15", "Sum/Merge"],
        ["2", "EXPIRY", "1", "16"],
    ]


def test_show_prints_living_rows_with_what_their_names_say(
    place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, "show", place, "--partition", "1-0") == [
        f"1-0  CELL  stage 1 (Sum/Merge)  key group 7  name 11 B  value 50 B  {b'n' * 40!r}...",
        "1-0  TIMER_EVENT  stage 1 (Sum/Merge)  2030-01-01T12:00:00Z  key group 7  "
        "name 15 B  value 0 B  b''",
        f"1-0  EXPIRY  stage 2  end of time ({GLOBAL_END} us)  key group 7  "
        "name 15 B  value 1 B  b'e'",
    ]


def test_show_takes_one_kind_from_all_units(
    place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = said(capsys, "show", place, "--kind", "cell")
    assert [line.split()[:2] for line in lines] == [["1-0", "CELL"], ["1-10", "CELL"]]


def test_show_stops_at_the_limit_and_says_so(
    place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = said(capsys, "show", place, "--limit", "2")
    assert len(lines) == 3
    assert lines[2] == "more rows follow; --limit 20 shows more of them"
    assert len(said(capsys, "show", place, "--limit", "4")) == 4
    assert len(said(capsys, "show", place, "--limit", "0")) == 4


@pytest.mark.parametrize("option", ["--partition", "--unit"])  # as it was called before
def test_show_of_a_partition_that_is_not_there_names_those_that_are(
    option: str, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (line,) = said(capsys, "show", place, option, "9-9", status=1)
    assert line == "headrace: there is no state partition 9-9; there are: 1-0, 1-2, 1-10"


def test_a_row_of_an_unknown_kind_is_shown_as_such(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = str(tmp_path)
    with Checkpoint.open(place, PIPELINE, now=NOON) as checkpoint:
        chain = chain_of(checkpoint.files, "1-0", {b"?\0\1rest": b"v"})
        checkpoint.commit(
            checkpoint.manifest(
                partitions={"1-0": chain}, watermarks={}, sources=AT_START, batches={}
            )
        )
    assert said(capsys, "show", place) == [
        "1-0  unknown b'?'  stage 1 (Sum/Merge)  name 7 B  value 1 B  b'v'"
    ]


@pytest.mark.parametrize("arguments", [["--kind", "HEAP"], ["--limit", "-1"], ["--limit", "x"]])
def test_wrong_options_are_refused(
    place: str, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["state", "show", place, *arguments])
    assert caught.value.code == 2
    assert arguments[1] in capsys.readouterr().err


def test_verify_of_a_good_checkpoint_counts_what_it_read(
    place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    held = sum(path.stat().st_size for path in Path(place, "state").rglob("*.log"))
    assert said(capsys, "verify", place) == [
        f"good: epoch 1, 3 files of state with {held:,} bytes"
    ]


def test_verify_finds_a_changed_byte_in_any_file(
    place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in (
        LOG, "state/1-10/00000000-00000001-0.log", "pipeline.json", "manifests/00000000.json",
        "manifests/00000001.json",
    ):
        path = Path(place, file)
        good = path.read_bytes()
        bad = bytearray(good)
        bad[len(bad) // 2] ^= 1
        path.write_bytes(bytes(bad))
        lines = said(capsys, "verify", place, status=1)
        assert len(lines) == 2, file
        assert str(path) in lines[0]
        assert lines[1] == f"bad: 1 problem in {place}"
        path.write_bytes(good)
    assert said(capsys, "verify", place)[0].startswith("good: ")


def test_verify_finds_what_is_missing(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(place, LOG).unlink()
    Path(place, "pipeline.json").unlink()
    lines = said(capsys, "verify", place, status=1)
    assert str(Path(place, "pipeline.json")) in lines[0]
    assert lines[1].startswith("state partition 1-0: ") and LOG in lines[1]
    assert lines[2] == f"bad: 2 problems in {place}"


@pytest.mark.parametrize("name", ["offsets/1", "sources/0/1"])
def test_verify_reads_spark_s_own_log_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    log = Log(tmp_path / "checkpoint")
    for batch in range(2):
        log.run(batch)
    place = str(tmp_path / "checkpoint")
    with Checkpoint.open(place, PIPELINE, now=NOON) as checkpoint:
        assert log.record is not None
        checkpoint.commit(
            checkpoint.manifest(
                partitions={}, watermarks={}, sources=AT_START, batches={"Read": 1},
                logs={"Read": log.record},
            )
        )
    assert said(capsys, "verify", place)[-1].startswith("good: epoch 0")
    (log.root / name).write_bytes((log.root / name).with_name("0").read_bytes())
    lines = said(capsys, "verify", place, status=1)
    assert lines[0].startswith(f"Read: {log.root / name} is not the file that the manifest counts")
    assert lines[-1].startswith("bad: 1 problem")


def test_verify_finds_that_all_manifests_are_gone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = Log(tmp_path / "checkpoint")
    place = str(tmp_path / "checkpoint")
    Checkpoint.open(place, PIPELINE, now=NOON).close()
    log.plan(0)
    assert said(capsys, "verify", place)[-1].startswith("good: no epoch yet")
    log.run(0)
    assert "commits/0 is of batch 0" in said(capsys, "verify", place, status=1)[0]


def test_verify_begins_again_when_the_pipeline_swept_meanwhile(
    place: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest manifest is read; then the pipeline goes on, and what it named is deleted."""
    real, reads = Files.read, []

    def read(self: Files, file: str) -> bytes:
        reads.append(file)
        if len(reads) == 4:  # pipeline.json and two manifests have been read
            with Checkpoint.open(place, PIPELINE, now=NOON) as checkpoint:
                for _ in range(3):
                    checkpoint.commit(
                        checkpoint.manifest(
                            partitions={}, watermarks={}, sources=AT_START, batches={}
                        )
                    )
                checkpoint.sweep()
        return real(self, file)

    monkeypatch.setattr(Files, "read", read)
    assert said(capsys, "verify", place) == ["good: epoch 4, 0 files of state with 0 bytes"]


def test_verify_does_not_miss_an_old_manifest_that_was_swept_meanwhile(
    place: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Files.read

    def read(self: Files, file: str) -> bytes:
        if file == "manifests/00000000.json":
            Path(place, file).unlink()
        return real(self, file)

    monkeypatch.setattr(Files, "read", read)
    (line,) = said(capsys, "verify", place)
    assert line.startswith("good: epoch 1, 3 files ")


def test_a_checkpoint_without_an_epoch_is_no_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = str(tmp_path)
    Checkpoint.open(place, PIPELINE, now=NOON).close()
    assert said(capsys, "ls", place)[2:] == ["no epoch has been committed yet"]
    assert said(capsys, "show", place) == []
    assert said(capsys, "verify", place) == ["good: no epoch yet, 0 files of state with 0 bytes"]


@pytest.mark.parametrize("verb", ["ls", "show", "verify"])
def test_what_is_no_checkpoint_is_said_in_one_line_with_status_2(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.txt").write_text("x")
    for wrong in (str(tmp_path), str(tmp_path / "nowhere"), str(tmp_path / "notes.txt")):
        assert said(capsys, verb, wrong, status=2) == [
            f"headrace: {wrong} is no checkpoint folder"
        ]
    (line,) = said(capsys, verb, "nonsense://x", status=2)
    assert line.startswith("headrace: nonsense://x cannot be read: ")


@pytest.mark.parametrize("verb", ["ls", "show"])
def test_a_damaged_manifest_is_said_in_one_line(
    verb: str, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(place, "manifests", "00000001.json")
    path.write_bytes(path.read_bytes()[:-1])
    (line,) = said(capsys, verb, place, status=1)
    assert line.startswith(f"headrace: {path} is damaged: ")


@pytest.mark.parametrize("verb", [[], ["ls"], ["show"], ["verify"]])
def test_help_gives_an_example(verb: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["state", *verb, "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert f"  headrace state {verb[0] if verb else 'ls'} /data" in text


def test_reading_leaves_the_folder_as_it_was(
    place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.stat().st_mtime_ns for path in Path(place).rglob("*")}
    for verb in ("ls", "show", "verify"):
        said(capsys, verb, place)
    assert {path: path.stat().st_mtime_ns for path in Path(place).rglob("*")} == before


def test_the_command_works_while_a_driver_holds_the_folder(place: str) -> None:
    with Checkpoint.open(place, PIPELINE, now=NOON):
        done = subprocess.run(
            [sys.executable, "-m", "headrace.cli.main", "state", "verify", place],
            cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("good: epoch 1, ")


def test_times_beyond_the_calendar_are_named() -> None:
    assert iso(-1) == "1969-12-31T23:59:59.999999Z"
    assert iso(-9_223_372_036_854_775_000) == "beginning of time (-9223372036854775000 us)"
