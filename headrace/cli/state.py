"""`headrace state`: shows what a checkpoint folder holds, and checks it.

Reads only and takes no lock, so it may be used while the pipeline runs. Keys and values of user
state are shown decoded where their coder's format is public; other rows as they lie in the files.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from headrace.engine.checkpoint.checks import check
from headrace.engine.checkpoint.fencing import incarnations_of
from headrace.engine.checkpoint.identity import Description
from headrace.engine.checkpoint.manifests import Manifest
from headrace.engine.checkpoint.reading import (
    epochs_of,
    is_checkpoint,
    partitions_in_order,
    read_description,
    read_manifest,
)
from headrace.errors import CheckpointError
from headrace.state.chain import Chain
from headrace.state.files import Files, shown
from headrace.state.layout import TIMED, Kind, key_group_of, kind_of, time_of
from headrace.state.snapshot import read_chain

#: Bytes of a value that are shown.
PREVIEW_BYTES = 40
_EPOCH_ZERO = datetime(1970, 1, 1, tzinfo=timezone.utc)

_ABOUT = """\
Show and check what a checkpoint folder holds. Reads only: it can be used while the pipeline runs.

A state partition is the state of one shard in one superstep. It lies in a base file (a snapshot,
once there is one) and change logs, one for each epoch that changed it; many logs become one.
"""
_EXAMPLE = """\
example:
  headrace state ls /data/checkpoints/auction
  headrace state show /data/checkpoints/auction --partition 1-0 --kind TIMER_EVENT
  headrace state verify /data/checkpoints/auction && cp -r /data/checkpoints/auction /backup
"""
_LS_EXAMPLE = """\
example:
  headrace state ls /data/checkpoints/auction
  headrace state ls s3://bucket/auction --kinds

Rows and bytes are those of the files: a row that a later log changes counts twice. With --kinds
the files are read, and the rows that are alive are counted for each stage and kind.
"""
_SHOW_EXAMPLE = """\
example:
  headrace state show /data/checkpoints/auction --kind CELL --limit 5
  headrace state show /data/checkpoints/auction --partition 1-0 --limit 0

Prints one row of state a line: state partition, kind, stage, time (for kinds that are ordered by
one), key group (modulo the number of shards it gives the shard), sizes, and how the value begins.
Of user state and timers it prints key, cell and value, where their coders are not of your own.

kinds:
"""
_VERIFY_EXAMPLE = """\
example:
  headrace state verify /data/checkpoints/auction

Reads pipeline.json, every manifest and every file that the newest one names, and checks their
checksums; then Spark's own logs, which must be those that the newest manifest counts.
Status 0: all is good; 1: something is damaged or missing; 2: this is no checkpoint.
"""


def add_to(commands: Any) -> None:
    """Add the sub-command to a parser's sub-commands."""
    sub = _command(commands, "state", "show and check the state in a checkpoint", _EXAMPLE, _ABOUT)
    verbs = sub.add_subparsers(dest="verb", required=True, metavar="VERB")
    ls = _command(verbs, "ls", "list epochs, driver starts and state partitions", _LS_EXAMPLE)
    ls.add_argument("--kinds", action="store_true", help="count rows by stage and kind")
    ls.set_defaults(run=lambda arguments: _run(_ls, arguments))
    kinds = "".join(f"  {kind.name}\n" for kind in Kind)
    show = _command(verbs, "show", "print rows of state", _SHOW_EXAMPLE + kinds)
    show.add_argument(
        "--partition",
        metavar="NAME",
        help="only this state partition, such as 1-0 (superstep 1, shard 0)",
    )
    show.add_argument("--unit", dest="partition", help=argparse.SUPPRESS)  # its older name
    show.add_argument("--kind", type=_kind, metavar="KIND", help="only rows of this kind")
    show.add_argument(
        "--limit", type=_count, default=20, help="print so many rows at most, 0: all; default: 20"
    )
    show.set_defaults(run=lambda arguments: _run(_show, arguments))
    verify = _command(verbs, "verify", "read and check every file", _VERIFY_EXAMPLE)
    verify.set_defaults(run=lambda arguments: _run(_verify, arguments))
    for verb in (ls, show, verify):
        verb.add_argument("checkpoint", metavar="CHECKPOINT", help="a folder's path or its URI")


def _command(commands: Any, name: str, title: str, epilog: str, about: str = "") -> Any:
    return commands.add_parser(
        name,
        help=title,
        description=about or f"{title[0].upper()}{title[1:]}.",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _kind(text: str) -> Kind:
    try:
        return Kind[text.upper()]
    except KeyError:
        msg = f"there is no kind {text}; kinds are {', '.join(kind.name for kind in Kind)}"
        raise argparse.ArgumentTypeError(msg) from None


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        msg = f"{number} is not a number of rows: use 0 or more"
        raise argparse.ArgumentTypeError(msg)
    return number


def _run(verb: Any, arguments: argparse.Namespace) -> int:
    """Run a verb on a folder; status 2 if that is no checkpoint."""
    try:
        files = Files(arguments.checkpoint)
        found = is_checkpoint(files)
    except (OSError, ValueError) as e:
        print(f"headrace: {shown(arguments.checkpoint)} cannot be read: {e}", file=sys.stderr)
        return 2
    if not found:
        print(f"headrace: {shown(arguments.checkpoint)} is no checkpoint folder", file=sys.stderr)
        return 2
    return int(verb(files, arguments))


def _newest(files: Files) -> Manifest | None:
    epochs = epochs_of(files)
    return read_manifest(files, epochs[-1]) if epochs else None


# --- ls


def _ls(files: Files, arguments: argparse.Namespace) -> int:
    description, epochs, starts = read_description(files), epochs_of(files), incarnations_of(files)
    newest = _newest(files)
    if description is not None:
        print(f"pipeline {description.name}, fingerprint {description.fingerprint}")
    print(f"drivers started: {len(starts)}" + (f", last {starts[-1]}" if starts else ""))
    if newest is None:
        print("no epoch has been committed yet")
        return 0
    print(
        f"newest epoch {newest.epoch}; kept: {', '.join(map(str, epochs))}; {newest.shards} shards"
    )
    print()
    header = ("partition", "superstep", "shard", "rows", "bytes", "base", "logs")
    names = partitions_in_order(newest)
    _table(header, [_partition_line(name, newest.partitions[name]) for name in names])
    if arguments.kinds:
        print()
        _table(("stage", "kind", "rows", "bytes", "step"), _kinds(files, newest, description))
    return 0


def _partition_line(partition: str, chain: Chain) -> tuple[str, ...]:
    superstep, _, shard = partition.partition("-")
    rows, held = sum(link.rows for link in chain.links), sum(link.size for link in chain.links)
    return (
        partition, superstep, shard, f"{rows:,}", f"{held:,}", str(len(chain.base)),
        str(len(chain.logs)),
    )


def _kinds(
    files: Files, manifest: Manifest, description: Description | None
) -> Iterator[tuple[str, ...]]:
    rows: Counter[tuple[int, str]] = Counter()
    held: Counter[tuple[int, str]] = Counter()
    for chain in manifest.partitions.values():
        for name, value in read_chain(files, chain, _all):
            key = _stage_of(name), _kind_name(name)
            rows[key] += 1
            held[key] += len(name) + len(value)
    for key in sorted(rows):
        stage, kind = key
        yield str(stage), kind, f"{rows[key]:,}", f"{held[key]:,}", _step(description, stage)


def _all(_name: bytes) -> bool:
    return True


# --- show


def _show(files: Files, arguments: argparse.Namespace) -> int:
    description, newest = read_description(files), _newest(files)
    partitions = [] if newest is None else partitions_in_order(newest)
    if arguments.partition is not None and arguments.partition not in partitions:
        there = ", ".join(partitions) or "none yet"
        msg = f"there is no state partition {arguments.partition}; there are: {there}"
        raise CheckpointError(msg)
    if newest is None:
        return 0
    chosen = partitions if arguments.partition is None else [arguments.partition]
    first = None if arguments.kind is None else arguments.kind.value.encode()
    left = arguments.limit or sys.maxsize
    for partition in chosen:
        rows = read_chain(
            files,
            newest.partitions[partition],
            _all if first is None else lambda row: row[:1] == first,
        )
        for name, value in rows:
            if left == 0:
                print(f"more rows follow; --limit {arguments.limit * 10} shows more of them")
                return 0
            print(_row_line(partition, name, value, description))
            left -= 1
    return 0


def _row_line(partition: str, name: bytes, value: bytes, description: Description | None) -> str:
    stage = _stage_of(name)
    step = _step(description, stage)
    words = [partition, _kind_name(name), f"stage {stage}" + (f" ({step})" if step else "")]
    if name[:1] in _LETTERS:
        if kind_of(name) in TIMED:
            words.append(iso(time_of(name)))
        words.append(f"key group {key_group_of(name)}")
        from headrace.engine.checkpoint.decoding import (
            described,  # brings Beam in: not for `--help`
        )

        known = [s for s in description.stages if s.number == stage] if description else []
        if known and (decoded := described(known[0], name, value)):
            return "  ".join([*words, f"{len(name) + len(value)} B", decoded])
    shown = repr(value[:PREVIEW_BYTES]) + ("..." if len(value) > PREVIEW_BYTES else "")
    return "  ".join([*words, f"name {len(name)} B", f"value {len(value)} B", shown])


_LETTERS = frozenset(kind.value.encode() for kind in Kind)


def _kind_name(row: bytes) -> str:
    return kind_of(row).name if row[:1] in _LETTERS else f"unknown {row[:1]!r}"


def _stage_of(row: bytes) -> int:
    return int.from_bytes(row[1:3], "big")


def _step(description: Description | None, number: int) -> str:
    for stage in () if description is None else description.stages:
        if stage.number == number:
            return stage.name
    return ""


def iso(micros: int) -> str:
    """Give a time in microseconds as ISO 8601 in UTC.

    >>> iso(1_500_000)
    '1970-01-01T00:00:01.500000Z'
    >>> iso(9223371950454775000)
    'end of time (9223371950454775000 us)'
    """
    try:
        return (_EPOCH_ZERO + timedelta(microseconds=micros)).isoformat().replace("+00:00", "Z")
    except OverflowError:  # Beam's time is wider than the calendar's
        return f"{'end' if micros > 0 else 'beginning'} of time ({micros} us)"


# --- verify


def _verify(files: Files, arguments: argparse.Namespace) -> int:
    found = check(files)
    for problem in found.problems:
        print(problem)
    if found.problems:
        many = "1 problem" if len(found.problems) == 1 else f"{len(found.problems)} problems"
        print(f"bad: {many} in {arguments.checkpoint}")
        return 1
    which = f"epoch {found.epochs[-1]}" if found.epochs else "no epoch yet"
    print(f"good: {which}, {found.files} files of state with {found.size:,} bytes")
    return 0


def _table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> None:
    whole = [header, *lines]
    widths = [max(len(line[column]) for line in whole) for column in range(len(header))]
    for line in whole:
        print("  ".join(f"{cell:<{w}}" for cell, w in zip(line, widths, strict=True)).rstrip())
