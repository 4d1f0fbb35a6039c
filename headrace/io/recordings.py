"""Records what a streaming DataFrame brings, so that a notebook can look at it again and again.

Takes a streaming DataFrame and a time, gives a bounded one with the rows that came. Knows nothing
of pipelines. The rows lie in the driver's memory: they are there to be looked at.
"""

from __future__ import annotations

import time
import uuid
from typing import Any

#: How often it is asked whether all that is there has come.
_PAUSE_SECONDS = 0.2


def record(frame: Any, seconds: float) -> Any:
    """Read until rows have come and no more are waiting, or the time is over."""
    name = f"headrace_recording_{uuid.uuid4().hex}"
    query = frame.writeStream.format("memory").queryName(name).outputMode("append").start()
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end and not _is_complete(query):
            query.awaitTermination(_PAUSE_SECONDS)  # raises what the query died of
    finally:
        query.stop()
    session = frame.sparkSession
    rows = session.table(name)
    session.catalog.dropTempView(name)
    return rows


def _is_complete(query: Any) -> bool:
    came = any(progress["numInputRows"] for progress in query.recentProgress)
    return came and not query.status["isDataAvailable"] and not query.status["isTriggerActive"]


def recording_seconds() -> float:
    """Give how long Beam's notebooks record: `ib.options.recording_duration`."""
    from apache_beam.runners.interactive import interactive_environment

    options = interactive_environment.current_env().options
    return float(options.recording_duration.total_seconds())
