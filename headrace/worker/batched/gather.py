"""Decides which results of user code may be gathered into a batch and which must go on at once.

Takes a user function, gives its results in batches. User code may go on to change what it has put
out: Beam forbids it, but a runner that hands each element on at once hides it. What may change is
therefore handed on at once here too.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

from headrace.worker.batched.batches import BATCH_VALUES
from headrace.worker.batched.plain_values import FROZEN, all_frozen, is_frozen, plain_fields
from headrace.worker.batched.ranges import is_long
from headrace.worker.batched.steps import Results, Step
from headrace.worker.batched.weights import FIRST_ROOM, room_after
from headrace.worker.beam_types import Value


class _Checked:
    """Remembers the last batch whose values were all seen to be such that cannot change.

    The next step gets the very same list, right away. With several steps only the first finds it
    here; the others look again.
    """

    batch: list[Value] | None = None


class Gatherer:
    """Takes results of user code in batches, as long as they cannot change behind our back.

    User code may go on to change what it has put out. Beam forbids it, but a runner that hands each
    element on at once hides it, so such results are handed on at once here too.
    """

    def __init__(self, step: Step, trusted: bool, *, ranges: bool = False) -> None:
        self._function = step.function
        self._trusted = trusted  # the declared output type cannot change, so none is looked at
        self._unchecked = step.results is Results.MANY
        self._stream = step.results is Results.STREAM
        self.out: list[Value] = []
        self.origin: list[int] = []
        self.odd: list[tuple[Value, int]] = []  # at most one result that cannot wait, and its input
        self.ranged: tuple[range, int] | None = None  # results that are to be columns, likewise
        self._ranges = ranges
        self._room = FIRST_ROOM  # results that may be gathered; fewer where they are large

    def over(self, values: list[Value], several: bool) -> Iterator[bool]:
        """Run the function over all values; stops (True) when there is something to hand on.

        With `several`, notes for each result which input it came from.
        """
        if self._stream:
            if self._trusted and not several:
                yield from self._through(values)
            else:
                yield from self._one_by_one(values, several)
            return
        function, frozen, room = self._function, FROZEN, self._room
        out: list[Value] = []
        origin: list[int] = []
        for i, value in enumerate(values):
            results = function(value)
            if results is None:
                continue
            if self._unchecked:
                self._unchecked = False
                refuse_text(results)
            kind = type(results)
            if (kind is tuple or kind is list) and not results:
                continue
            if kind is range and self._ranges and is_long(results):
                self.out, self.origin, self.ranged = out, origin, (results, i)
                yield True
                out, origin = [], []
                continue
            if kind is range or ((kind is list or kind is tuple) and all_frozen(results)):
                step = room
                for start in range(0, len(results), step):
                    out += results[start : start + step]
                    if several:
                        origin += [i] * (len(out) - len(origin))
                    if len(out) >= room:
                        self.out, self.origin = out, origin
                        yield True
                        room = self._weighed(out)
                        out, origin = [], []
                continue
            if self._trusted:
                source = iter(results)
                while True:
                    step = room
                    part = list(islice(source, step))
                    out += part
                    if several:
                        origin += [i] * len(part)
                    if len(out) >= room:
                        self.out, self.origin = out, origin
                        yield True
                        room = self._weighed(out)
                        out, origin = [], []
                    if len(part) < step:
                        break
                continue
            for result in results:
                if type(result) in frozen or is_frozen(result):
                    out.append(result)
                    if several:
                        origin.append(i)
                    if len(out) >= room:
                        self.out, self.origin = out, origin
                        yield True
                        room = self._weighed(out)
                        out, origin = [], []
                else:
                    self.out, self.origin = out, origin
                    self.odd.append((result, i))
                    yield True
                    out, origin = [], []
        self.out, self.origin = out, origin
        self._weighed(out)
        yield False

    def _one_by_one(self, values: list[Value], several: bool) -> Iterator[bool]:
        """Run generators; look at each result before its generator goes on.

        A value that was looked at before, and is handed on as it is, needs no second look.
        """
        function, trusted, room = self._function, self._trusted, self._room
        frozen, plain = FROZEN, plain_fields
        unknown = object()
        looked_at = values is _Checked.batch
        out: list[Value] = []
        origin: list[int] = []
        for i, value in enumerate(values):
            known = value if looked_at else unknown
            for result in function(value):
                if (
                    result is known
                    or trusted
                    or type(result) in frozen
                    or (isinstance(result, tuple) and plain(map(type, result)))
                    or is_frozen(result)
                ):
                    out.append(result)
                    if several:
                        origin.append(i)
                    if len(out) < room:
                        continue
                else:
                    self.odd.append((result, i))
                self._checked(out, origin)
                yield True
                room = self._weighed(out)
                out, origin = [], []
        self._checked(out, origin)
        self._weighed(out)
        yield False

    def _weighed(self, out: list[Value]) -> int:
        """Take note of what was handed on; give how many results may be gathered next."""
        if out:
            self._room = room_after(self._room, out, BATCH_VALUES)
        return self._room

    def _checked(self, out: list[Value], origin: list[int]) -> None:
        self.out, self.origin = out, origin
        if not self._trusted:
            _Checked.batch = out

    def release(self) -> None:
        """Forget the last batch, which may be large."""
        self.out, self.origin = [], []
        _Checked.batch = None

    def _through(self, values: list[Value]) -> Iterator[bool]:
        """Run generators one after the other, with no look at what they give."""
        running = (self._function(value) for value in values)  # `failures` looks where it stands
        source = chain.from_iterable(running)
        while True:
            room = self._room
            self.out = list(islice(source, room))
            self._weighed(self.out)
            if len(self.out) < room:
                yield False
                return
            yield True


class Pilot:
    """Watches the first results of a function: does it give a new object each time?

    Some functions change and return one and the same object. Handed on at once, each result is seen
    as it was; gathered in a batch, all would be seen as the last one.
    """

    TRIES = 2

    def __init__(self) -> None:
        self.satisfied = False
        self._seen: list[Value] = []

    def saw(self, result: Value) -> None:
        """Take note of one result."""
        if any(result is earlier for earlier in self._seen):
            self._seen = [result]  # reused: never satisfied while this goes on
        else:
            self._seen.append(result)
            self.satisfied = len(self._seen) >= self.TRIES


def refuse_text(result: Value) -> None:
    """Refuse what Beam refuses: a text iterated by its letters is nearly always a mistake."""
    if isinstance(result, (str, bytes, dict)):
        name = type(result).__name__
        msg = (
            f"Returning a {name} from a ParDo or FlatMap is not allowed. "
            f"Please use list({result!r}) if you really want this behavior."
        )
        raise TypeError(msg)
