"""Files of Spark's log that Spark would stop at: torn, or unlike the checksum beside them.

Written by hand as Spark and Hadoop lay them down: a version, then JSON; `crc`, the size of a piece,
the CRC-32 of each piece.
"""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest

from headrace.engine.checkpoint.spark_files import unreadable
from headrace.state.files import Files

COMMIT = 'v1\n{"nextBatchWatermarkMs":0}'
OFFSETS = 'v1\n{"batchTimestampMs":0}\n{"logOffset":3}'
PIECE = 16  # Hadoop takes 512; smaller, so that a file has several


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    data = text.encode()
    sums = b"".join(
        crc32(data[at : at + PIECE]).to_bytes(4, "big") for at in range(0, len(data), PIECE)
    )
    path.with_name(f".{path.name}.crc").write_bytes(b"crc\0" + PIECE.to_bytes(4, "big") + sums)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    made = tmp_path / "spark" / "0"
    write(made / "metadata", '{"id":"x"}')
    for batch in (2, 3):
        write(made / "offsets" / str(batch), OFFSETS)
        write(made / "commits" / str(batch), COMMIT)
    write(made / "sources" / "0" / "1", "v1\n{}")
    write(made / "sources" / "0" / "9.compact", "v1\n{}")
    write(made / "sources" / "0" / "10", "v1\n{}")
    return made


def found(log: Path) -> dict[str, str]:
    root = log.parent.parent
    told = dict(unreadable(Files(str(root)), "spark/0"))
    return {name.removeprefix("spark/0/"): wrong for name, wrong in told.items()}


def test_a_log_as_spark_leaves_it_can_be_read(log: Path) -> None:
    assert found(log) == {}
    for crc in log.rglob("*.crc"):
        crc.unlink()
    assert found(log) == {}


@pytest.mark.parametrize(
    "name",
    ["metadata", "offsets/2", "offsets/3", "commits/3", "sources/0/9.compact", "sources/0/10"],
)
def test_a_file_unlike_its_checksum_is_told(log: Path, name: str) -> None:
    data = bytearray((log / name).read_bytes())
    data[-2] ^= 1
    (log / name).write_bytes(data)
    told = found(log)
    assert list(told) == [name]
    assert f".{Path(name).name}.crc (if the file is known to be good" in told[name]


@pytest.mark.parametrize("name", ["commits/2", "sources/0/1"])
def test_a_file_that_spark_does_not_read_any_more_may_be_torn(log: Path, name: str) -> None:
    (log / name).write_bytes(b"")
    assert found(log) == {}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"", "does not begin with a version"),
        (b"v", "does not begin with a version"),
        (b'v1\n{"nextBatch', "is torn"),
        (b'v1\n{"nextBatch\xff":0}', "is torn"),
    ],
)
@pytest.mark.parametrize("name", ["commits/3", "offsets/3", "offsets/2"])
def test_a_torn_file_is_told_where_there_are_no_checksums(
    log: Path, name: str, text: bytes, told: str
) -> None:
    (log / name).write_bytes(text)
    (log / name).with_name(f".{Path(name).name}.crc").unlink()
    assert told in found(log)[name]


def test_the_offsets_before_the_newest_are_missed(log: Path) -> None:
    """Spark asks for them to know where the newest batch began, also when that one is done."""
    (log / "offsets" / "2").unlink()
    assert found(log) == {"offsets/2": "is not there, and Spark asks for it"}


def test_a_commit_that_is_there_twice_in_its_file_can_be_read(log: Path) -> None:
    write(log / "commits" / "3", COMMIT + COMMIT)
    assert found(log) == {}


@pytest.mark.parametrize("sums", [b"", b"crc", b"abc\0\0\0\0\x10"])
def test_what_is_no_checksum_is_passed_over_as_hadoop_does(log: Path, sums: bytes) -> None:
    (log / "commits" / ".3.crc").write_bytes(sums)
    assert found(log) == {}
