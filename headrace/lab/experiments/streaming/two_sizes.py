"""Measures shapes of one question at two sizes, and holds the larger one's time per item to a bar.

Takes what runs a shape at a size, and what the answer must be; gives lines, bars, what was wrong.
Knows nothing of pipelines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from headrace.lab.experiments.streaming.bed import Bed, load
from headrace.lab.experiments.streaming.figures import Bar, CaseResult, Line, differences

#: How many times as large the larger size is.
TIMES = 5
#: How much longer an item may take there.
BAR = 1.5

Answer = dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What is asked at two sizes."""

    case: str
    what: str  # for people, with the parameters
    item: str  # what the size counts, in the singular
    shapes: Iterable[str]
    run: Callable[[str, int], tuple[float, int, Answer]]  # seconds, peak of a worker, answer
    expected: Callable[[int], Answer]
    largest: int


def measure(bed: Bed, sizes: Sizes, rounds: int) -> CaseResult:
    """Run each shape at a fifth of the size and at the whole size, in turns."""
    before = load()
    two = (sizes.largest // TIMES, sizes.largest)
    lines: list[Line] = []
    bars: list[Bar] = []
    wrong: list[str] = []
    for shape in sizes.shapes:
        found: dict[int, list[tuple[float, int]]] = {size: [] for size in two}
        for _ in range(rounds):
            for size in two:
                seconds, peak, answer = sizes.run(shape, size)
                found[size].append((seconds, peak))
                about = f"{sizes.case}, {shape}, {size}"
                wrong += differences(about, answer, sizes.expected(size))
                bed.say(
                    f"{sizes.case}, {shape}: {size} {sizes.item}s in {seconds:.1f} s, "
                    f"{peak / 1e6:.0f} MB in the largest worker"
                )
        made = [
            Line(
                name=f"{shape}, {size:,}", unit=f"us per {sizes.item}",
                samples=tuple(seconds / size * 1e6 for seconds, _ in found[size]),
                details={"MB of the largest worker": max(peak for _, peak in found[size]) / 1e6},
            )
            for size in two
        ]
        lines += made
        bars.append(Bar(
            what=f"{shape}: time per {sizes.item}, five times as many over the smaller run",
            value=made[1].median / made[0].median, limit=BAR, at_most=True,
        ))  # fmt: skip
    return CaseResult(
        case=sizes.case, what=sizes.what, lines=tuple(lines), bars=tuple(bars),
        wrong=tuple(wrong), load=(before, load()),
    )
