"""A plan as a picture: DOT for Graphviz, and SVG with a layout of its own.

Takes a plan, gives text. Supersteps are columns from left to right, stages are boxes with their
operators, exchanges are labelled arrows, regions are colours if asked for. Needs nothing installed.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from headrace.plan.explain import (
    channel_title,
    ordered_operators,
    ordered_stages,
    region_numbers,
    stage_names,
)
from headrace.plan.ids import OperatorId, StageId
from headrace.plan.supersteps import Channel, Plan

# Light enough for black text, and told apart by people who see red and green alike.
_COLOURS = ("#cfe3f5", "#fbe3b9", "#d6efd0", "#f6d3e0", "#e3d9f4", "#d3eeee", "#f3ddcf", "#e6e6c9")
_PLAIN = "#eeeeee"  # keeps its order on one shard only

_LINE_PX = 18
_CHARACTER_PX = 6.6  # of a 11 px monospace font
_PADDING_PX = 10
_GAP_PX = 28
_CHANNEL_PX = 230  # between two columns: room for a label


def colour(number: int | None) -> str:
    """The colour of a region; plain grey for what is not parallel."""
    return _PLAIN if number is None else _COLOURS[(number - 1) % len(_COLOURS)]


def dot(plan: Plan, *, regions: bool = False) -> str:
    """The plan in Graphviz's language; with `regions`, these are colours."""
    names, numbers = stage_names(plan), region_numbers(plan) if regions else {}
    lines = [f"digraph {_quoted(plan.name)} {{", "  rankdir=LR;", "  node [shape=plaintext];"]
    for index, stages in enumerate(ordered_stages(plan)):
        lines.append(f"  subgraph cluster_{index} {{")
        lines.append(f'    label="superstep {index}";')
        for stage in stages:
            rows = "".join(
                f'<tr><td align="left" bgcolor="{colour(numbers.get(o))}">{escape(o)}</td></tr>'
                for o in ordered_operators(plan, stage)
            )
            title = f"<tr><td><b>stage {names[stage.stage_id]}</b></td></tr>"
            table = f'<table border="1" cellborder="0" cellspacing="0">{title}{rows}</table>'
            lines.append(f"    {_quoted(names[stage.stage_id])} [label=<{table}>];")
        lines.append("  }")
    for channel in sorted(plan.channels, key=channel_title):
        label = _quoted(channel_title(channel))
        for source in channel.source_stages:
            for target in channel.target_stages:
                ends = f"{_quoted(names[source])} -> {_quoted(names[target])}"
                lines.append(f"  {ends} [label={label}];")
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@dataclass(frozen=True, slots=True)
class _Box:
    left: float
    top: float
    width: float
    height: float


def svg(plan: Plan, *, regions: bool = False) -> str:
    """The plan as an SVG image; with `regions`, these are colours."""
    boxes, width, height = _layout(plan)
    names, numbers = stage_names(plan), region_numbers(plan) if regions else None
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="monospace" font-size="11">',
        '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#444"/></marker></defs>',
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>',
        _text(_PADDING_PX, 16, f"{plan.name}: {plan.shards} shards", bold=True),
    ]
    for index, stages in enumerate(ordered_stages(plan)):
        if stages:
            left = boxes[stages[0].stage_id].left
            parts.append(_text(left, 38, f"superstep {index}", bold=True))
        for stage in stages:
            operators = ordered_operators(plan, stage)
            parts += _stage(operators, boxes[stage.stage_id], names[stage.stage_id], numbers)
    labelled: dict[tuple[StageId, StageId], int] = {}
    for channel in sorted(plan.channels, key=channel_title):
        for source in channel.source_stages:
            for target in channel.target_stages:
                nth = labelled.get((source, target), 0)
                labelled[source, target] = nth + 1
                parts += _arrow(channel, boxes[source], boxes[target], nth)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _layout(plan: Plan) -> tuple[dict[StageId, _Box], float, float]:
    """Columns from left to right, boxes from top to bottom; and the size of it all."""
    boxes: dict[StageId, _Box] = {}
    left, bottom = float(_PADDING_PX), 60.0
    for stages in ordered_stages(plan):
        top, widest = 50.0, 0.0
        for stage in stages:
            longest = max([10, *(len(o) for o in stage.operators)])
            width = longest * _CHARACTER_PX + 2 * _PADDING_PX
            height = (len(stage.operators) + 1) * _LINE_PX + _PADDING_PX
            boxes[stage.stage_id] = _Box(left, top, width, height)
            top += height + _GAP_PX
            widest = max(widest, width)
        left += widest + _CHANNEL_PX
        bottom = max(bottom, top)
    return boxes, max(left - _CHANNEL_PX + 90, 240.0), bottom


def _stage(
    operators: list[OperatorId], box: _Box, name: str, numbers: dict[OperatorId, int] | None
) -> list[str]:
    parts = [
        f'<rect x="{box.left:.1f}" y="{box.top:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}" rx="4" fill="white" stroke="#444"/>',
        _text(box.left + _PADDING_PX, box.top + 14, f"stage {name}", bold=True),
    ]
    for row, operator in enumerate(operators, 1):
        y = box.top + row * _LINE_PX
        if numbers is not None:
            number = numbers.get(operator)
            title = f"parallel region {number}" if number else "keeps its order on one shard only"
            parts.append(
                f'<rect x="{box.left + 4:.1f}" y="{y + 2:.1f}" width="{box.width - 8:.1f}" '
                f'height="{_LINE_PX - 2}" fill="{colour(number)}"><title>{title}</title></rect>'
            )
        parts.append(_text(box.left + _PADDING_PX, y + 14, operator))
    return parts


def _arrow(channel: Channel, source: _Box, target: _Box, nth: int) -> list[str]:
    label = channel_title(channel)
    reason = f"<title>{escape(channel.reason)}</title>"
    y1, y2 = source.top + source.height / 2, target.top + target.height / 2
    if source.left == target.left:  # same column: a bow on the right side of the boxes
        x = max(source.left + source.width, target.left + target.width)
        path = f"M{source.left + source.width:.1f},{y1:.1f} C{x + 60:.1f},{y1:.1f} "
        path += f"{x + 60:.1f},{y2:.1f} {target.left + target.width:.1f},{y2:.1f}"
        at = (x + 12, (y1 + y2) / 2 + nth * 12)
    else:
        x1, x2 = source.left + source.width, target.left
        middle = (x1 + x2) / 2
        path = f"M{x1:.1f},{y1:.1f} C{middle:.1f},{y1:.1f} {middle:.1f},{y2:.1f} {x2:.1f},{y2:.1f}"
        at = (max(x1, x2 - _CHANNEL_PX) + 8, y2 - 6 + nth * 12)
    line = f'<path d="{path}" fill="none" stroke="#444" marker-end="url(#tip)">{reason}</path>'
    short = label if len(label) <= 34 else label[:33] + "…"
    return [line, _text(at[0], at[1], short)]


def _text(x: float, y: float, content: str, *, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{weight}>{escape(content)}</text>'
