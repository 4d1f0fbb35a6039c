"""Looks at a session before a pipeline does: what it is, what its workers have, what they reach.

Takes a session and perhaps the location of a checkpoint, gives one finding after the other, each
with what to change if it is not right. Sends headrace to workers that lack it, as a pipeline would,
and leaves nothing behind in the checkpoint. Prints nothing.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from headrace.engine.checkpoint.exclusive import see_that_it_refuses
from headrace.engine.spark.doors import Door, is_connect
from headrace.engine.spark.packages_here import installed_here
from headrace.engine.spark.probe import (
    REMEDY,
    REST_SECONDS,
    REUSE,
    Answer,
    differences,
    expected_here,
)
from headrace.engine.spark.session import check_version, door_of
from headrace.errors import CheckpointError, SessionError
from headrace.state.files import Files, shown

#: A folder of the checkpoint that is there while workers are asked, and no longer.
_FOLDER = "doctor"
#: Packages of another version that are named; the others are counted.
_NAMED = 6


class Verdict(Enum):
    """What a finding means for a pipeline."""

    FINE = "ok"
    ADVICE = "advice"  # it runs, and could run better
    WRONG = "WRONG"  # it does not run


@dataclass(frozen=True, slots=True)
class Looked:
    """One thing that was looked at."""

    verdict: Verdict
    what: str
    found: str  # and what to change, if it is not right


def examine(session: Any, checkpoint: str = "") -> Iterator[Looked]:
    """Look at a session and its workers, and at a checkpoint's folder as they see it.

    Args:
        session: a user's, or one of ours.
        checkpoint: the location that a stream would be given; empty: none is looked at.
    """
    try:
        check_version(session)
    except SessionError as error:
        yield Looked(Verdict.WRONG, "Spark", str(error))
        return
    door = door_of(session)
    kind = "a server of Spark Connect" if is_connect(session) else "a classic session"
    settings = session.conf if is_connect(session) else session.sparkContext.getConf()
    yield Looked(
        Verdict.FINE, "session",
        f"Spark {session.version}, {kind}, master {settings.get('spark.master', '?')}, "
        f"{door.parallelism} tasks side by side",
    )
    fit = True
    for finding in _workers(door):
        fit = fit and finding.verdict is not Verdict.WRONG
        yield finding
    if not fit:
        return
    yield from _advice(door, settings)
    yield _connector(session)
    yield _disk(door)
    if checkpoint:
        yield from _checkpoint(session, door, checkpoint)


def _workers(door: Door) -> Iterator[Looked]:
    """Say of each worker what it has; then let the session be checked as a pipeline would."""
    try:
        answers = door.workers()
    except SessionError as error:
        yield Looked(Verdict.WRONG, "workers", str(error))
        return
    yield from (finding for answer in answers for finding in of_worker(answer, installed_here()))


def of_worker(answer: Answer, here: Mapping[str, str]) -> Iterator[Looked]:
    """Say what a worker has, and what of it is another version than here."""
    what = f"worker {answer.host}"
    faults = list(differences(answer, expected_here(), may_send=True))
    if faults:
        problem = f"{answer.executable}: {'; '.join(faults)}. {REMEDY}"
        yield Looked(Verdict.WRONG, what, problem)
        return
    own = f"headrace {answer.headrace}" if answer.headrace else "no headrace, which is sent to it"
    yield Looked(
        Verdict.FINE, what,
        f"Python {answer.python}, apache-beam {answer.beam}, pyarrow {answer.pyarrow}, {own} "
        f"({answer.executable}; {len(answer.distributions)} packages)",
    )
    other = [
        f"{name} {version} (here {here[name]})"
        for name, version in sorted(answer.distributions.items())
        if name in here and here[name] != version
    ]
    if other:
        more = f" and {len(other) - _NAMED} more" if len(other) > _NAMED else ""
        yield Looked(
            Verdict.ADVICE, what,
            f"packages of another version than here: {', '.join(other[:_NAMED])}{more}. Functions "
            f"are made here and run there. {REMEDY}",
        )


def _advice(door: Door, settings: Any) -> Iterator[Looked]:
    try:
        advice = door.check()
    except SessionError as error:
        yield Looked(Verdict.WRONG, "workers", str(error))
        return
    yield from (Looked(Verdict.ADVICE, "setting", text) for text in advice)
    if settings.get(REUSE, "true") != "false":
        yield Looked(Verdict.FINE, "setting", f"{REUSE}: Python workers serve many tasks")


def _connector(session: Any) -> Looked:
    """Ask for Spark's source for Kafka: only its class is looked for, no broker is asked."""
    try:
        reader = session.read.format("kafka").option("kafka.bootstrap.servers", "127.0.0.1:1")
        _ = reader.option("subscribe", "any").load().schema
    except Exception as error:  # noqa: BLE001 (Spark and its server have several for this)
        return Looked(
            Verdict.ADVICE, "connector",
            "Spark's connector for Kafka is not in this session, so ReadFromKafka cannot run: "
            "`headrace doctor --fetch kafka`, and start the session (or the server) with these "
            f"jars as spark.jars ({type(error).__name__})",
        )
    return Looked(Verdict.FINE, "connector", "Spark's connector for Kafka is there")


def _disk(door: Door) -> Looked:
    if door.shares_disk:
        return Looked(
            Verdict.FINE, "disk", "workers see this machine's disk: a path will do as --checkpoint"
        )
    return Looked(
        Verdict.FINE, "disk",
        "workers may have other disks than this machine: a --checkpoint must be a folder that all "
        "of them mount, or a URI (s3://, gs://, abfss://, hdfs://); --checkpoint asks them",
    )


def _checkpoint(session: Any, door: Door, location: str) -> Iterator[Looked]:
    name = f"checkpoint {shown(location)}"
    if "://" not in location:
        location = os.path.abspath(location)
    try:
        files = Files(location)
        was_there = files.is_local and Path(location).exists()
        token = uuid.uuid4().hex
        asked = f"{_FOLDER}/{token}"
        files.create(asked, token.encode())
    except Exception as error:  # noqa: BLE001 (each kind of store has its own)
        yield Looked(Verdict.WRONG, name, f"cannot be written from here: {error}")
        return
    try:
        yield _keeps_one_out(files, asked, token.encode(), name)
        answers = _ask(session, door, _looking(location, asked, token))
        yield from _seen_by(answers, files, name)
    finally:
        files.delete(found for found in files.names(_FOLDER))
        if files.is_local:
            with suppress(OSError):  # another doctor is at work there
                os.rmdir(files.path(_FOLDER))
                if not was_there:
                    os.rmdir(location)


def _keeps_one_out(files: Files, asked: str, data: bytes, name: str) -> Looked:
    try:
        see_that_it_refuses(files, asked, data)
    except CheckpointError as error:
        return Looked(Verdict.WRONG, name, str(error))
    how = (
        "a file is created only where there is none" if files.exclusive
        else "the store has no such condition, so a driver reads its claim again"
    )
    return Looked(Verdict.FINE, name, f"two drivers are kept apart: {how}")


def _looking(location: str, asked: str, token: str) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Give the function that looks for a file, and writes one of its own, on a worker."""
    folder, rest = _FOLDER, REST_SECONDS

    def look(batches: Iterable[Any]) -> Iterator[Any]:
        import json
        import os
        import socket
        import time
        import uuid

        import pyarrow as pa

        from headrace.state.files import Files

        for _ in batches:
            pass
        time.sleep(rest)  # so that one executor does not answer for all
        wrote, error = "", ""
        try:
            files = Files(location)
            sees = files.read(asked) == token.encode()
            wrote = f"{folder}/{uuid.uuid4().hex}"
            files.write(wrote, token.encode())
        except Exception as failure:  # noqa: BLE001 (told to the driver, whatever it is)
            sees, error = False, f"{type(failure).__name__}: {failure}"
        said = {"host": socket.gethostname(), "folder": os.getcwd(), "sees": sees, "wrote": wrote,
                "error": error}  # fmt: skip
        yield pa.RecordBatch.from_pydict({"answer": pa.array([json.dumps(said)], pa.string())})

    return look


def _ask(
    session: Any, door: Door, function: Callable[[Iterable[Any]], Iterator[Any]]
) -> list[dict[str, Any]]:
    tasks = 2 * door.parallelism
    rows = session.range(0, tasks, 1, tasks).mapInArrow(function, "answer string").collect()
    return [json.loads(row.answer) for row in rows]


def _seen_by(answers: Sequence[Mapping[str, Any]], files: Files, name: str) -> Iterator[Looked]:
    """Say whether every worker reads what the driver writes, and the driver what they write."""
    there = set(files.names(_FOLDER))
    by_worker: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for each in answers:
        by_worker.setdefault((each["host"], each["folder"]), []).append(each)
    lost = {
        host: next((each["error"] for each in answers if each["error"]), "")
        for (host, _), answers in by_worker.items()
        if not all(each["sees"] and each["wrote"] in there for each in answers)
    }
    for host, error in lost.items():
        why = f" ({error})" if error else ""
        yield Looked(
            Verdict.WRONG, name,
            f"the worker on {host} and this process do not see each other's files there{why}. "
            "Give a folder that all machines mount at this path and may write, or a URI that all "
            "reach with credentials of their own; see docs/guide/cluster.md",
        )
    if not lost:
        yield Looked(
            Verdict.FINE, name,
            f"{len(by_worker)} of {len(by_worker)} workers read what this process writes, and "
            "this process what they write",
        )
