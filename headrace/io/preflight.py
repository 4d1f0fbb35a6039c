"""Refuses, before any work is done, a sink that could not take the rows at its end.

Takes the sinks of a pipeline and a session, raises an error that names the step and the remedy.
Changes nothing. What only a write can show (quotas, rights in a remote store) is not looked for.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.errors import ColumnTypeError, OptionError
from headrace.io.places import Mode
from headrace.io.sinks import Sink
from headrace.io.storage import LocalStorage, storage_of
from headrace.io.write import WriteToSpark


def check_sinks(
    sinks: Mapping[str, Sink], session: Any, *, streaming: bool, own_disk: bool,
    sees_storage: bool = True,
) -> None:
    """Look at every sink that writes to a path or a table.

    Args:
        sinks: by the full names of their steps.
        session: whose idea of paths and tables holds.
        streaming: rows come epoch by epoch; what is there may be the run's own, so it is asked for
            when the run claims its sinks.
        own_disk: workers write on the driver's disk.
        sees_storage: this process can look at what Spark writes to; else a path is not looked at.
    """
    for name, sink in sinks.items():
        if not isinstance(sink, WriteToSpark):
            continue
        if sink.path is not None:
            if not sees_storage:
                continue
            taken = not streaming and sink.mode is Mode.ERROR
            _check_path(name, sink.path, session, taken=taken, own_disk=own_disk)
        elif sink.table is not None and not streaming:
            _check_table(name, sink, session)


def _check_path(name: str, path: str, session: Any, *, taken: bool, own_disk: bool) -> None:
    storage = storage_of(session, path)
    if taken and storage.exists(path):
        msg = (
            f"{name}: {path} is there already. Give another path, or say what shall become of it: "
            "WriteToSpark(..., mode='overwrite') or mode='append'"
        )
        raise OptionError(msg)
    if not own_disk or not isinstance(storage, LocalStorage):
        return
    if why := why_not_writable(storage.location(path)):
        msg = f"{name}: {path} cannot be written: {why}"
        raise OptionError(msg)


def why_not_writable(path: str) -> str:
    """Say why a folder of this machine cannot be made or written; empty if it can."""
    location = Path(path)
    while not os.path.lexists(location) and location != location.parent:
        location = location.parent
    if location.exists() and not location.is_dir():
        return f"{location} is a file, not a folder"
    if not os.access(location, os.W_OK | os.X_OK):
        owner = "the user of this process" if os.geteuid() else "this process"
        return f"{owner} may not write in {location}; change its rights, or give another path"
    return ""


def _check_table(name: str, sink: WriteToSpark, session: Any) -> None:
    if sink.mode is Mode.OVERWRITE or not session.catalog.tableExists(sink.table):
        return
    if sink.mode is Mode.ERROR:
        msg = (
            f"{name}: the table {sink.table} is there already. Give another, or say what shall "
            "become of it: WriteToSpark(..., mode='overwrite') or mode='append'"
        )
        raise OptionError(msg)
    there, ours = session.table(sink.table).columns, sink.columns(session).names
    if {c.lower() for c in there} != {c.lower() for c in ours}:
        msg = (
            f"{name}: the table {sink.table} has the columns {', '.join(there)}, and the rows have "
            f"{', '.join(ours)}; append needs the same ones"
        )
        raise ColumnTypeError(msg)
