"""Damages local copies of state and opens each as the next run of the driver does.

`headrace lab run copies --cases 2000 --seed 1` prints how many openings were right, wrong, failed
or took their process down, for each kind of damage. What is right is known from the rows that were
written, not from any store. Every opening happens in a process of its own, since a damaged copy can
end one. Needs no Spark.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import pickle
import random
import resource
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import pyarrow as pa

from headrace.state import compaction
from headrace.state.chain import Chain
from headrace.state.files import Files
from headrace.state.lmdb_store import StatePartition, open_partition

PARTITION = "1-0"
#: Small, so that the file of a copy is not one hole of a gigabyte.
MAP_BYTES = 1 << 18
PAGE_BYTES = 4096
EPOCHS = 12
#: An opening that takes longer hangs.
SECONDS = 20.0
_EVERYTHING = (b"", b"\xff" * 8)


class Damage(Enum):
    """What happens to a copy between two runs."""

    NONE = "none"
    FLIP = "a byte of the data flipped"
    FLIP_HEAD = "a byte of a page's head flipped"
    FLIP_META = "a byte of the two first pages flipped"
    FLIP_MANY = "20 bytes of the data flipped"
    ZERO_PAGE = "a page of the data zeroed"
    SWAP_PAGES = "two pages of the data swapped"
    CUT = "the data cut short"
    EMPTY = "the data empty"
    ZEROS = "the data all zero"
    NOISE = "the data all noise"
    OLDER = "the data of an older copy"
    OTHER = "the data of another state partition's copy"
    NO_DATA = "the data deleted"
    DATA_FOLDER = "a folder in place of the data"
    FLIP_LOCK = "8 bytes of the lock file flipped"
    NOISE_LOCK = "the lock file all noise"
    CUT_LOCK = "the lock file cut short"
    NO_LOCK = "the lock file deleted"
    LOCK_FOLDER = "a folder in place of the lock file"
    NO_ACCESS = "no permission for anything"
    COPY_FILE = "a file in place of the copy's folder"
    EMPTY_FOLDER = "the copy's folder empty"


#: A case in three flips one byte: that is what disks do.
_FLIPS = (Damage.FLIP, Damage.FLIP, Damage.FLIP_HEAD, Damage.FLIP_META)


class Answer(Enum):
    """How an opening ended."""

    RIGHT = "right"
    WRONG = "wrong rows"
    RAISED = "raised"
    ABORTED = "aborted"
    HUNG = "hung"


@dataclass(frozen=True, slots=True)
class Bed:
    """A checkpoint, and the copies that a run left behind."""

    root: Path
    chain: Chain
    rows: dict[bytes, bytes]  # what the chain holds

    @property
    def files(self) -> Files:
        """The checkpoint."""
        return Files(str(self.root / "checkpoint"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases; give 0 if all were right."""
    parser = argparse.ArgumentParser(prog="headrace lab run copies", description=__doc__)
    parser.add_argument("--cases", type=int, default=2000, metavar="N", help="default: 2000")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="default: 1")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="headrace-copies-") as folder:
        return 0 if campaign(Path(folder), args.cases, args.seed) else 1


def campaign(folder: Path, cases: int, seed: int) -> bool:
    """Run the cases and print the table; give whether all were right."""
    # Arrow imports pandas when it first meets Python objects: here, not in every process.
    pa.array([b""], pa.large_binary()).to_numpy(zero_copy_only=False)
    bed = made(folder / "bed", seed)
    table: dict[Damage, Counter[Answer]] = {}
    told: Counter[str] = Counter()
    for number in range(cases):
        drawn = random.Random(f"{seed}-{number}")
        # Every kind comes up in turn; between them single bytes are flipped.
        kinds = list(Damage)
        damage = drawn.choice(_FLIPS) if number % 3 == 2 else kinds[number % len(kinds)]
        place = folder / f"case-{number}"
        shutil.copytree(bed.root / "local", place)
        spoil(place / PARTITION, damage, drawn, bed.root)
        answer, why = in_a_process(lambda: opened(bed, place, number))  # noqa: B023 (used at once)
        table.setdefault(damage, Counter())[answer] += 1
        if answer is not Answer.RIGHT:
            told[f"{answer.value}: {why}"] += 1
        _remove(place)
    _show(table, told)
    return all(set(found) <= {Answer.RIGHT} for found in table.values())


def made(root: Path, seed: int) -> Bed:
    """Run some epochs in a process of its own, which ends as a worker does: killed."""
    root.mkdir(parents=True)
    answer, why = in_a_process(lambda: _fill(root, seed))
    if answer is not Answer.RIGHT:
        msg = f"the copies to damage could not be made: {answer.value} {why}"
        raise RuntimeError(msg)
    chain, rows = pickle.loads((root / "made").read_bytes())
    return Bed(root=root, chain=Chain.from_json(json.loads(chain)), rows=rows)


def _fill(root: Path, seed: int) -> str:
    compaction.SNAPSHOT_FROM_BYTES = 100_000  # so that the chain has a snapshot too
    files = Files(str(root / "checkpoint"))
    drawn = random.Random(seed)
    rows: dict[bytes, bytes] = {}
    chain: Chain | None = None
    for epoch in range(EPOCHS):
        partition = _open(root / "local", files, chain, "last")
        for _ in range(150):
            name = b"row-%04d" % drawn.randrange(1200)
            # Most are small, so that the tree has many pages and not only long values.
            size = drawn.choice((0, 8, 20, 30, 30, 60, 60, 200, 200, 400, 900, 900, 9_000))
            value = drawn.randbytes(drawn.randrange(size + 1))
            if value:
                rows[name] = value
                partition.put(name, value)
            elif rows.pop(name, None) is not None:
                partition.delete(name)
        chain = partition.seal(f"epoch-{epoch}")
        if epoch == EPOCHS // 2:
            shutil.copytree(root / "local", root / "older")
    other = open_partition(root / "other", files, "1-1", None, map_bytes=MAP_BYTES)
    other.put(b"row-0001", b"of another state partition")
    other = open_partition(root / "other", files, "1-1", other.seal("other"), map_bytes=MAP_BYTES)
    assert chain is not None
    (root / "made").write_bytes(pickle.dumps((json.dumps(chain.to_json()), rows)))
    return ""


def _open(local: Path, files: Files, chain: Chain | None, run: str) -> StatePartition:
    return open_partition(local, files, PARTITION, chain, map_bytes=MAP_BYTES, run=run)


def opened(bed: Bed, local: Path, number: int) -> str:
    """Open a copy as the next run does and use it for two epochs; give what is wrong."""
    files, rows, chain = bed.files, dict(bed.rows), bed.chain
    for epoch in range(3):
        partition = _open(local, files, chain, "next")
        if dict(partition.scan(*_EVERYTHING)) != rows:
            return f"a scan in epoch {epoch}"
        if any(partition.get(name) != value for name, value in rows.items()):
            return f"a row in epoch {epoch}"
        if partition.rows_held() != len(rows):
            return f"the number of rows in epoch {epoch}"
        for step in range(40):
            name, value = b"new-%04d" % step, b"%d" % epoch * 700
            rows[name] = value
            partition.put(name, value)
        chain = partition.seal(f"case-{number}-{epoch}")
    return ""


def in_a_process(work: Callable[[], str]) -> tuple[Answer, str]:
    """Do work in a process of its own; it gives what is wrong, empty if nothing is."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _work(work, writing)
    os.close(writing)
    status, end = None, time.monotonic() + SECONDS
    while status is None:
        pid, found = os.waitpid(child, os.WNOHANG)
        if pid:
            status = found
        elif time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            break
        else:
            time.sleep(0.001)
    with open(reading, "rb") as stream:
        why = stream.read().decode(errors="replace")
    if status is None:
        return Answer.HUNG, ""
    if os.WIFSIGNALED(status):
        return Answer.ABORTED, signal.Signals(os.WTERMSIG(status)).name
    answers = (Answer.RIGHT, Answer.WRONG, Answer.RAISED)
    return answers[os.WEXITSTATUS(status)], why


def _work(work: Callable[[], str], writing: int) -> None:
    code = 2
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # failed assertions of LMDB
        logging.disable()
        wrong = work()
        code = 1 if wrong else 0
        os.write(writing, wrong.encode())
    except BaseException as error:  # noqa: BLE001 (told to the parent)
        text = str(error)
        blames = " (blames the checkpoint)" if "checkpoint" in text else ""
        os.write(writing, f"{type(error).__name__}{blames}".encode())
    finally:
        os._exit(code)


def spoil(partition: Path, damage: Damage, drawn: random.Random, bed: Path) -> None:
    """Damage the copy of a state partition."""
    (copy,) = (path for path in partition.iterdir() if path.name.startswith("g"))
    data, lock = copy / "data.mdb", copy / "lock.mdb"
    if damage in _BYTES:
        path = lock if damage in _OF_LOCK else data
        path.write_bytes(_BYTES[damage](bytearray(path.read_bytes()), drawn))
        return
    match damage:
        case Damage.OLDER:
            _replace(data, next((bed / "older" / PARTITION).glob("g*/data.mdb")))
        case Damage.OTHER:
            _replace(data, next((bed / "other" / "1-1").glob("g*/data.mdb")))
        case Damage.NO_DATA:
            data.unlink()
        case Damage.NO_LOCK:
            lock.unlink()
        case Damage.DATA_FOLDER | Damage.LOCK_FOLDER:
            path = data if damage is Damage.DATA_FOLDER else lock
            path.unlink()
            path.mkdir()
        case Damage.NO_ACCESS:
            for path in (data, lock, copy):
                path.chmod(0)
        case Damage.COPY_FILE | Damage.EMPTY_FOLDER:
            shutil.rmtree(copy)
            copy.touch() if damage is Damage.COPY_FILE else copy.mkdir()


def _used(data: bytearray) -> int:
    """Give where the pages that were ever written end."""
    return -(-len(data.rstrip(b"\0")) // PAGE_BYTES) * PAGE_BYTES


def _flip(data: bytearray, drawn: random.Random, start: int, end: int) -> bytearray:
    data[drawn.randrange(start, end)] ^= drawn.randrange(1, 256)
    return data


def _flip_head(data: bytearray, drawn: random.Random) -> bytearray:
    page = drawn.randrange(2, _used(data) // PAGE_BYTES) * PAGE_BYTES
    return _flip(data, drawn, page, page + 64)


def _flip_many(data: bytearray, drawn: random.Random, times: int) -> bytearray:
    for _ in range(times):
        _flip(data, drawn, 0, _used(data))
    return data


def _page(data: bytearray, drawn: random.Random) -> slice:
    page = drawn.randrange(_used(data) // PAGE_BYTES) * PAGE_BYTES
    return slice(page, page + PAGE_BYTES)


def _zero_page(data: bytearray, drawn: random.Random) -> bytearray:
    data[_page(data, drawn)] = bytes(PAGE_BYTES)
    return data


def _swap_pages(data: bytearray, drawn: random.Random) -> bytearray:
    one, other = _page(data, drawn), _page(data, drawn)
    data[one], data[other] = data[other], data[one]
    return data


def _cut(data: bytearray, drawn: random.Random) -> bytearray:
    return data[: drawn.randrange(_used(data))]


_OF_LOCK = (Damage.FLIP_LOCK, Damage.NOISE_LOCK, Damage.CUT_LOCK)
_BYTES: dict[Damage, Callable[[bytearray, random.Random], bytearray | bytes]] = {
    Damage.FLIP: lambda data, drawn: _flip(data, drawn, 0, _used(data)),
    Damage.FLIP_HEAD: _flip_head,
    Damage.FLIP_META: lambda data, drawn: _flip(data, drawn, 0, 2 * PAGE_BYTES),
    Damage.FLIP_MANY: lambda data, drawn: _flip_many(data, drawn, 20),
    Damage.ZERO_PAGE: _zero_page,
    Damage.SWAP_PAGES: _swap_pages,
    Damage.CUT: _cut,
    Damage.EMPTY: lambda data, drawn: b"",  # noqa: ARG005 (all take the same)
    Damage.ZEROS: lambda data, drawn: bytes(len(data)),  # noqa: ARG005
    Damage.NOISE: lambda data, drawn: drawn.randbytes(len(data)),
    Damage.FLIP_LOCK: lambda data, drawn: _flip_many(data, drawn, 8),
    Damage.NOISE_LOCK: lambda data, drawn: drawn.randbytes(len(data)),
    Damage.CUT_LOCK: lambda data, drawn: data[: drawn.randrange(len(data))],
}


def _replace(path: Path, by: Path) -> None:
    path.unlink()
    shutil.copy(by, path)


def _remove(place: Path) -> None:
    for folder in [place, *place.rglob("*/")]:
        with suppress(OSError):
            folder.chmod(0o700)
    shutil.rmtree(place, ignore_errors=True)


def _show(table: dict[Damage, Counter[Answer]], told: Counter[str]) -> None:
    print(f"{'':40}" + "".join(f"{answer.value:>12}" for answer in Answer))
    total: Counter[Answer] = Counter()
    for damage in Damage:
        found = table.get(damage)
        if found is not None:
            total += found
            print(f"{damage.value:40}" + "".join(f"{found[answer]:12}" for answer in Answer))
    print(f"{'all':40}" + "".join(f"{total[answer]:12}" for answer in Answer))
    for line, count in told.most_common():
        print(f"{count:6} {line}")
