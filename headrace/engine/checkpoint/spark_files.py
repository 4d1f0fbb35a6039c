"""Says which files of a query's log Spark would stop at when it starts.

Spark reads the two newest offsets, the newest commit and its lists of files, each as text with a
version in the first line; on a local disk each has a checksum beside it, in a hidden file of
Hadoop's. Takes a checkpoint's files, gives sentences. Compares nothing with a manifest.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator
from zlib import crc32

from headrace.state.files import Files

_LIST = re.compile(r"(\d+)(?:\.compact)?")
_JSON = json.JSONDecoder()
_VERSION = re.compile(r"v\d+")
#: Of Hadoop's checksums: four letters, how many bytes each is of, then the CRC-32 of each piece.
_CRC_HEAD = struct.Struct(">4sI")
_CRC_MAGIC = b"crc\0"
#: Whose second line is JSON of Spark's own.
_NAMED_BY_SPARK = ("offsets", "commits")


def unreadable(files: Files, folder: str) -> Iterator[tuple[str, str]]:
    """Give each file of a log, below a checkpoint, that Spark cannot read, and what is wrong."""
    numbers = {log: _numbers(files, f"{folder}/{log}") for log in _NAMED_BY_SPARK}
    wanted = [f"{folder}/metadata"]
    for log, newest in ((log, found[-1]) for log, found in numbers.items() if found):
        wanted.append(f"{folder}/{log}/{newest}")
        if log == "offsets" and newest > 0:  # Spark asks where the newest batch began
            wanted.append(f"{folder}/{log}/{newest - 1}")
            if newest - 1 not in numbers[log]:
                yield wanted.pop(), "is not there, and Spark asks for it"
    wanted += _lists(files, f"{folder}/sources")
    for name in wanted:
        if (wrong := _wrong(files, name, name.split("/")[-2] in _NAMED_BY_SPARK)) is not None:
            yield name, wrong


def _wrong(files: Files, name: str, named_by_spark: bool) -> str | None:
    """Say what is wrong with a file; None if it is good, or is not there."""
    try:
        data = files.read(name)
    except FileNotFoundError:
        return None
    if files.is_local and not _fits(files, name, data):
        return (
            f"does not fit its checksum {files.path(_crc_of(name))} (if the file is known to be "
            "good, remove that one)"
        )
    if not named_by_spark:
        return None
    try:
        version, *lines = data.decode().split("\n")
        if not _VERSION.fullmatch(version):
            return "is torn: it does not begin with a version"
        if lines:
            _JSON.raw_decode(lines[0])  # Spark does not mind what follows
    except ValueError as error:
        return f"is torn: {error}"
    return None


def _fits(files: Files, name: str, data: bytes) -> bool:
    """Whether a file is the one that its checksum was made of; one without a checksum is."""
    try:
        sums = files.read(_crc_of(name))
    except FileNotFoundError:
        return True
    if len(sums) < _CRC_HEAD.size:
        return True  # Hadoop passes over it too
    magic, step = _CRC_HEAD.unpack_from(sums)
    if magic != _CRC_MAGIC or step == 0:
        return True
    pieces = (data[at : at + step] for at in range(0, len(data), step))
    wanted = b"".join(struct.pack(">I", crc32(piece)) for piece in pieces)
    return sums[_CRC_HEAD.size :].startswith(wanted)  # what follows is not read


def _crc_of(name: str) -> str:
    folder, _, base = name.rpartition("/")
    return f"{folder}/.{base}.crc"


def _lists(files: Files, folder: str) -> list[str]:
    """Give the lists of all sources, from the last whole one on."""
    found: dict[str, list[tuple[int, str]]] = {}
    for name in files.names(folder):
        source, _, base = name.rpartition("/")
        if match := _LIST.fullmatch(base):
            found.setdefault(source, []).append((int(match.group(1)), name))
    kept: list[str] = []
    for entries in found.values():
        whole = max((number for number, name in entries if name.endswith(".compact")), default=-1)
        kept += [name for number, name in sorted(entries) if number >= whole]
    return kept


def _numbers(files: Files, folder: str) -> list[int]:
    bases = (name.rpartition("/")[2] for name in files.names(folder))
    return sorted(int(base) for base in bases if base.isdigit())
