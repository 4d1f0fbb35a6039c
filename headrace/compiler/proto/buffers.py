"""Writes sources into the buffer ids by which Beam's fusion joins stages, and reads them back.

A buffer id is `kind:name`. Beam makes those of collections and groupings, we those of sources.
Nobody else takes such an id apart: the plan has `headrace.plan.sources`.
"""

from __future__ import annotations

from apache_beam.runners.portability.fn_api_runner import translations

from headrace.plan.sources import Frame, Impulse, ScriptOutput, Source

GROUP_BUFFER = "group"  # Beam's word for what a GroupByKey reads
OUTPUT_BUFFER = "output"  # leaves the plan as rows of a DataFrame
SPREAD_BUFFER = "spread"  # what a reshuffle reads
_FRAME = "frame"
_SCRIPT = "script"


def buffer_of(source: Source) -> bytes:
    """Give the id of the buffer that a source fills.

    >>> buffer_of(ScriptOutput("a/TestStream", "left"))
    b'script:a/TestStream:left'
    """
    match source:
        case Impulse():
            return bytes(translations.IMPULSE_BUFFER)
        case Frame(name):
            return f"{_FRAME}:{name}".encode()
        case ScriptOutput(script, tag):
            return f"{_SCRIPT}:{script}:{tag}".encode()


def source_of(buffer: str) -> Source | None:
    """Give the source that fills a buffer; None: a stage does.

    >>> source_of("frame:Read: all"), source_of("materialize:ref_1")
    (Frame(name='Read: all'), None)
    """
    if buffer == translations.IMPULSE_BUFFER.decode():
        return Impulse()
    kind, _, name = buffer.partition(":")
    if kind == _FRAME:
        return Frame(name)
    if kind == _SCRIPT:
        script, _, tag = name.rpartition(":")
        return ScriptOutput(script, tag)
    return None


def kind_of(buffer: str) -> str:
    """Give what kind of buffer it is."""
    return buffer.partition(":")[0]
