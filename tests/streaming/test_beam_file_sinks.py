"""Beam's own file sinks, in an epoch that is run again on another number of shards.

`WriteToFiles` names the files of a window by how many there are: one for each shard that has rows
of it. So the rows of a window must reach it in one piece; else files of both attempts stay.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.io import fileio
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms import window

from headrace.state.crash_points import Point, observed
from tests.streaming.harness import checkpointed, finished

pytestmark = [pytest.mark.timeout(120)]

KEYS = 40


class EndedError(Exception):
    """The driver ends here."""


class OnePiece(beam.PTransform):  # type: ignore[misc]
    """Brings the rows of each window to one shard."""

    def expand(self, pcoll: Any) -> Any:
        return (
            pcoll
            | beam.Map(lambda line: (0, line)).with_output_types(tuple[int, str])
            | beam.GroupByKey()
            | beam.FlatMap(lambda pair: pair[1]).with_output_types(str)
        )


def run(folder: Path, shards: int, sink: Any) -> None:
    pipeline = checkpointed(folder, shards=shards)
    elements = [window.TimestampedValue((f"key-{n}", 1), 5) for n in range(KEYS)]
    script = TestStream().add_elements(elements).advance_watermark_to(100)
    _ = (
        pipeline
        | script.advance_watermark_to_infinity()
        | beam.Map(lambda pair: pair).with_output_types(tuple[str, int])
        | beam.WindowInto(window.FixedWindows(10))
        | beam.CombinePerKey(sum)
        | beam.MapTuple("{} {}".format).with_output_types(str)
        | OnePiece()
        | sink
    )
    finished(pipeline)


@pytest.mark.parametrize("kind", ["WriteToFiles", "WriteToText"])
def test_a_window_in_one_piece_is_written_once_though_the_shards_change(
    tmp_path: Path, kind: str
) -> None:
    """The driver ends when the files of the window are there and nothing counts yet."""

    def sink() -> Any:
        if kind == "WriteToText":
            return beam.io.WriteToText(str(tmp_path / "out" / "rows"), num_shards=1)
        return fileio.WriteToFiles(str(tmp_path / "out"), sink=lambda _: fileio.TextSink())

    def files() -> list[Path]:
        # Temporary files are in folders, or begin with a dot.
        return [path for path in (tmp_path / "out").glob("[!.]*") if path.is_file()]

    def end(point: Point, *unused: object) -> None:
        if point is Point.BEFORE_SINKS and files():
            raise EndedError

    with observed(end), pytest.raises(EndedError):
        run(tmp_path, 2, sink())
    assert len(files()) == 1
    run(tmp_path, 3, sink())
    lines = [line for path in files() for line in path.read_text().splitlines()]
    assert sorted(lines) == sorted(f"key-{n} 1" for n in range(KEYS))
