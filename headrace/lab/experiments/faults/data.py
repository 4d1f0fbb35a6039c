"""The input: files of events, and files of rates that come late. Made from a seed, byte for byte.

Takes what is wanted and a folder, writes Parquet files. Every file is one epoch of a run, because
the streaming reader takes them one by one in the order of their times of modification.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

START_SECONDS = 1_700_000_000
#: Event time that one file of events covers.
FILE_SECONDS = 20
#: How far out of order an event may be. The pipeline's watermark relies on it: with less, events
#: would be dropped and the answer depend on where epochs end.
DISORDER_SECONDS = 12
#: Windows of the totals, the flushes and the rates.
WINDOW_SECONDS = 30
#: Rates differ by the last digits of an event's number.
CLASSES = 8
#: Events of one key in a second, so that its sessions begin and end.
KEY_RATE = 0.4
#: One event in so many has the hot key, whose session never ends.
HOT = 64

_MICROS = 1_000_000
#: Events have whole milliseconds: Beam's coder of windows keeps no more of a session's bounds.
_MILLIS = 1_000
_EVENTS = pa.schema(
    [("at", pa.timestamp("us", tz="UTC")), ("key", pa.string()), ("value", pa.int64())]
)
_RATES = pa.schema(
    [("at", pa.timestamp("us", tz="UTC")), ("kind", pa.int64()), ("rate", pa.int64())]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSpec:
    """What an input is like."""

    elements: int
    files: int  # of events
    rate_files: int  # the more there are, the longer events wait for their rates
    seed: int

    @property
    def seconds(self) -> int:
        """Event time from the first event to the last."""
        return self.files * FILE_SECONDS

    @property
    def keys(self) -> int:
        """How many keys there are."""
        return max(8, round(self.elements / self.seconds / KEY_RATE))


def write_input(folder: Path, spec: InputSpec) -> None:
    """Write the files and, beside them, the spec."""
    drawn = np.random.default_rng(spec.seed)
    _write_events(folder / "events", spec, drawn)
    _write_rates(folder / "rates", spec, drawn)
    (folder / "spec.json").write_text(json.dumps(asdict(spec)))


def _write_events(folder: Path, spec: InputSpec, drawn: np.random.Generator) -> None:
    number = np.arange(spec.elements)
    at = number * (spec.seconds * _MILLIS) // spec.elements * 1_000
    # Who comes at `at + delay` is preceded only by events before that moment.
    order = np.argsort(
        at + drawn.integers(0, DISORDER_SECONDS * _MICROS, spec.elements), kind="stable"
    )
    key = drawn.integers(1, spec.keys, spec.elements)
    key[drawn.integers(0, HOT, spec.elements) == 0] = 0
    for index, rows in enumerate(np.array_split(order, spec.files)):
        columns = [
            pa.array(START_SECONDS * _MICROS + at[rows], pa.int64()).cast(_EVENTS.field(0).type),
            pa.array([f"key-{k}" for k in key[rows]], pa.string()),
            pa.array(number[rows], pa.int64()),
        ]
        _write(folder, index, pa.table(columns, schema=_EVENTS))


def _write_rates(folder: Path, spec: InputSpec, drawn: np.random.Generator) -> None:
    first = START_SECONDS // WINDOW_SECONDS
    windows = np.arange(first, (START_SECONDS + spec.seconds) // WINDOW_SECONDS + 1)
    at = np.repeat(windows * WINDOW_SECONDS, CLASSES) * _MICROS
    at = at + np.tile(np.arange(CLASSES), len(windows)) * _MICROS
    kind = np.tile(np.arange(CLASSES), len(windows))
    rate = drawn.integers(1, 100, len(at))
    for index, rows in enumerate(np.array_split(np.arange(len(at)), spec.rate_files)):
        columns = [
            pa.array(at[rows], pa.int64()).cast(_RATES.field(0).type),
            pa.array(kind[rows], pa.int64()),
            pa.array(rate[rows], pa.int64()),
        ]
        _write(folder, index, pa.table(columns, schema=_RATES))


def _write(folder: Path, index: int, table: pa.Table) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{index:05d}.parquet"
    pq.write_table(table, path)
    os.utime(path, (START_SECONDS + index, START_SECONDS + index))
