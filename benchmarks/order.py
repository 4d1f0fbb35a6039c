"""`python -m benchmarks.order`: what order costs, by the work that is done for each element.

Each case is a region of its own: no state and exactly one output, at most one, many, keyed state,
a grouping. It runs in this process, without Spark, unordered and ordered in turns, and the
processor time of both is compared; so other work on the machine hardly counts. `--save` writes
results/order-cost.json, `--page` the table of docs/order-cost.md.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec

import headrace
from headrace.io import ReadFromSpark, WriteToSpark
from headrace.testing import LocalRunner, LocalSession

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results" / "order-cost.json"
CHANNELS = ROOT / "results" / "order-channels.json"
PAGE = ROOT / "docs" / "order-cost.md"
PAIR = tuple[str, int]
KEYS = 1_000
#: Elements of a run: fewer where each of them costs more.
ELEMENTS = 100_000
FEWEST = 2_000
#: Multiplications that a processor does in about the time of one element's way through a stage.
HEAVY = 256
#: Where work dominates.
HEAVIEST = 16_384
HEAVY_ELEMENTS = 20_000
ORDERED_CASES = ("no state, exactly one", "at most one", "many", "keyed, exactly one")


def worked(row: Any, multiplications: int) -> tuple[str, int]:
    """Do the work of one element."""
    found = row.number
    for _ in range(multiplications):
        found = found * 3 & 0xFFFF
    return row.key, found + row.number


def is_kept(pair: tuple[str, int]) -> bool:
    """Let every second element pass."""
    return pair[1] % 2 == 0


def twice(pair: tuple[str, int]) -> Iterator[tuple[str, int]]:
    """Make two of one."""
    yield pair
    yield pair[0], pair[1] + 1


def size(group: tuple[str, Any]) -> tuple[str, int]:
    """Count the values of a group."""
    return group[0], sum(1 for _ in group[1])


class Count(beam.DoFn):  # type: ignore[misc]
    """Numbers the elements of a key."""

    SEEN = ReadModifyWriteStateSpec("seen", VarIntCoder())

    def process(
        self, pair: tuple[str, int], seen: Any = beam.DoFn.StateParam(SEEN)  # noqa: B008
    ) -> Iterator[tuple[str, int]]:
        """Give the key and its number so far."""
        found = (seen.read() or 0) + 1
        seen.write(found)
        yield pair[0], found


def _group(pairs: Any) -> Any:
    return pairs | beam.GroupByKey() | beam.Map(size).with_output_types(PAIR)


CASES: dict[str, Callable[[Any], Any]] = {
    "no state, exactly one": lambda pairs: pairs,
    "at most one": lambda pairs: pairs | beam.Filter(is_kept),
    "many": lambda pairs: pairs | beam.FlatMap(twice).with_output_types(PAIR),
    "dealt out": lambda pairs: pairs | beam.Reshuffle(),
    "keyed, exactly one": lambda pairs: pairs | beam.ParDo(Count()).with_output_types(PAIR),
    "grouped": _group,
}


def seconds(case: str, frame: Any, work: int, *flags: str) -> float:
    """Run a case; give the processor time."""
    options = PipelineOptions(["--shards=2", *flags])
    before = time.process_time()
    with beam.Pipeline(runner=LocalRunner(), options=options) as p:
        rows = p | ReadFromSpark(frame)
        pairs = rows | beam.Map(worked, work).with_output_types(PAIR)
        _ = CASES[case](pairs) | WriteToSpark(
            function=lambda rows: rows.count(), schema="key string, number long"
        )
    return time.process_time() - before


def measure(case: str, work: int, rounds: int) -> dict[str, Any]:
    """Compare both, round by round."""
    elements = max(FEWEST, ELEMENTS // (1 + work // HEAVY))
    frame = LocalSession().createDataFrame(
        [(f"k{i % KEYS}", i) for i in range(elements)], "key string, number long"
    )
    plain, ordered = [], []
    for _ in range(rounds):
        plain.append(seconds(case, frame, work))
        ordered.append(seconds(case, frame, work, "--ordered"))
    ratios = [b / a for a, b in zip(plain, ordered, strict=True)]
    return {
        "case": case,
        "multiplications": work,
        "elements": elements,
        "unordered_us": round(min(plain) / elements * 1e6, 3),
        "ordered_us": round(min(ordered) / elements * 1e6, 3),
        "ratio": round(min(ordered) / min(plain), 3),
        "ratio_median": round(statistics.median(ratios), 3),
    }


def speed_up(cases: Sequence[str], rounds: int) -> list[dict[str, Any]]:
    """Run ordered regions on Spark with one and two channels; give the time of both."""
    spark = headrace.session("local[2]")
    found = []
    for case in cases:
        times: dict[int, list[float]] = {1: [], 2: []}
        for _ in range(rounds + 1):
            for channels, taken in times.items():
                frame = spark.range(0, HEAVY_ELEMENTS, 1, channels).selectExpr(
                    f"concat('k', id % {KEYS}) AS key", "id AS number"
                )
                taken.append(_on_spark(spark, case, frame, channels))
        one, two = (min(taken[1:]) for taken in times.values())  # the first warms up
        found.append({
            "case": case, "elements": HEAVY_ELEMENTS, "multiplications": HEAVIEST,
            "one_channel_s": round(one, 2), "two_channels_s": round(two, 2),
            "speed_up": round(one / two, 2),
        })
        print(f"{case:24} {one:.1f} s, on two channels {two:.1f} s: {one / two:.2f}", flush=True)
    return found


def _on_spark(spark: Any, case: str, frame: Any, channels: int) -> float:
    options = PipelineOptions([f"--shards={channels}", "--ordered", "--progress=off"])
    before = time.perf_counter()
    with beam.Pipeline(runner=headrace.SparkRunner(spark), options=options) as p:
        rows = p | ReadFromSpark(frame)
        pairs = rows | beam.Map(worked, HEAVIEST).with_output_types(PAIR)
        _ = CASES[case](pairs) | WriteToSpark(
            function=lambda rows: rows.count(), schema="key string, number long"
        )
    return time.perf_counter() - before


def page(found: list[dict[str, Any]]) -> str:
    """Give the table."""
    works = sorted({row["multiplications"] for row in found})
    lines = [
        "# What order costs", "",
        "Processor time of an ordered run as a part of that of the same run without order, by the",
        "multiplications that are done for each element (in Python; the second line says how",
        "long an element takes without order and state). Written by",
        "`python -m benchmarks.order --save --page` from results/order-cost.json. Both run in",
        "turns in one process; the least of the rounds counts. What for: [Order](guide/order.md).",
        "",
        "| region | " + " | ".join(f"{w:,}" for w in works) + " |",
        "|---|" + "--:|" * len(works),
    ]
    first = {row["multiplications"]: row for row in found if row["case"] == next(iter(CASES))}
    times = (f"*{first[w]['unordered_us']:.1f}*" if w in first else "" for w in works)
    lines.append("| *microseconds for each* | " + " | ".join(times) + " |")
    for case in CASES:
        rows = {r["multiplications"]: r for r in found if r["case"] == case}
        if rows:
            cells = (f"{rows[w]['ratio']:.2f}" if w in rows else "" for w in works)
            lines.append(f"| {case} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[2])
    parser.add_argument("--rounds", type=int, default=3, help="of each case. Default: 3")
    parser.add_argument(
        "--work", type=int, action="append", metavar="N",
        help="multiplications for each element; may be given again. Default: 1, 4, ... 16,384",
    )
    parser.add_argument("--case", action="append", choices=list(CASES), help="default: all")
    parser.add_argument("--save", action="store_true", help="write the file in results/")
    parser.add_argument("--page", action="store_true", help="write docs/order-cost.md")
    parser.add_argument(
        "--channels", action="store_true",
        help="run ordered regions on Spark, with one and two channels; needs two idle cores",
    )
    asked = parser.parse_args()
    if asked.channels:
        rows = speed_up(asked.case or ORDERED_CASES, asked.rounds)
        if asked.save:
            CHANNELS.write_text(json.dumps(rows, indent=1) + "\n")
        return
    found = []
    for work in asked.work or [4**n for n in range(8)]:
        for case in asked.case or CASES:
            row = measure(case, work, asked.rounds)
            found.append(row)
            print(
                f"{case:24} {work:6,} multiplications: {row['unordered_us']:8.2f} us, in order "
                f"{row['ordered_us']:8.2f} us, {row['ratio']:.2f}", flush=True,
            )
    if asked.save:
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    if asked.page:
        PAGE.write_text(page(found))


if __name__ == "__main__":
    main()
