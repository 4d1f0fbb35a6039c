"""Reads a whole checkpoint and says what is damaged or missing in it.

Takes a checkpoint's files, gives sentences. Writes nothing and takes no lock, so it may be used
while a driver runs. Knows nothing of the command that prints what is found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.engine.checkpoint.manifests import LogRecord, Manifest
from headrace.engine.checkpoint.reading import (
    epochs_of,
    manifest_name,
    partitions_in_order,
    read_description,
    read_manifest,
)
from headrace.engine.checkpoint.spark_log import problems as log_problems
from headrace.errors import CheckpointError
from headrace.state.files import Files
from headrace.state.snapshot import verify_chain

#: How often a check begins again because a running pipeline has deleted what it was reading.
_TRIES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What a check has found."""

    epochs: tuple[int, ...]  # whose manifests are there, oldest first
    problems: tuple[str, ...]  # empty: all is good
    files: int  # of state that were read
    size: int  # their bytes


def check(files: Files) -> Checked:
    """Read every manifest, every file that the newest one names, and Spark's logs."""
    for _ in range(_TRIES):
        epochs = epochs_of(files)
        found = _checked(files, epochs)
        if not found.problems or not epochs or files.exists(manifest_name(epochs[-1])):
            break  # else the pipeline has gone on meanwhile and swept these files away
    return found


def _checked(files: Files, epochs: Sequence[int]) -> Checked:
    problems: list[str] = []
    newest: Manifest | None = None
    try:
        if read_description(files) is None:
            problems.append(f"{files.path('pipeline.json')} is not there")
    except CheckpointError as e:
        problems.append(str(e))
    for epoch in epochs:
        newest = None
        try:
            newest = read_manifest(files, epoch)
        except CheckpointError as e:
            if epoch == epochs[-1] or files.exists(manifest_name(epoch)):  # else swept meanwhile
                problems.append(str(e))
    if newest is None:
        # Spark's logs then must not have counted anything either.
        folders = {"/".join(name.split("/")[:2]) for name in files.names("spark")}
        records = [LogRecord(folder=folder, batch=-1, sums={}) for folder in sorted(folders)]
        problems += [problem for record in records for problem in log_problems(files, record)]
        return Checked(epochs=tuple(epochs), problems=tuple(problems), files=0, size=0)
    for partition in partitions_in_order(newest):
        found = verify_chain(files, newest.partitions[partition])
        problems += [f"state partition {partition}: {problem}" for problem in found]
    for source, record in newest.logs.items():
        problems += [f"{source}: {problem}" for problem in log_problems(files, record)]
    links = [link for chain in newest.partitions.values() for link in chain.links]
    return Checked(
        epochs=tuple(epochs),
        problems=tuple(problems),
        files=len(links),
        size=sum(link.size for link in links),
    )
