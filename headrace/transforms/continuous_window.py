"""One operator: a window that slides with every element."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import apache_beam as beam
from apache_beam.coders import FastPrimitivesCoder
from apache_beam.metrics import Metrics
from apache_beam.transforms import userstate
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from headrace.errors import OptionError
from headrace.plan.traits import traits
from headrace.transforms.arguments import function, function_or_none, seconds, whole
from headrace.transforms.facts import Facts
from headrace.transforms.keys import PAIRS, forever, keyed, no_order
from headrace.transforms.track import (
    TICK_MICROS,
    Entry,
    Track,
    last_elements,
    last_micros,
    tick,
)


class ContinuousWindow(beam.PTransform):  # type: ignore[misc]
    """Answer each element by its key and the window of the key's last elements that ends with it.

    The window has the last `count` elements, or those less than `span` seconds older, in the order
    of event time, the oldest first; elements of one time stand in the order of `tie(element)`, or
    of the elements themselves, and each has a window of its own. A result is (key, elements), or
    (key, what `combine` makes of the elements), has the event time of its element, and is given
    when the watermark reaches that time. `combine` is a CombineFn or a function of a list. Beam's
    clock ticks in milliseconds: what is said of one time holds for one tick where a source can
    have elements to come whose time the watermark has just reached.

    >>> from headrace.transforms.replay import at, replay
    >>> last = ContinuousWindow(count=2, key=lambda trade: trade[0], combine=list)
    >>> replay(last, at(2, ("X", 5)), at(3, ("X", 6)), at(1, ("X", 4)))
    [('X', [('X', 4)]), ('X', [('X', 4), ('X', 5)]), ('X', [('X', 5), ('X', 6)])]
    >>> recent = ContinuousWindow(span=10, key=lambda n: n % 2, combine=sum)
    >>> replay(recent, at(0, 2), at(9, 4), at(10, 6), at(10, 7))
    [(0, 2), (0, 6), (0, 10), (1, 7)]

    State: elements that wait, and the last window of each key; with `span` freed when that is past.
    Order: free; elements wait until the watermark reaches their time.
    Late: is dropped and counted if its key remembers a later answer, else answered.
    Shard: by key; a key is never split.
    """

    facts: ClassVar[Facts] = Facts(
        state="elements that wait, and the last window of each key; with `span` freed when that is "
        "past.",
        order="free; elements wait until the watermark reaches their time.",
        late="is dropped and counted if its key remembers a later answer, else answered.",
        shard="by key; a key is never split.",
    )

    def __init__(
        self,
        *,
        key: Callable[[Any], Any],
        count: int | None = None,
        span: float | None = None,
        combine: Any = None,
        tie: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__()
        if (count is None) == (span is None):
            msg = f"count={count!r} and span={span!r}: give one of them and not the other"
            raise OptionError(msg)
        self._key = function("key", key)
        self._count = None if count is None else whole("count", count)
        self._span = None if span is None else round(seconds("span", span) * 1e6)
        self._combine = _whole_window(combine)
        self._tie = function_or_none("tie", tie)

    def expand(self, elements: Any) -> Any:
        """One stateful step with a timer per key, in the window that never ends."""
        slide = _Slide(self._count, self._span, self._combine, self._tie)
        return (
            elements
            | "For ever" >> forever()
            | "Key" >> keyed(self._key)
            | "Slide" >> beam.ParDo(slide).with_output_types(PAIRS)
        )


@traits(state="keyed", selectivity="many", forwards_key=True)
class _Slide(beam.DoFn):  # type: ignore[misc]
    """Keeps a key's books, see `track`; its one timer is set to the least time that waits."""

    DUE = userstate.TimerSpec("due", userstate.TimeDomain.WATERMARK)
    Due = beam.DoFn.TimerParam(DUE)
    Books = beam.DoFn.StateParam(
        userstate.ReadModifyWriteStateSpec("books", FastPrimitivesCoder())
    )
    Far = beam.DoFn.StateParam(userstate.BagStateSpec("far", FastPrimitivesCoder()))

    def __init__(
        self,
        count: int | None,
        span: int | None,
        combine: Callable[[list[Any]], Any] | None,
        tie: Callable[[Any], Any] | None,
    ) -> None:
        self._count = count
        self._span = span
        self._combine = combine
        self._tie = tie
        self._late = Metrics.counter("headrace.transforms", "late in continuous windows")

    def process(
        self,
        element: tuple[Any, Any],
        time: Any = beam.DoFn.TimestampParam,
        books: Any = Books,
        far: Any = Far,
        due: Any = Due,
    ) -> None:
        key, value = element
        micros = time.micros
        found = books.read()
        track = Track() if found is None else Track(*found)
        if track.is_late(micros):
            self._late.inc()
            return
        first = track.first()
        number = track.number
        tie = self._tie
        entry = (micros, value, number) if tie is None else (micros, tie(value), number, value)
        try:
            away = track.put(entry)
        except TypeError as e:
            raise TypeError(no_order(key)) from e
        for other in away:
            far.add(other)
        if first is None or micros < first:
            due.set(Timestamp(micros=tick(micros)))
        books.write(track.plain())

    @userstate.on_timer(DUE)  # type: ignore[untyped-decorator]
    def fire(
        self,
        key: Any = beam.DoFn.KeyParam,
        time: Any = beam.DoFn.TimestampParam,
        books: Any = Books,
        far: Any = Far,
        due: Any = Due,
    ) -> Iterator[Any]:
        """Answer what is due, and set the timer to what comes next."""
        found = books.read()
        if found is None:
            return
        track = Track(*found)
        now = time.micros
        entries = track.take(now)
        while track.must_load():
            try:
                rest = track.load(list(far.read()))
            except TypeError as e:
                raise TypeError(no_order(key)) from e
            far.clear()
            for other in rest:
                far.add(other)
            entries += track.take(now)
        yield from self._answers(key, now, track.tail, entries)
        first = track.first()
        if first is None and self._span is not None:
            first = _forget_at(track, self._span)
            if first <= now:
                books.clear()
                return
        if first is not None:
            due.set(Timestamp(micros=first))
        books.write(track.plain())

    def _answers(self, key: Any, now: int, tail: list[Any], entries: list[Entry]) -> list[Any]:
        place = 1 if self._tie is None else 3
        if self._span is None:
            elements = [entry[place] for entry in entries]
            windows = last_elements(tail, elements, self._count or 1)
        else:
            timed = [(entry[0], entry[place]) for entry in entries]
            windows = last_micros(tail, timed, self._span)
        combine = self._combine
        results = []
        for entry, window in zip(entries, windows, strict=True):
            answer: Any = key, window if combine is None else combine(window)
            # What a timer gives has the timer's time, mostly the right one; a stamp costs more than
            # all the rest of the answer.
            if entry[0] != now:
                answer = TimestampedValue(answer, Timestamp(micros=entry[0]))
            results.append(answer)
        return results


def _forget_at(track: Track, span: int) -> int:
    """Give the tick from which on no window can reach back to the last element."""
    return tick(track.tail[-1][0] + span + TICK_MICROS - 1)


def _whole_window(combine: Any) -> Callable[[list[Any]], Any] | None:
    """Make of a CombineFn a function of a list; a function and None stay what they are."""
    if not isinstance(combine, beam.CombineFn):
        return function_or_none("combine", combine)

    def apply(window: list[Any]) -> Any:
        return combine.extract_output(combine.add_inputs(combine.create_accumulator(), window))

    return apply
