"""Finds the events of a data engine: a generator by its name, or an Arrow file made before.

A generator is named, never pickled: "module:function" and its settings as plain values, which any
process can load. A file is mapped into memory; its rows are the events in the order of arrival.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from itertools import accumulate
from typing import Any

import pyarrow as pa

from headrace.errors import OptionError
from headrace.lab.data.generator import Generator


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsName:
    """Where events come from, in words that fit into a message. Either field is empty."""

    file: str = ""  # an Arrow IPC file, as `headrace generate --format arrow` writes it
    module: str = ""  # has SETTINGS, a dataclass, and generator, which takes one
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if bool(self.file) == bool(self.module):
            msg = "a data engine has a file or a module of events"
            raise OptionError(msg)

    def told(self) -> dict[str, Any]:
        """Give it as plain values."""
        return {"file": self.file, "module": self.module, "settings": dict(self.settings)}


class FileEvents:
    """The rows of an Arrow file."""

    def __init__(self, path: str) -> None:
        try:
            self._reader = pa.ipc.open_file(pa.memory_map(path))
        except (OSError, pa.ArrowInvalid) as error:
            msg = f"{path} is no Arrow file of events: {error}"
            raise OptionError(msg) from error
        batches = range(self._reader.num_record_batches)
        counts = [self._reader.get_batch(at).num_rows for at in batches]
        self._ends = list(accumulate(counts))
        self.schema = self._reader.schema
        self.events = self._ends[-1] if counts else 0

    def batch(self, start: int, count: int) -> pa.RecordBatch:
        """Give some rows."""
        parts = []
        end = start + count
        while start < end:
            at = bisect_right(self._ends, start)
            batch = self._reader.get_batch(at)
            first = self._ends[at] - batch.num_rows
            parts.append(batch.slice(start - first, min(end, self._ends[at]) - start))
            start += parts[-1].num_rows
        return parts[0] if len(parts) == 1 else pa.concat_batches(parts)


def load(name: EventsName) -> FileEvents | Generator:
    """Open the events.

    Raises:
        OptionError: there are none of that name; says why.
    """
    if name.file:
        return FileEvents(name.file)
    try:
        module = import_module(name.module)
        made: Generator = module.generator(module.SETTINGS(**name.settings))
    except (ImportError, AttributeError, TypeError) as error:
        msg = f"{name.module} gives no events: {error}"
        raise OptionError(msg) from error
    return made

