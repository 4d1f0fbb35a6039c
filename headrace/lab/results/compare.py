"""Says how the figures of two runs differ, and whether chance alone could make the difference.

Figures that are void on a side are named and not compared. Runs on machines of different speed are
told as such by their calibration kernels; figures are never corrected by them.
"""

from __future__ import annotations

from headrace.lab.results.summary import Better, Figure, Summary
from headrace.lab.statistics.intervals import difference

#: Kernels that differ by more than this were of other machines, or of a busy one.
_OTHER_MACHINE = 1.15


def compare(first: Summary, second: Summary) -> list[str]:
    """Compare two runs, a line for each figure."""
    lines = _machines(first, second)
    ours = {figure.key: figure for figure in second.figures}
    for figure in first.figures:
        other = ours.pop(figure.key, None)
        lines.append(f"{_name(figure)}: {_told(figure, other)}")
    lines += [f"{_name(figure)}: only in the second run" for figure in ours.values()]
    return lines


def _name(figure: Figure) -> str:
    return " ".join(filter(None, figure.key))


def _told(figure: Figure, other: Figure | None) -> str:
    if other is None:
        return "only in the first run"
    for side, each in (("first", figure), ("second", other)):
        if each.void:
            return f"void in the {side} run: {each.void}"
        if each.value is None:
            return f"not known in the {side} run"
    assert figure.value is not None and other.value is not None
    shown = f"{figure.value:,.6g} -> {other.value:,.6g} {figure.unit}"
    first, second = figure.repeats or (figure.value,), other.repeats or (other.value,)
    if min(*first, *second) <= 0:
        return f"{shown}; a ratio says nothing at 0"
    found = difference(first, second)
    if not found.is_shown:
        return f"{shown}; {found.told()}"
    is_better = (found.ratio > 1) == (figure.better is Better.HIGHER)
    return f"{shown}; {found.told()}, {'better' if is_better else 'WORSE'}"


def _machines(first: Summary, second: Summary) -> list[str]:
    if bool(first.calibration) != bool(second.calibration):
        return ["One has no calibration kernels: whether the machines are alike, nobody can say."]
    found = []
    for name, value in first.calibration.items():
        ratio = second.calibration.get(name, value) / value
        if max(ratio, 1 / ratio) > _OTHER_MACHINE:
            found.append(
                f"The machines differ: {name} {value:,.4g} -> {second.calibration[name]:,.4g}"
            )
    return found
