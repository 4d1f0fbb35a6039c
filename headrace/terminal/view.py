"""What is shown of something that runs, as data: a line, and a table if there is room for it.

Takes figures, gives texts that fit a width. Knows no terminal.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone

ELLIPSIS = "…"
#: Beam's first and last moment, in microseconds: a watermark there is not known yet, or at the end.
FIRST_MICROS, LAST_MICROS = -9_223_372_036_854_775_000, 9_223_372_036_854_775_000
#: A watermark closer than this to the last moment has nothing left to wait for: a day's rest of it
#: is the end of the global window.
_DAY_MICROS = 86_400_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """How something stands."""

    title: str
    parts: tuple[str, ...]  # the most important one first; the last ones go where room is short
    head: tuple[str, ...] = ()  # of the table; the first column is a name, the others are figures
    rows: tuple[tuple[str, ...], ...] = ()


def line(view: View, width: int | None = None) -> str:
    """Say it in one line of at most `width` characters.

    >>> line(View(title="sales", parts=("epoch 3", "250 ms", "state 4 KB")), 24)
    'sales: epoch 3; 250 ms'
    """
    parts = list(view.parts)
    while True:
        text = f"{view.title}: {'; '.join(parts)}" if parts else view.title
        if width is None or len(text) <= width:
            return text
        if len(parts) <= 1:
            return text[: max(0, width - 1)] + ELLIPSIS
        parts.pop()


def shortened(name: str, width: int) -> str:
    """Cut the middle out of a name that is too long.

    >>> shortened("Read/FromText/Split", 11)
    'Read/…Split'
    """
    if len(name) <= width:
        return name
    tail = (width - 1) // 2
    return name[: width - 1 - tail] + ELLIPSIS + name[len(name) - tail :]


def size(count: int) -> str:
    """Say a number of bytes.

    >>> size(2_500_000), size(1_200), size(3)
    ('2.5 MB', '1 KB', '3 B')
    """
    if count >= 1e9:
        return f"{count / 1e9:.1f} GB"
    if count >= 1e6:
        return f"{count / 1e6:.1f} MB"
    return f"{count / 1e3:.0f} KB" if count >= 1e3 else f"{count} B"


def number(count: float) -> str:
    """Say a number in few characters.

    >>> number(950), number(12_345), number(1_200_000)
    ('950', '12.3 K', '1.2 M')
    """
    for unit, mark in ((1e9, "G"), (1e6, "M"), (1e4, "K")):
        if count >= unit:
            return f"{count / (1e3 if mark == 'K' else unit):.1f} {mark}"
    return f"{count:.0f}"


def duration(seconds: float) -> str:
    """Say a time span.

    >>> duration(0.25), duration(8.4), duration(75), duration(7_500), duration(200_000)
    ('0.2 s', '8 s', '1:15 min', '2:05 h', '2 d')
    """
    if seconds < 1:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{int(seconds) // 60}:{int(seconds) % 60:02d} min"
    if seconds < 172_800:
        return f"{int(seconds) // 3600}:{int(seconds) // 60 % 60:02d} h"
    return f"{seconds / 86_400:.0f} d"


def moment(micros: int | None) -> str:
    """Say a watermark; empty where it says nothing yet.

    >>> moment(1_600_000_000_000_000), moment(LAST_MICROS), moment(FIRST_MICROS)
    ('2020-09-13 12:26:40', 'at the end', '')
    """
    if micros is None or micros <= FIRST_MICROS + _DAY_MICROS:
        return ""
    if micros >= LAST_MICROS - 2 * _DAY_MICROS:
        return "at the end"
    try:
        found = datetime.fromtimestamp(micros / 1e6, timezone.utc)
    except (OverflowError, ValueError, OSError):
        return "far back" if micros < 0 else "far ahead"
    return found.strftime("%Y-%m-%d %H:%M:%S")


def lag(micros: int | None, now: float) -> str:
    """Say how far a watermark is behind the clock; empty where it has no meaning.

    >>> lag(1_600_000_000_000_000, 1_600_000_008.0)
    '8 s'
    """
    text = moment(micros)
    if micros is None or text in ("", "at the end", "far back", "far ahead"):
        return ""
    behind = now - micros / 1e6
    return duration(behind) if behind >= 0 else ""
