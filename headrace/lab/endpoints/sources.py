"""Sources as the start of a Beam pipeline: events of a generator with their event times.

Takes the name of a source, gives a PTransform. Lines become elements through the generator's own
`from_line`. Only the source `spark` needs a session, and only headrace can run it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from headrace.errors import OptionError
from headrace.lab.data.generator import Generator
from headrace.lab.data_engine.launch import Feed
from headrace.lab.endpoints.names import Source, SourceKind

#: Elements that one call makes; large enough for column-wise work, small enough for memory.
BLOCK = 50_000
#: The columns of the DataFrame behind the source `spark`.
TIME, LINE = "time", "line"


class Held(beam.PTransform):  # type: ignore[misc]
    """Elements that are in memory, with their times in microseconds.

    They leave in one go: a pipeline in streaming mode sees them in its first epoch.
    """

    def __init__(self, elements: Iterable[tuple[Any, int]]) -> None:
        super().__init__()
        self._elements = list(elements)

    def expand(self, pbegin: Any) -> Any:
        """Make the collection."""
        return pbegin | beam.Create(self._elements, reshuffle=False) | beam.Map(_stamped)


class Lines(beam.PTransform):  # type: ignore[misc]
    """The lines of a file."""

    def __init__(self, path: str, generator: Generator) -> None:
        super().__init__()
        self._path = path
        self._generator = generator

    def expand(self, pbegin: Any) -> Any:
        """Make the collection."""
        from apache_beam.io import ReadFromText

        return pbegin | ReadFromText(self._path) | beam.Map(partial(_parsed, self._generator))


class SparkLines(beam.PTransform):  # type: ignore[misc]
    """The lines in a DataFrame with the columns `time` and `line`.

    Args:
        frame: the DataFrame, bounded or streaming.
        generator: knows what a line means.
        disorder_seconds: how far out of order the times may be.
    """

    def __init__(self, frame: Any, generator: Generator, disorder_seconds: float) -> None:
        super().__init__()
        self._frame = frame
        self._generator = generator
        self._disorder_seconds = disorder_seconds

    def expand(self, pbegin: Any) -> Any:
        """Make the collection; elements keep the times that the column gave them."""
        from headrace.io import BoundedOutOfOrderness, ReadFromSpark

        read = ReadFromSpark(
            self._frame, columns=[LINE], timestamp=TIME,
            watermark=BoundedOutOfOrderness(self._disorder_seconds),
        )
        return pbegin | read | beam.Map(partial(_element, self._generator))


def _stamped(pair: tuple[Any, int]) -> TimestampedValue:
    return TimestampedValue(pair[0], Timestamp(micros=pair[1]))


def _parsed(generator: Generator, line: str) -> TimestampedValue:
    return _stamped(generator.from_line(line))


def _element(generator: Generator, row: Any) -> Any:
    return generator.from_line(row.line)[0]


def beam_source(
    source: Source, generator: Generator, *, streaming: bool, readers: int, pace: bool
) -> beam.PTransform:
    """Give the source that any Beam runner can run.

    Raises:
        OptionError: there is no such file, or the source needs Spark.
    """
    match source.kind:
        case SourceKind.GENERATOR:
            from headrace.lab.data.beam_source import Events

            return Events(generator, streaming=streaming, readers=readers, pace=pace)
        case SourceKind.VECTOR:
            return Held(held(generator))
        case SourceKind.FILE | SourceKind.CONSOLE:
            if not Path(source.path).is_file():
                msg = f"there is no file {source.path}"
                raise OptionError(msg)
            return Lines(source.path, generator)
        case SourceKind.NULL:
            return Held(())
        case SourceKind.ENGINE:
            from headrace.lab.data_engine.beam_reader import ReadFromEngine

            opened = getattr(generator, "from_batch", None)
            if opened is None or not streaming:
                msg = "a data engine sends the events of the lab's probe, to streaming runs"
                raise OptionError(msg)
            return ReadFromEngine(Feed.read(source.path), opened)
        case SourceKind.SPARK | SourceKind.LOG:
            msg = (
                f"the source {source.kind.value} is a DataFrame: the system must be headrace or "
                "spark"
            )
            raise OptionError(msg)


def held(generator: Generator) -> Iterator[tuple[Any, int]]:
    """Give all elements of a generator with their times, in the order of their arrival."""
    for start in range(0, generator.events, BLOCK):
        made = generator.elements(start, min(BLOCK, generator.events - start))
        yield from zip(*made, strict=True)


def spooled(source: Source, generator: Generator, folder: Path) -> Source:
    """Bring the lines of the console into a file, to the end of the standard input.

    A pipeline is read by workers that have no console. Other sources are given back as they are.

    Raises:
        OptionError: a line cannot be read; says which and why.
    """
    if source.kind is not SourceKind.CONSOLE or source.path:
        return source
    path = folder / "console.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number, line in enumerate(sys.stdin, 1):
            text = line.rstrip("\n")
            try:
                generator.from_line(text)
            except ValueError as error:
                msg = f"line {number} of the standard input: {error}"
                raise OptionError(msg) from error
            file.write(f"{text}\n")
    return Source(SourceKind.CONSOLE, str(path))


def events_of(source: Source, generator: Generator) -> int:
    """Say how many events a source has."""
    if source.kind is SourceKind.NULL:
        return 0
    if source.kind in (SourceKind.FILE, SourceKind.CONSOLE):
        with Path(source.path).open("rb") as file:
            return sum(1 for _ in file)
    return generator.events


def differs(path: str, generator: Generator) -> str:
    """Say where the lines of a file are not those of the generator; empty if they are the same."""
    with Path(path).open(encoding="utf-8") as file:
        number = 0
        for start in range(0, generator.events, BLOCK):
            elements, _ = generator.elements(start, min(BLOCK, generator.events - start))
            lines = [line.rstrip("\n") for line in islice(file, len(elements))]
            for element, line in zip(elements, lines, strict=False):
                number += 1
                if generator.to_line(element) != line:
                    return f"line {number} of {path} is not event {number - 1} of these settings"
            if len(lines) < len(elements):
                return f"{path} has {number:,} lines, these settings make {generator.events:,}"
        if file.readline():
            return f"{path} has more lines than the {generator.events:,} that these settings make"
    return ""
