"""Processor time of regions with and without order, in one process and without Spark.

Both run in pairs, one right behind the other and each first in turn, and the median of the pairs'
ratios counts: what else the machine does changes slowly, and so burdens both of a pair. A first
pair warms up and is not counted. Gives rows of plain data, one for each point of a sweep.
"""

from __future__ import annotations

import gc
import statistics
import time
import uuid
from collections.abc import Callable
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from headrace.io import ReadFromSpark, WriteToSpark
from headrace.lab.experiments.order.cases import CASES, KEYED, PAIR, SCHEMA, is_one_of, rows, worked
from headrace.testing import Collected, LocalRunner, LocalSession, ScriptedStream

#: Elements of a run: fewer where each of them costs more.
ELEMENTS = 100_000
FEWEST = 2_000
#: Multiplications that a processor does in about the time of one element's way through a stage.
HEAVY = 256
#: Elements of a stream, however they are cut into epochs.
STREAM_ELEMENTS = 64_000
EPOCHS = (1_000, 4_000, 16_000, 64_000)
#: One of so many elements has a result, and the work is done for those.
SELECTIVITIES = (1, 4, 16, 64, 256)
WORKS = tuple(4**n for n in range(8))

Row = dict[str, Any]


def by_work(case: str, work: int, rounds: int) -> Row:
    """Run a case as a batch."""
    elements = max(FEWEST, ELEMENTS // (1 + work // HEAVY))
    frame = LocalSession().createDataFrame(rows(elements), SCHEMA)

    def run(*flags: str) -> None:
        with _pipeline(*flags) as p:
            pairs = p | ReadFromSpark(frame) | beam.Map(worked, work).with_output_types(PAIR)
            _ = CASES[case](pairs) | _sink()

    return {"case": case, "multiplications": work, **_compared(run, elements, rounds)}


def by_selectivity(one_of: int, work: int, rounds: int) -> Row:
    """Let few elements pass, and work for those."""
    elements = max(FEWEST, ELEMENTS // (1 + work // HEAVY // one_of))
    frame = LocalSession().createDataFrame(rows(elements), SCHEMA)

    def run(*flags: str) -> None:
        with _pipeline(*flags) as p:
            kept = p | ReadFromSpark(frame) | beam.Filter(is_one_of, one_of)
            _ = kept | beam.Map(worked, work).with_output_types(PAIR) | _sink()

    return {"one_of": one_of, "multiplications": work, **_compared(run, elements, rounds)}


def by_epoch(epoch: int, work: int, rounds: int) -> Row:
    """Run keyed state as a stream of epochs of so many elements."""
    made = rows(STREAM_ELEMENTS)

    def run(*flags: str) -> None:
        events = ScriptedStream(SCHEMA)
        for start in range(0, STREAM_ELEMENTS, epoch):
            events.add(*made[start : start + epoch])
        place = f"--checkpoint=memory://order-{uuid.uuid4().hex}"
        with _pipeline("--available_now", place, *flags) as p:
            pairs = p | ReadFromSpark(events) | beam.Map(worked, work).with_output_types(PAIR)
            _ = CASES[KEYED](pairs) | Collected().sink(SCHEMA)

    return {"epoch": epoch, "multiplications": work, **_compared(run, STREAM_ELEMENTS, rounds)}


def _pipeline(*flags: str) -> beam.Pipeline:
    return beam.Pipeline(
        runner=LocalRunner(), options=PipelineOptions(["--shards=2", "--progress=off", *flags])
    )


def _sink() -> Any:
    return WriteToSpark(function=lambda rows: rows.count(), schema=SCHEMA)


def _compared(run: Callable[..., None], elements: int, rounds: int) -> Row:
    _seconds(run), _seconds(run, "--ordered")  # warms up: nothing is imported or compiled later
    plain, ordered = [], []
    for turn in range(rounds):
        if turn % 2:
            ordered.append(_seconds(run, "--ordered"))
        plain.append(_seconds(run))
        if not turn % 2:
            ordered.append(_seconds(run, "--ordered"))
    ratios = sorted(b / a for a, b in zip(plain, ordered, strict=True))
    return {
        "elements": elements,
        "pairs": rounds,
        "unordered_us": round(min(plain) / elements * 1e6, 3),
        "ordered_us": round(min(ordered) / elements * 1e6, 3),
        "ratio": round(statistics.median(ratios), 3),
        "ratio_least": round(min(ordered) / min(plain), 3),
        "ratio_range": [round(ratios[0], 3), round(ratios[-1], 3)],
    }


def _seconds(run: Callable[..., None], *flags: str) -> float:
    gc.collect()  # what the other run left behind is not this one's
    before = time.process_time()
    run(*flags)
    return time.process_time() - before
