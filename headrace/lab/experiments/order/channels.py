"""Ordered regions on Spark with one and two channels, and what the model of regions says of them.

The model gets what one channel costs and what a job takes that has no work to do; it is asked for
the time of two channels, which is measured beside it. Needs two idle cores.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
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
    """Measure all cases on both numbers of channels; the first round warms up."""
    spark = headrace.session("local[2]")
    found = []
    for case in cases:
        taken: dict[tuple[int, int], list[float]] = {}
        for _ in range(rounds + 1):
            for channels in (1, 2):
                for work in (1, HEAVIEST):
                    took = _seconds(spark, case, channels, work)
                    taken.setdefault((channels, work), []).append(took)
        idle_1, one, idle_2, two = (
            min(taken[point][1:]) for point in ((1, 1), (1, HEAVIEST), (2, 1), (2, HEAVIEST))
        )
        expected = idle_2 + _modelled(case, (one - idle_1) / ELEMENTS)
        found.append({
            "case": case, "elements": ELEMENTS, "multiplications": HEAVIEST, "rounds": rounds,
            "one_channel_s": round(one, 2), "two_channels_s": round(two, 2),
            "speed_up": round(one / two, 2),
            "without_work_s": [round(idle_1, 2), round(idle_2, 2)],
            "modelled_two_channels_s": round(expected, 2),
            "measured_over_modelled": round(two / expected, 3),
        })
        print(
            f"{case:24} {one:.1f} s, on two channels {two:.1f} s: {one / two:.2f}; "
            f"the model says {expected:.1f} s", flush=True,
        )
    return found


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
