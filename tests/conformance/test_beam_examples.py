"""Beam's example programs, as the wheel ships them, give on headrace what they give locally.

Those of ON_SPARK run on Spark, the others in one process; with HEADRACE_SLOW=1 all do both.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.places import SLOW, Place
from tests.spark_session import shared_session

pytestmark = [pytest.mark.timeout(60, func_only=True)]

RUNNERS = {Place.SPARK: "headrace.SparkRunner", Place.PROCESS: "headrace.testing.LocalRunner"}
OURS = (f"--runner={RUNNERS[Place.SPARK]}", "--shards=2", "--progress=off")
#: Beam's local runner by its full name: the short one may reach for a binary from the network.
LOCAL = ("--runner=apache_beam.runners.portability.fn_api_runner.FnApiRunner",)

PLAY = (
    "KENT I thought the king had more affected the Duke\n"
    "\n"
    "GLOUCESTER It did always seem so to us: but now\n"
    "the king it did  the Duke's  so so\n"
)
EDITS = "\n".join(
    json.dumps({"contributor_username": user, "timestamp": second})
    for user, second in [
        ("ann", 0), ("ann", 1800), ("ann", 5300), ("ann", 8900),
        ("bob", 100), ("bob", 2_600_000), ("bob", 2_600_060), ("cid", 2_591_990),
        ("cid", 2_592_010),
    ]
)  # fmt: skip
GAME = (
    "ann,red,10,1447686663000,a\n"
    "bob,red,3,1447686664000,b\n"
    "ann,red,-2,1447686665000,c\n"
    "this line is broken\n"
    "cid,blue,7,1447686666000,d\n"
)
MATCHES = (
    '{"host": ["Germany", 1], "guest": ["Italy", 0]}\n'
    '{"host": ["Germany", 1], "guest": ["Brasil", 3]}\n'
    '{"host": ["Brasil", 1], "guest": ["Italy", 1]}\n'
)


def as_it_is(line: str) -> str:
    return line


def with_its_parts_sorted(line: str) -> str:
    """For lines that list a group's values: a group has no order."""
    return " ".join(sorted(line.replace(") (", ")|(").split("|")))


@dataclass(frozen=True)
class Example:
    """One program: its inputs, and the options that name inputs and outputs."""

    module: str
    inputs: dict[str, str]  # file name -> content
    options: tuple[str, ...]  # {in} and {out} stand for the two folders
    entry: str = "run"
    normalise: Callable[[str], str] = field(default=as_it_is)
    header: str = ""  # a line that every file of an output repeats; how many files is our choice
    expected: tuple[str, ...] = ()  # lines worked out by hand, where that is short


def text_example(module: str, content: str = PLAY, **more: Any) -> Example:
    options = ("--input={in}/a.txt", "--output={out}/o")
    return Example(module, {"a.txt": content}, options, **more)


EXAMPLES = [
    text_example("wordcount"),
    text_example(
        "wordcount_minimal",
        "b a\na c a\n",
        entry="main",
        expected=("a: 3", "b: 1", "c: 1"),
    ),
    text_example(
        "wordcount_debugging",
        "Flourish stomach\nFlourish and Flourish\n",
        expected=("Flourish: 3", "stomach: 1"),
    ),
    text_example("wordcount_with_metrics", entry="main"),
    text_example("dataframe.wordcount", header="word,count"),
    text_example("complete.autocomplete"),
    text_example(
        "cookbook.coders",
        MATCHES,
        expected=('["Brasil", 4]', '["Germany", 3]', '["Italy", 1]'),
    ),
    text_example(
        "cookbook.custom_ptransform",
        "x\ny\nx\n",
        expected=("('x', 4)", "('y', 2)"),  # the last of its three pipelines counts by two
    ),
    text_example(
        "cookbook.group_with_coder",
        "ann,10\nbob,5\nann,-3\nannie,1\n",
        expected=("ann,7", "annie,1", "bob,5"),
    ),
    text_example("cookbook.multiple_output_pardo"),
    text_example(
        "complete.game.user_score",
        GAME,
        expected=(
            "user: ann, total_score: 8", "user: bob, total_score: 3", "user: cid, total_score: 7",
        ),
    ),
    Example(
        "complete.tfidf",
        {"1.txt": "abc def ghi\nabc", "2.txt": "abc def", "3.txt": "abc ghi"},
        ("--uris={in}/*", "--output={out}/o"),
    ),
    Example(
        "complete.top_wikipedia_sessions",
        {"edits.json": EDITS},
        ("--input={in}/edits.json", "--output={out}/o", "--sampling_threshold=1.0"),
    ),
    Example(
        "cookbook.mergecontacts",
        {
            "mail": "ann\tann@x.org\nbob\tbob@y.org\nann\tann@x.org\n",
            "phone": "ann\t123\ncid\t456\n",
            "post": "ann\tRoad 1\ndee\tRoad 2\n",
        },
        (
            "--input_email={in}/mail", "--input_phone={in}/phone", "--input_snailmail={in}/post",
            "--output_tsv={out}/tsv", "--output_stats={out}/stats",
        ),
    ),
    Example(
        "matrix_power",
        {"m": "0:1 2\n1:3 4\n", "v": "1 2\n"},
        ("--input_matrix={in}/m", "--input_vector={in}/v", "--exponent=3", "--output={out}/o"),
        expected=("(0, 145.0)", "(1, 317.0)"),  # by hand: (5, 11), (27, 59), (145, 317)
    ),
    Example(
        "complete.juliaset.juliaset.juliaset",
        {},
        ("--grid_size=12", "--coordinate_output={out}/o"),
        normalise=with_its_parts_sorted,
    ),
]  # fmt: skip


def outputs(example: Example, folder: Path, options: tuple[str, ...]) -> dict[str, list[str]]:
    """Run the program in this process; give the sorted lines of each output it wrote."""
    inputs, written = folder / "in", folder / "out"
    inputs.mkdir(parents=True)
    written.mkdir()
    for name, content in example.inputs.items():
        (inputs / name).write_text(content, encoding="utf-8")
    argv = [
        option.replace("{in}", str(inputs)).replace("{out}", str(written))
        for option in example.options
    ]
    module = importlib.import_module(f"apache_beam.examples.{example.module}")
    result = getattr(module, example.entry)([*argv, *options])
    if result is not None and hasattr(result, "wait_until_finish"):
        result.wait_until_finish()
    found = lines_of(written, example.normalise)
    if example.header:
        assert all(example.header in lines for lines in found.values())
        found = {n: [x for x in lines if x != example.header] for n, lines in found.items()}
    return found


def lines_of(folder: Path, normalise: Callable[[str], str] = as_it_is) -> dict[str, list[str]]:
    """Sorted lines of each output, its shards taken together."""
    found: dict[str, list[str]] = {}
    for path in folder.iterdir():
        if path.name.startswith("."):  # Beam's file sinks leave their emptied scratch folder
            continue
        name = path.name.split("-00")[0]
        # Some examples print the paths of their inputs.
        text = path.read_text(encoding="utf-8").replace(str(folder.parent), "")
        lines = text.splitlines()
        found.setdefault(name, []).extend(normalise(line) for line in lines)
    return {name: sorted(lines) for name, lines in found.items()}


#: Text in and out, metrics, several outputs, side inputs, joins, sessions, data frames.
ON_SPARK = {
    "wordcount_with_metrics", "dataframe.wordcount", "cookbook.multiple_output_pardo",
    "complete.tfidf", "complete.top_wikipedia_sessions", "cookbook.mergecontacts",
}  # fmt: skip


def in_their_places() -> list[Any]:
    """Give every example with the place where it runs."""
    assert {example.module for example in EXAMPLES} >= ON_SPARK
    found: list[Any] = []
    for example in EXAMPLES:
        on_spark = example.module in ON_SPARK
        if on_spark or SLOW:
            name = f"{example.module}-spark"
            found.append(pytest.param(example, Place.SPARK, marks=pytest.mark.spark, id=name))
        if not on_spark or SLOW:
            found.append(pytest.param(example, Place.PROCESS, id=f"{example.module}-process"))
    return found


@pytest.mark.parametrize(("example", "where"), in_their_places())
def test_an_example_of_beam_gives_what_the_local_runner_gives(
    example: Example, where: Place, tmp_path: Path
) -> None:
    if where is Place.SPARK:
        shared_session()  # the active session, which a runner made from its name alone will use
    options = (f"--runner={RUNNERS[where]}", *OURS[1:])
    ours = outputs(example, tmp_path / "ours", options)
    local = outputs(example, tmp_path / "beam", LOCAL)
    assert any(ours.values())
    assert ours == local
    if example.expected:
        (lines,) = ours.values()
        assert tuple(lines) == example.expected


@pytest.mark.spark
def test_estimate_pi_comes_close_to_pi(tmp_path: Path) -> None:
    shared_session()
    example = Example("complete.estimate_pi", {}, ("--output={out}/o",))
    found = outputs(example, tmp_path, OURS)
    (line,) = found["o"]
    total, inside, estimate = json.loads(line)
    assert total == 10_000_000
    assert estimate == 4 * inside / total
    # The standard deviation of the estimate is 0.0005; ten of them never happen by chance.
    assert math.isclose(estimate, math.pi, abs_tol=0.005)


@pytest.mark.spark
@pytest.mark.timeout(240, func_only=True)
def test_an_example_run_as_a_program_starts_its_own_session(tmp_path: Path) -> None:
    """As a user would from the shell: the example is `__main__`, nothing is set up before."""
    (tmp_path / "a.txt").write_text("b a\na c a\n", encoding="utf-8")
    (tmp_path / "out").mkdir()
    done = subprocess.run(
        [
            sys.executable, "-m", "apache_beam.examples.wordcount", *OURS,
            "--spark_master=local[1]", f"--input={tmp_path}/a.txt", f"--output={tmp_path}/out/o",
        ],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert lines_of(tmp_path / "out") == {"o": ["a: 3", "b: 1", "c: 1"]}
