"""Lays the saved figures out as docs/order-cost.md, with a drawing. Pure: data in, text out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from math import log2
from typing import Any

from headrace.lab.experiments.order.cases import CASES

WIDTH, HEIGHT = 720, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 190, 36, 50
_COLOURS = ("#1f6f8b", "#6a8e3a", "#b5542a", "#7a5195", "#444444", "#c2185b")
#: What the publication on ordered regions found at most: with numbers, and with pulses.
NUMBERS_AT_MOST, PULSES_AT_MOST = 1.12, 1.21

Row = dict[str, Any]
_HEAD = """\
# What order costs

Processor time of an ordered run as a part of that of the same run without order. Both run in turns
in one process, without Spark; {counts}. Written by
`headrace lab run order --save --page` from results/order-cost.json. What for:
[Order](guide/order.md). On a shared machine two equal runs differ by up to a fifth, and single
cells by as much: look at the rows.

![Cost of order over work for each element, one line for each region](_static/order-cost.svg)

The dashed lines are what the publication on ordered regions found at most in its system: 12 % for
sequence numbers, 21 % with pulses.

## By work for each element

In multiplications, done in Python; the second line says how long an element takes without order
and state.
"""


def page(found: Sequence[Row]) -> str:
    """Give the page."""
    works = [row for row in found if "case" in row]
    pairs = max((row.get("pairs", 0) for row in found), default=0)
    counts = f"the median of {pairs} pairs counts" if pairs else "the least of the rounds counts"
    lines = [_HEAD.format(counts=counts), *_work_table(works)]
    if epochs := [row for row in found if "epoch" in row]:
        lines += [
            "", "## By length of an epoch", "",
            f"Keyed state in a stream of {epochs[0]['elements']:,} elements, by how many of them "
            "come in one epoch.", "",
            *_table("elements of an epoch", epochs, "epoch", "multiplications"),
        ]
    if selective := [row for row in found if "one_of" in row]:
        lines += [
            "", "## By selectivity", "",
            "One of so many elements passes a filter, and the work is done for those.", "",
            *_table("one of", selective, "one_of", "multiplications"),
        ]
    return "\n".join(lines) + "\n"


def _work_table(found: Sequence[Row]) -> Iterable[str]:
    works = sorted({row["multiplications"] for row in found})
    yield "| region | " + " | ".join(f"{w:,}" for w in works) + " |"
    yield "|---|" + "--:|" * len(works)
    first = {row["multiplications"]: row for row in found if row["case"] == next(iter(CASES))}
    times = (f"*{first[w]['unordered_us']:.1f}*" if w in first else "" for w in works)
    yield "| *microseconds for each* | " + " | ".join(times) + " |"
    for case in CASES:
        rows = {row["multiplications"]: row for row in found if row["case"] == case}
        if rows:
            cells = (f"{rows[w]['ratio']:.2f}" if w in rows else "" for w in works)
            yield f"| {case} | " + " | ".join(cells) + " |"


def _table(name: str, found: Sequence[Row], down: str, across: str) -> Iterable[str]:
    columns = sorted({row[across] for row in found})
    yield f"| {name} | " + " | ".join(f"{c:,} multiplications" for c in columns) + " |"
    yield "|---|" + "--:|" * len(columns)
    for value in sorted({row[down] for row in found}):
        rows = {row[across]: row for row in found if row[down] == value}
        cells = (f"{rows[c]['ratio']:.2f}" if c in rows else "" for c in columns)
        yield f"| {value:,} | " + " | ".join(cells) + " |"


def svg(found: Sequence[Row]) -> str:
    """Draw the cost over work."""
    rows = [row for row in found if "case" in row]
    far = max(2, *(row["multiplications"] for row in rows))
    low, top = 0.8, max(1.3, *(row["ratio"] for row in rows)) + 0.05
    wide, high = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM

    def x(work: float) -> float:
        return float(_LEFT + log2(work) / log2(far) * wide)

    def y(ratio: float) -> float:
        return float(HEIGHT - _BOTTOM - (max(ratio, low) - low) / (top - low) * high)

    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="20" font-weight="bold">'
        "Processor time in order, as a part of that without</text>",
        f'<path d="M{_LEFT},{_TOP} V{HEIGHT - _BOTTOM} H{_LEFT + wide}" fill="none" '
        'stroke="#888"/>',
        f'<text x="{_LEFT + wide / 2:.0f}" y="{HEIGHT - 10}" text-anchor="middle">'
        "multiplications for each element</text>",
    ]
    for work in sorted({row["multiplications"] for row in rows}):
        drawn.append(
            f'<text x="{x(work):.1f}" y="{HEIGHT - _BOTTOM + 16}" text-anchor="middle">'
            f"{work:,}</text>"
        )
    for tick in [n / 5 for n in range(int(low * 5), int(top * 5) + 1)]:
        drawn.append(
            f'<text x="{_LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:.1f}</text>'
        )
    for bound, dashes in ((1.0, "1 0"), (NUMBERS_AT_MOST, "4 4"), (PULSES_AT_MOST, "4 4")):
        drawn.append(
            f'<path d="M{_LEFT},{y(bound):.1f} H{_LEFT + wide}" stroke="#ccc" '
            f'stroke-dasharray="{dashes}"/>'
        )
    cases = [case for case in CASES if any(row["case"] == case for row in rows)]
    for colour, place, case in zip(_COLOURS, range(len(cases)), cases, strict=False):
        points = sorted((r["multiplications"], r["ratio"]) for r in rows if r["case"] == case)
        dots = " ".join(f"{x(work):.1f},{y(ratio):.1f}" for work, ratio in points)
        drawn.append(
            f'<polyline points="{dots}" fill="none" stroke="{colour}" stroke-width="1.8"/>'
        )
        drawn.append(
            f'<text x="{_LEFT + wide + 14}" y="{_TOP + 18 * place + 12}" fill="{colour}">'
            f"{escape(case)}</text>"
        )
    return "\n".join([*drawn, "</svg>"]) + "\n"
