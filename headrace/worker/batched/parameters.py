"""Fills in what a function asks for beside its element: window, time, pane, and side inputs.

Takes the arguments as Beam lays them out, gives `Filled`: a function of the element alone, and
`begin`, which is told of each batch before it is called for. Beam's invoker compares each argument
with all kinds it knows, for each element anew, and maps its window to that of each side input. Who
sees the window sees one at a time: an element of several windows is given once in each, and then
its pane is unknown, as in Beam.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import NamedTuple

from apache_beam.internal.util import ArgumentPlaceholder, insert_values_in_args
from apache_beam.runners import common
from apache_beam.transforms import core
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN

from headrace.worker.batched.batches import Columns, Meta, columns, pick
from headrace.worker.batched.moments import moment_of
from headrace.worker.batched.window_keys import WindowKey, window_key
from headrace.worker.beam_operations import Method, SideInputMap
from headrace.worker.beam_types import Element, Instant, OfOne, Pane, UserFunction, Value, Window

#: Is told of a batch before it is called for; gives it as it is called for.
Begin = Callable[[list[Value], Meta], tuple[list[Value], Meta]]

_ELEMENT = core.DoFn.ElementParam.param_id
_WINDOW = core.DoFn.WindowParam.param_id
_TIME = core.DoFn.TimestampParam.param_id
_PANE = core.DoFn.PaneInfoParam.param_id
_KNOWN = frozenset({_ELEMENT, _WINDOW, _TIME, _PANE})


class Filled(NamedTuple):
    """A function of the element; `begin` must be told of each batch before."""

    function: OfOne
    begin: Begin


def can_fill(default: Value) -> bool:
    """Whether this default of an argument asks for something that is filled in here."""
    return isinstance(default, core._DoFnParam) and default.param_id in _KNOWN  # noqa: SLF001 (Beam has no public name for it)


def filled(
    function: UserFunction, method: Method, args: Sequence[Value], kwargs: Mapping[str, Value],
    sides: Sequence[SideInputMap] = (),
) -> Filled | None:
    """Give the function of the element alone; None if only Beam's invoker can call it.

    Args:
        function: takes the arguments that `method` describes.
        method: Beam's description of `process`; all that it asks for `can_fill`.
        args: the transform's own, after the element.
        kwargs: the transform's own.
        sides: Beam's maps from window to side input, in the order of their places among these.
    """
    try:
        places, laid_out, named = common._get_arg_placeholders(method, list(args), kwargs)  # noqa: SLF001 (what Beam's invoker itself asks)
    except ValueError:
        return None  # Beam says what is wrong
    asked = [(i, p.param_id) for i, p in places]
    if not asked or asked[0] != (0, _ELEMENT) or any(p == _ELEMENT for _, p in asked[1:]):
        return None
    wanted = [p for _, p in asked[1:]]
    where = [i for i, _ in asked[1:]]
    if sides:
        given = [*laid_out, *named.values()]
        if sum(isinstance(argument, ArgumentPlaceholder) for argument in given) != len(sides):
            return None
        by_side = _SideSource(wanted, sides, laid_out, named)
        return Filled(_beside(function, by_side, where), by_side.begin)
    source = _Source(wanted, single=_WINDOW in wanted)
    if not named and where == list(range(1, len(laid_out))):
        return Filled(_behind(function, source, len(wanted)), source.begin)
    return Filled(_among(function, source, where, laid_out, named), source.begin)


def _behind(function: UserFunction, source: _Source, size: int) -> OfOne:
    """What is filled in stands right behind the element, and there is nothing else."""
    if size == 1:

        def with_one(value: Value) -> Value:
            return function(value, next(source.found))

        return with_one

    def with_all(value: Value) -> Value:
        return function(value, *next(source.found))

    return with_all


def _among(
    function: UserFunction, source: _Source, places: list[int], laid_out: list[Value],
    named: dict[str, Value],
) -> OfOne:
    """What is filled in stands among arguments of the transform's own."""
    single = len(places) == 1

    def call(value: Value) -> Value:
        arguments = laid_out[:]
        arguments[0] = value
        found = next(source.found)
        for i, argument in zip(places, (found,) if single else found, strict=True):
            arguments[i] = argument
        return function(*arguments, **named)

    return call


def _beside(function: UserFunction, source: _SideSource, places: list[int]) -> OfOne:
    """What is filled in stands among side inputs."""
    single = len(places) == 1

    def call(value: Value) -> Value:
        behind, named = next(source.views)
        if not places:
            return function(value, *behind, **named)
        arguments = list(behind)
        found = next(source.found)
        for i, argument in zip(places, (found,) if single else found, strict=True):
            arguments[i - 1] = argument
        return function(value, *arguments, **named)

    return call


class _Source:
    """What the elements of a batch are called with: one entry each, in turn."""

    def __init__(self, wanted: list[str], *, single: bool) -> None:
        self._wanted = wanted
        self._single = single  # the window is looked at, so each element has one
        self.found: Iterator[Value] = iter(())

    def begin(self, values: list[Value], meta: Meta) -> tuple[list[Value], Meta]:
        """Take the batch that is called for next."""
        if type(meta) is not Columns:
            if not self._single or len(meta.windows) == 1:
                same = [_of_all(p, meta) for p in self._wanted]
                self.found = repeat(same[0] if len(same) == 1 else tuple(same))
                return values, meta
            meta = columns(values, meta)
        if self._single:
            values, meta = by_window(values, meta)
        each = [_of_each(p, meta) for p in self._wanted]
        self.found = iter(each[0]) if len(each) == 1 else zip(*each, strict=True)
        return values, meta


#: What follows the element, and the arguments that have names.
_Laid = tuple[tuple[Value, ...], dict[str, Value]]


class _SideSource(_Source):
    """The same with side inputs: each is asked for its view once for each window of a batch.

    It is asked when the first element needs it, so that what a view raises is raised there. Windows
    are looked at only if one side input has more than one.
    """

    def __init__(
        self, wanted: list[str], sides: Sequence[SideInputMap], laid_out: list[Value],
        named: dict[str, Value],
    ) -> None:
        self._sides = sides
        self._laid_out, self._named = laid_out, named
        self._whole = all(side.is_globally_windowed() for side in sides)
        self._no_places = not wanted
        super().__init__(wanted, single=_WINDOW in wanted or not self._whole)
        self.views: Iterator[_Laid] = iter(())

    def begin(self, values: list[Value], meta: Meta) -> tuple[list[Value], Meta]:
        """Take the batch that is called for next."""
        if self._single and (type(meta) is Columns or len(meta.windows) != 1):
            values, meta = by_window(values, columns(values, meta))
        if not self._no_places:
            values, meta = super().begin(values, meta)
        if self._whole:
            self.views = self._each(repeat(GlobalWindow()))
        elif type(meta) is Columns:
            self.views = self._each(windows[0] for windows in meta.windows)
        else:
            self.views = self._each(repeat(meta.windows[0]))
        return values, meta

    def _each(self, windows: Iterable[Window]) -> Iterator[_Laid]:
        known: dict[WindowKey, _Laid] = {}
        last: Window | None = None
        laid: _Laid = (), {}
        for window in windows:
            if window is not last:
                key = window_key(window)
                if key not in known:
                    known[key] = self._laid(window)
                last, laid = window, known[key]
            yield laid

    def _laid(self, window: Window) -> _Laid:
        views = [side[window] for side in self._sides]
        arguments, named = insert_values_in_args(self._laid_out, self._named, views)
        return tuple(arguments[1:]), named


def _of_all(wanted: str, meta: Element) -> Window | Instant | Pane:
    if wanted == _WINDOW:
        return meta.windows[0]
    return meta.timestamp if wanted == _TIME else meta.pane_info


def _of_each(wanted: str, meta: Columns) -> Sequence[Window | Instant | Pane]:
    if wanted == _WINDOW:
        return [windows[0] for windows in meta.windows]
    return [moment_of(t) for t in meta.times] if wanted == _TIME else meta.panes


def by_window(values: list[Value], meta: Columns) -> tuple[list[Value], Columns]:
    """Give an element that stands in several windows once in each of them."""
    windows = meta.windows
    if all([len(held) == 1 for held in windows]):
        return values, meta
    spread = [i for i, held in enumerate(windows) for _ in held]
    single = [(window,) for held in windows for window in held]
    panes = [meta.panes[i] if len(windows[i]) == 1 else PANE_INFO_UNKNOWN for i in spread]
    picked = pick(meta, spread)._replace(windows=single, panes=panes)
    return [values[i] for i in spread], picked
