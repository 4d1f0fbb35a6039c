"""Makes what a stream's events say, before anything is measured: one Arrow file for each stream.

So a data engine only has to date what it maps into memory, and holds rates at which a generator
would be late. The files live as long as the process that asked for them.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.lab.data.generator import COMMON_FIELDS, Generator
from headrace.lab.live.facts import STREAMS
from headrace.lab.workload import find

#: Events of a file: a whole number of the blocks in which NEXMark's hot people and auctions change.
EVENTS = 1_000_000
#: Events of a batch of the file, a few blocks of a data engine.
SLICE = 50_000

_folder: tempfile.TemporaryDirectory[str] | None = None
_made: dict[str, Path] = {}


def content_of(stream: str) -> Path:
    """Give the file of a stream; it is made when it is first asked for."""
    global _folder
    if stream not in _made:
        if _folder is None:
            _folder = tempfile.TemporaryDirectory(prefix="headrace-lab-content-")
        path = Path(_folder.name) / f"{stream.replace(' ', '-')}.arrow"
        write_content(stream, path)
        _made[stream] = path
    return _made[stream]


def write_content(stream: str, path: Path, events: int = EVENTS) -> None:
    """Write the file of a stream."""
    made = generator_of(stream)
    facts = STREAMS[stream]
    names = [*(field.name for field in COMMON_FIELDS), *facts.columns]
    schema = pa.schema([made.schema.field(name) for name in names])
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as out:
        for start in range(0, events, SLICE):
            batch = made.batch(start, min(SLICE, events - start))
            out.write_batch(batch.select(names))


def generator_of(stream: str) -> Generator:
    """Give the workload's own generator of a stream."""
    facts = STREAMS[stream]
    settings: Any = find(facts.settings)(**facts.told)
    made: Generator = find(facts.generator)(settings)
    return made
