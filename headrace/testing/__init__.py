"""headrace in one process, for unit tests of pipelines: no Spark, no JVM, the same engine."""

from __future__ import annotations

from headrace.quiet import quietly

with quietly():
    from headrace.testing import faults
    from headrace.testing.clock import ManualClock
    from headrace.testing.frames import LocalFrame, LocalSession
    from headrace.testing.runner import LocalRunner, LocalStreamResult, Stores
    from headrace.testing.sinks import Collected
    from headrace.testing.streams import ScriptedStream

__all__ = [
    "Collected",
    "LocalFrame",
    "LocalRunner",
    "LocalSession",
    "LocalStreamResult",
    "ManualClock",
    "ScriptedStream",
    "Stores",
    "faults",
]
