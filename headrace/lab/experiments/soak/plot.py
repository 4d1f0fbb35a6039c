"""Draws samples as an SVG: one small chart below the other. Knows nothing of what they mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 900, 130
_LEFT, _RIGHT, _TOP, _BOTTOM = 90, 20, 26, 22
_COLOURS = ("#1f6f8b", "#b5542a")


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One line of a chart."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Lines that share their axes."""

    title: str
    unit: str
    series: Sequence[Curve]


def _points(line: Curve, end: float, top: float) -> str:
    wide, high = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM
    return " ".join(
        f"{_LEFT + x / end * wide:.1f},{_TOP + high - y / top * high:.1f}"
        for x, y in zip(line.xs, line.ys, strict=True)
    )


def _chart(chart: Chart, at: int) -> list[str]:
    end = max((x for line in chart.series for x in line.xs), default=0.0) or 1.0
    top = max((y for line in chart.series for y in line.ys), default=0.0) * 1.05 or 1.0
    floor, right = HEIGHT - _BOTTOM, WIDTH - _RIGHT
    drawn = [
        f'<g transform="translate(0,{at})">',
        f'<text x="{_LEFT}" y="16" font-weight="bold">{escape(chart.title)}</text>',
        f'<path d="M{_LEFT},{_TOP} V{floor} H{right}" fill="none" stroke="#888"/>',
        f'<text x="{_LEFT - 6}" y="{_TOP + 8}" text-anchor="end">'
        f"{top / 1.05:.4g} {escape(chart.unit)}</text>",
        f'<text x="{_LEFT - 6}" y="{floor}" text-anchor="end">0</text>',
        f'<text x="{right}" y="{floor + 15}" text-anchor="end">{end:.0f} s</text>',
    ]
    for i, line in enumerate(chart.series):
        colour = _COLOURS[i % len(_COLOURS)]
        drawn.append(
            f'<polyline points="{_points(line, end, top)}" fill="none" stroke="{colour}"/>'
        )
        drawn.append(
            f'<text x="{right - 180 * (len(chart.series) - 1 - i)}" y="16" text-anchor="end" '
            f'fill="{colour}">{escape(line.name)}</text>'
        )
    return [*drawn, "</g>"]


def svg(charts: Sequence[Chart]) -> str:
    """Give the drawing."""
    high = HEIGHT * len(charts)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{high}" '
        f'viewBox="0 0 {WIDTH} {high}" font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{high}" fill="white"/>',
    ]
    for i, chart in enumerate(charts):
        lines += _chart(chart, i * HEIGHT)
    return "\n".join([*lines, "</svg>"]) + "\n"
