"""What a user sees, recorded in a pseudo-terminal: a stream, Ctrl-C, an exception, the demo.

Each is a process with a Spark of its own, so there are few; HEADRACE_SLOW=1 records each of them in
both widths, and the demo.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests.terminal.recorder import CTRL_C, Recording, Typing, record

ROOT = Path(__file__).parents[2]
HEADRACE = [sys.executable, "-m", "headrace.cli.main"]
SLOW = bool(os.environ.get("HEADRACE_SLOW"))

STREAM = """
import logging
import sys

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import window

from headrace import start_session
from headrace.io import ReadFromSpark

LAST = int(sys.argv.pop(1))


class Parse(beam.DoFn):
    def process(self, row):
        if row.value % 20 == 0:
            logging.getLogger("mine").warning("value %s", row.value)
            print("printed", row.value)
        yield self.pair(row)

    def pair(self, row):
        if row.value > LAST:
            raise ValueError(f"{row.value} is too large")
        return "key", row.value


spark = start_session("local[2]")
frame = spark.readStream.format("rate").option("rowsPerSecond", 20).load()
options = PipelineOptions(["--shards=1", *sys.argv[1:]])
with beam.Pipeline(options=options) as p:
    (
        p
        | "Rows" >> ReadFromSpark(frame, timestamp="timestamp")
        | "Parse" >> beam.ParDo(Parse()).with_output_types(tuple[str, int])
        | "Windows" >> beam.WindowInto(window.FixedWindows(1))
        | "Sum" >> beam.CombinePerKey(sum)
    )
"""

RAISES = 1 + next(n for n, line in enumerate(STREAM.splitlines()) if "raise ValueError" in line)
#: What the stream's own code writes, a line each.
OWN = (r"\d\d:\d\d:\d\d WARNING mine \[Parse\]: value \d+", r"printed \d+")
#: What is said while the last epoch still runs.
HINT = "headrace: stopping after the epoch that is running; Ctrl-C stops it at once"


def widths(usual: int) -> list[int]:
    return [80, 140] if SLOW else [usual]


def session(folder: Path, *arguments: str, columns: int, typing: Typing | None) -> Recording:
    (folder / "my_stream.py").write_text(STREAM)
    return record(
        [*HEADRACE, "run", "my_stream.py", *arguments], columns=columns, rows=40, folder=folder,
        typing=typing, env={"PYTHONPATH": str(ROOT)},
    )


def rest_of(found: Recording, *own: str) -> list[str]:
    """Give the lines that are left on the screen beside those that are meant to be there."""
    return [
        line for line in found.lines
        if line and not any(re.fullmatch(pattern, line) for pattern in own)
    ]  # fmt: skip


def check_live(found: Recording, columns: int) -> None:
    """The live line names each phase and what is known in it, and fits."""
    live = found.live()
    assert any(line.startswith("headrace: starting Spark; ") for line in live)
    assert any("starting workers for the first epoch; " in line for line in live)
    assert any(re.match(r"headrace: \S+: epoch \d+; \d+ ms; watermark 2", line) for line in live)
    assert not any("not known" in line or " 0 ms" in line for line in live)
    assert max(map(len, live)) < columns
    tables = [screen for screen in found.screens if any(r.startswith("step ") for r in screen)]
    assert tables != []
    head = next(row for row in tables[-1] if row.startswith("step "))
    assert head.split() == ["step", "elements", "rate", "watermark", "lag", "state", "busy"]
    below = tables[-1][tables[-1].index(head) + 1 :]
    assert [row.split()[0] for row in below[:3]] == ["Parse", "Windows", "Sum"]


@pytest.mark.spark
@pytest.mark.timeout(300, func_only=True)
@pytest.mark.parametrize("columns", widths(80))
def test_a_stream_is_followed_and_ctrl_c_says_what_is_kept(tmp_path: Path, columns: int) -> None:
    found = session(
        tmp_path, "1000000", "--checkpoint=state", columns=columns,
        typing=Typing(after=": epoch 4;", keys=CTRL_C),
    )
    assert found.wrapped() == []
    check_live(found, columns)
    # Where an epoch takes longer than a hint may wait, that is said first.
    rest = [line for line in rest_of(found, *OWN) if not line.endswith(HINT)]
    assert len(rest) == 1, rest
    (told,) = rest
    assert re.fullmatch(
        r"(\^C)?headrace: interrupted: stopped after epoch \d+; to go on: --checkpoint=state", told
    )
    assert len([line for line in found.lines if line.startswith("printed")]) > 1
    assert found.status == 130
    assert list((tmp_path / "state" / "manifests").iterdir()) != []


@pytest.mark.spark
@pytest.mark.timeout(300, func_only=True)
@pytest.mark.parametrize("columns", widths(140))
def test_an_exception_of_a_stream_is_told_once_in_forty_lines(tmp_path: Path, columns: int) -> None:
    found = session(tmp_path, "50", columns=columns, typing=None)
    told = rest_of(found, *OWN)
    assert len(told) <= 40
    assert len([line for line in told if "raise ValueError" in line]) == 1
    assert "  step:    Parse" in told
    assert "  element: row of timestamp, value" in told
    (place,) = [line for line in told if line.startswith("  look at: ")]
    assert place == f"  look at: my_stream.py, line {RAISES}, in pair"
    text = "\n".join(told)
    for foreign in ("py4j", "org.apache", "\tat ", "headrace-failure", "WARN", "apitools"):
        assert foreign not in text
    assert [line for line in found.wrapped() if "/" not in line] == []  # paths may be long
    assert found.status == 1


@pytest.mark.spark
@pytest.mark.timeout(300, func_only=True)
@pytest.mark.skipif(not SLOW, reason="tests/docs/test_demo.py runs it without a terminal")
@pytest.mark.parametrize("columns", [80, 140])
def test_the_demo_leaves_its_own_words_alone(tmp_path: Path, columns: int) -> None:
    found = record(
        [sys.executable, str(ROOT / "examples" / "demo.py"), "--events=3000", "--seconds=3"],
        columns=columns, rows=40, folder=tmp_path,
    )
    assert found.status == 0
    assert found.wrapped() == []
    assert found.lines[-1] == "demo passed"
    assert found.lines[0].startswith("headrace demo: 3,000 bids")
    text = "\n".join(found.lines)
    for foreign in ("apitools", "log4j", "WARN", "hostname", "native-hadoop", "incubator"):
        assert foreign not in text
    assert any(": epoch " in line for line in found.live())
