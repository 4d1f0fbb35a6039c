"""Draws speed-ups over channels as an SVG, both on a scale of powers of two."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import log2

from headrace.lab.experiments.regions.predict import Curve, Point

WIDTH, HEIGHT = 760, 520
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 250, 34, 46
_COLOURS = ("#1f6f8b", "#6a8e3a", "#b5542a", "#7a5195", "#444444")


def svg(title: str, curves: Sequence[Curve], points: Sequence[Point]) -> str:
    """Give the drawing: a line for each curve, a ring for each published point."""
    far = max((n for curve in curves for n in curve.channels), default=1)
    top = max([far, *(v for curve in curves for v in curve.speedups)])
    wide, high = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM

    def x(channels: float) -> float:
        return _LEFT + log2(max(channels, 1)) / max(log2(far), 1) * wide

    def y(value: float) -> float:
        return HEIGHT - _BOTTOM - max(log2(max(value, 0.5)) + 1, 0) / (log2(top) + 1) * high

    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="20" font-weight="bold">{escape(title)}</text>',
        f'<path d="M{_LEFT},{_TOP} V{HEIGHT - _BOTTOM} H{_LEFT + wide}" fill="none" '
        'stroke="#888"/>',
        f'<path d="M{x(1):.1f},{y(1):.1f} L{x(far):.1f},{y(far):.1f}" stroke="#ccc" '
        'stroke-dasharray="4 4"/>',
        f'<text x="{_LEFT + wide / 2:.0f}" y="{HEIGHT - 10}" text-anchor="middle">channels</text>',
    ]
    ticks = [2**k for k in range(int(log2(max(far, 1))) + 1)]
    for tick in ticks:
        drawn.append(
            f'<text x="{x(tick):.1f}" y="{HEIGHT - _BOTTOM + 16}" text-anchor="middle">'
            f"{tick}</text>"
        )
        drawn.append(
            f'<text x="{_LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick}</text>'
        )
    colours = {}
    for i, curve in enumerate(curves):
        colour = colours[curve.shape] = _COLOURS[i % len(_COLOURS)]
        dots = [
            f"{x(n):.1f},{y(v):.1f}" for n, v in zip(curve.channels, curve.speedups, strict=True)
        ]
        drawn.append(
            f'<polyline points="{" ".join(dots)}" fill="none" stroke="{colour}" '
            'stroke-width="1.6"/>'
        )
        drawn.append(
            f'<text x="{_LEFT + wide + 14}" y="{_TOP + 18 * i + 12}" fill="{colour}">'
            f"{escape(curve.shape)}</text>"
        )
    for point in points:
        if point.shape in colours and point.channels <= far:
            drawn.append(
                f'<circle cx="{x(point.channels):.1f}" cy="{y(point.speedup):.1f}" r="5" '
                f'fill="none" stroke="{colours[point.shape]}" stroke-width="2"/>'
            )
    drawn.append(
        f'<text x="{_LEFT + wide + 14}" y="{_TOP + 18 * len(curves) + 20}" fill="#444">'
        "rings: published</text>"
    )
    return "\n".join([*drawn, "</svg>"]) + "\n"
