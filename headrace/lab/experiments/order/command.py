"""`headrace lab run order`: what order costs.

Each region runs in this process, without Spark, unordered and ordered in turns, over work for each
element, lengths of an epoch and selectivities; the processor time of both is compared, so other
work on the machine hardly counts. `--channels` runs ordered regions on Spark instead, with one and
two channels. `--save` writes results/order-cost.json or results/order-channels.json, `--page`
docs/order-cost.md and its drawing.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from headrace.lab.commands import ROOT
from headrace.lab.experiments.order.cases import CASES, PUBLISHED
from headrace.lab.experiments.order.costs import (
    EPOCHS,
    SELECTIVITIES,
    WORKS,
    by_epoch,
    by_selectivity,
    by_work,
)
from headrace.lab.experiments.order.page import page, svg

RESULTS = ROOT / "results" / "order-cost.json"
CHANNELS = ROOT / "results" / "order-channels.json"
PAGE = ROOT / "docs" / "order-cost.md"
DRAWING = ROOT / "docs" / "_static" / "order-cost.svg"
#: Work of the sweeps over epochs and selectivities.
FEW_WORKS = (16, 1_024, 16_384)
STREAM_WORKS = (1, 1_024)


def measure(asked: argparse.Namespace) -> list[dict[str, Any]]:
    """Run all that was asked for, and tell of each point."""
    found = []
    points: list[tuple[str, Callable[[], dict[str, Any]]]] = [
        (f"{case}, {work:,} multiplications", partial(by_work, case, work, asked.rounds))
        for work in asked.work or WORKS
        for case in asked.case or CASES
    ]
    if not asked.case:
        points += [
            (f"epochs of {epoch:,}, {work:,} multiplications",
             partial(by_epoch, epoch, work, asked.rounds))
            for work in STREAM_WORKS
            for epoch in EPOCHS
        ]
        points += [
            (f"one of {one_of}, {work:,} multiplications",
             partial(by_selectivity, one_of, work, asked.rounds))
            for work in FEW_WORKS
            for one_of in SELECTIVITIES
        ]
    for name, run in points:
        row = run()
        found.append(row)
        print(
            f"{name:48} {row['unordered_us']:9.2f} us, in order {row['ordered_us']:9.2f} us, "
            f"{row['ratio']:.2f} ({row['ratio_range'][0]:.2f} to {row['ratio_range'][1]:.2f})",
            flush=True,
        )
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, save."""
    about, _, rest = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(prog="headrace lab run order", description=rest or about)
    parser.add_argument(
        "--rounds", type=int, default=3,
        help="pairs of each point. Default: 3; 7 take about 25 minutes",
    )
    parser.add_argument(
        "--work", type=int, action="append", metavar="N",
        help="multiplications for each element; may be given again. Default: 1, 4, ... 16,384",
    )
    parser.add_argument(
        "--case", action="append", choices=list(CASES), help="these regions alone. Default: all"
    )
    parser.add_argument("--save", action="store_true", help="write the file in results/")
    parser.add_argument("--page", action="store_true", help="write the page from that file")
    parser.add_argument(
        "--channels", action="store_true",
        help="run ordered regions on Spark, with one and two channels; needs two idle cores",
    )
    asked = parser.parse_args(arguments)
    if asked.channels:
        from headrace.lab.experiments.order.channels import speed_ups

        rows = speed_ups(asked.case or PUBLISHED, asked.rounds)
        if asked.save:
            CHANNELS.write_text(json.dumps(rows, indent=1) + "\n")
        return 0
    if asked.save or not asked.page:
        found = measure(asked)
        if asked.save:
            RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    if asked.page:
        saved = json.loads(RESULTS.read_text())
        PAGE.write_text(page(saved))
        DRAWING.write_text(svg(saved))
    return 0
