"""Ordered regions on Spark with one and two channels, and what the model of regions says of them.

The model gets what one channel costs and what a job takes that has no work to do; it is asked for
the time of two channels, which is measured beside it. Needs two idle cores.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from statistics import median
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

import headrace
from headrace.io import ReadFromSpark, WriteToSpark
from headrace.lab.experiments.order.cases import CASES, KEYS, PAIR, SCHEMA, worked
from headrace.lab.experiments.regions.costs import MEASURED, read_costs
from headrace.lab.experiments.regions.mergers import Strategy
from headrace.lab.experiments.regions.model import Region, simulate

#: Where work dominates.
HEAVIEST = 16_384
ELEMENTS = 12_000
#: How the model restores order behind each case.
STRATEGIES = {
    "no state, exactly one": Strategy.ROUND_ROBIN,
    "at most one": Strategy.PULSES,
    "many": Strategy.SUB_INDEX,
    "keyed, exactly one": Strategy.NUMBERS,
}
_RESULTS = {"at most one": 0.5, "many": 2.0}


def speed_ups(cases: Iterable[str], rounds: int) -> list[dict[str, Any]]:
    """Measure all cases on both numbers of channels; the first round warms up.

    Each round is judged by itself, since what else the machine does changes from round to round,
    and the median of the rounds counts. Each number of channels is first in turn.
    """
    spark = headrace.session("local[2]")
    found = []
    for case in cases:
        judged = []
        for turn in range(rounds + 1):
            order = (1, 2) if turn % 2 else (2, 1)
            taken = {
                (channels, work): _seconds(spark, case, channels, work)
                for work in (1, HEAVIEST)
                for channels in order
            }
            judged.append(_judged(case, taken))
        row = _row(case, judged[1:])
        found.append(row)
        least, most = row["speed_up_range"]
        print(
            f"{case:24} {row['one_channel_s']:.1f} s, on two channels {row['two_channels_s']:.1f} "
            f"s: {row['speed_up']:.2f} ({least:.2f} to {most:.2f}), without the job's own time "
            f"{row['speed_up_of_work']:.2f}; measured over modelled "
            f"{row['measured_over_modelled']:.2f}", flush=True,
        )
    return found


def _judged(case: str, taken: dict[tuple[int, int], float]) -> dict[str, float]:
    """Say what one round shows."""
    idle_1, idle_2 = taken[1, 1], taken[2, 1]
    one, two = taken[1, HEAVIEST], taken[2, HEAVIEST]
    expected = idle_2 + _modelled(case, (one - idle_1) / ELEMENTS)
    return {
        "one_channel_s": one, "two_channels_s": two, "without_work_1_s": idle_1,
        "without_work_2_s": idle_2, "modelled_two_channels_s": expected,
        "speed_up": one / two, "speed_up_of_work": (one - idle_1) / (two - idle_2),
        "measured_over_modelled": two / expected,
    }


def _row(case: str, judged: list[dict[str, float]]) -> dict[str, Any]:
    """Give the median of all rounds, and how far they scatter."""
    row: dict[str, Any] = {
        "case": case, "elements": ELEMENTS, "multiplications": HEAVIEST, "rounds": len(judged),
    }
    for name in judged[0]:
        row[name] = round(median(each[name] for each in judged), 3)
    for name in ("speed_up", "measured_over_modelled"):
        every = [each[name] for each in judged]
        row[f"{name}_range"] = [round(min(every), 3), round(max(every), 3)]
    return row


def _modelled(case: str, work: float) -> float:
    """Give the seconds that the model takes on two channels with a core each."""
    strategy = STRATEGIES[case]
    costs = replace(read_costs(MEASURED), work=work)
    region = Region(
        channels=2, tuples=ELEMENTS, strategy=strategy, keyed=strategy is Strategy.NUMBERS,
        selectivity=_RESULTS.get(case, 1.0),
    )
    return simulate(region, costs).times[-1]


def _seconds(spark: Any, case: str, channels: int, work: int) -> float:
    frame = spark.range(0, ELEMENTS, 1, channels).selectExpr(
        f"concat('k', id % {KEYS}) AS key", "id AS number"
    )
    options = PipelineOptions([f"--shards={channels}", "--ordered", "--progress=off"])
    before = time.perf_counter()
    with beam.Pipeline(runner=headrace.SparkRunner(spark), options=options) as p:
        pairs = p | ReadFromSpark(frame) | beam.Map(worked, work).with_output_types(PAIR)
        _ = CASES[case](pairs) | WriteToSpark(function=lambda rows: rows.count(), schema=SCHEMA)
    return time.perf_counter() - before
