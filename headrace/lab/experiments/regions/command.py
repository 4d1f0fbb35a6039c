"""The command line: calibrate with measured costs, predict speed-ups, draw them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from headrace.lab.commands import get_ready, number
from headrace.lab.experiments.regions.costs import (
    MEASURED,
    PUBLISHED,
    Costs,
    read_costs,
    write_costs,
)
from headrace.lab.experiments.regions.predict import (
    CHANNELS,
    PUBLISHED_OVERHEADS,
    PUBLISHED_POINTS,
    Curve,
    beside_published,
    by_epoch,
    by_selectivity,
    curves,
    overheads,
)


def parser() -> argparse.ArgumentParser:
    """Describe the arguments."""
    made = argparse.ArgumentParser(
        prog="headrace lab run regions", description="Model ordered parallel regions."
    )
    commands = made.add_subparsers(dest="command", required=True)
    measure = commands.add_parser("calibrate", help="measure the costs of the pieces, in Python")
    measure.add_argument("--save", type=Path, default=None, metavar="FILE",
                         help=f"where to write them. Default: print only; {MEASURED.name} beside "
                         "the model is what `predict` reads if not told otherwise")
    predict = commands.add_parser("predict", help="print speed-ups beside what was published")
    predict.add_argument("--costs", type=Path, default=MEASURED, metavar="FILE",
                         help="JSON with seconds for split, transfer, seqno, pulse, merge, heap "
                         f"and work. Default: {MEASURED.name}; `published` names {PUBLISHED.name}")
    predict.add_argument("--work", type=float, default=None, metavar="SECONDS",
                         help="work for a tuple, in place of that of the file")
    predict.add_argument("--channels", type=number, action="append", default=None, metavar="N",
                         help="may be given again. Default: " + ", ".join(map(str, CHANNELS)))
    predict.add_argument("--per-channel", type=number, default=1_000, metavar="N",
                         help="tuples for each channel. Default: 1000")
    predict.add_argument("--plot", type=Path, default=None, metavar="FILE", help="draw an SVG")
    predict.add_argument("--save", type=Path, default=None, metavar="FILE", help="write JSON")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks."""
    args = parser().parse_args(arguments)
    get_ready()
    if args.command == "calibrate":
        from headrace.lab.experiments.regions.calibrate import measured

        costs = measured()
        if args.save is not None:
            about = "Measured by `headrace lab run regions calibrate`: pieces in Python."
            write_costs(args.save, costs, about)
        for name, seconds in asdict(costs).items():
            print(f"{name:9} {seconds * 1e9:10.1f} ns")
        return 0
    return _predict(args)


def _predict(args: argparse.Namespace) -> int:
    costs = read_costs(PUBLISHED if str(args.costs) == "published" else args.costs)
    if args.work is not None:
        costs = replace(costs, work=args.work)
    found = curves(costs, args.channels or CHANNELS, args.per_channel)
    said = _said(costs, found, args.per_channel)
    print(_text(found, said))
    if args.plot is not None:
        from headrace.lab.experiments.regions.plot import svg

        title = f"Speed-up in the model, {costs.work * 1e6:g} us of work for a tuple"
        args.plot.write_text(svg(title, found, PUBLISHED_POINTS), encoding="utf-8")
    if args.save is not None:
        args.save.write_text(json.dumps(said, indent=2) + "\n", encoding="utf-8")
    return 0


def _said(costs: Costs, found: Sequence[Curve], per_channel: int) -> dict[str, Any]:
    cost = overheads(costs, per_channel=per_channel)
    return {
        "costs": asdict(costs),
        "per_channel": per_channel,
        "curves": [asdict(curve) for curve in found],
        "published": [
            {**asdict(point), "model": value} for point, value in beside_published(found)
        ],
        "overheads": {
            s.value: {"model": cost[s], "published_at_most": most}
            for s, most in PUBLISHED_OVERHEADS.items()
        },
        "by_epoch": by_epoch(costs, per_channel=per_channel),
        "by_selectivity": by_selectivity(costs),
    }


def _text(found: Sequence[Curve], said: dict[str, Any]) -> str:
    every = sorted({n for curve in found for n in curve.channels})
    lines = [f"{'channels':36}" + "".join(f"{n:>7}" for n in every)]
    for curve in found:
        known = dict(zip(curve.channels, curve.speedups, strict=True))
        row = "".join(f"{known[n]:>7.1f}" if n in known else f"{'':>7}" for n in every)
        lines.append(f"{curve.shape:36}{row}")
    lines.append("")
    lines += [
        f"{p['shape']} at {p['channels']}: {p['model']:.1f}, published {p['speedup']}"
        for p in said["published"]
    ]
    lines += [
        f"{name}: at most {cost['model']:.1%} on top of round robin, published "
        f"{cost['published_at_most']:.0%}"
        for name, cost in said["overheads"].items()
    ]
    lines.append(
        "with 10 us of work, by the length of an epoch: "
        + ", ".join(f"{e}: {v:.1f}" for e, v in said["by_epoch"].items())
    )
    lines.append(
        "with 10 us of work, by the share of tuples that mean any: "
        + ", ".join(f"{s:g}: {v:.1f}" for s, v in said["by_selectivity"].items())
    )
    return "\n".join(lines)
