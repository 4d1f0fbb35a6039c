"""Calls a stateful DoFn's `process` without Beam's invoker, so that it may run on whole batches.

Takes a DoFn as Beam unpickled it and the context that keeps its state handles, gives a function of
the element alone: `StatefulCall`. Beam's invoker compares every argument of `process` with all it
knows, for each element anew; here that is done once. Handles are Beam's own, one for each key,
window and cell, so timers and `finish_bundle` see the same.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import repeat
from typing import Any

from apache_beam.internal.util import ArgumentPlaceholder
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.worker import bundle_processor
from apache_beam.transforms import core, userstate
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import Timestamp

from headrace.worker.batched.batches import Columns, Meta, columns
from headrace.worker.batched.combining import owns_resources
from headrace.worker.batched.moments import moment_of
from headrace.worker.batched.parameters import by_window
from headrace.worker.batched.plain_values import FAITHFUL, is_frozen
from headrace.worker.batched.steps import signature_of
from headrace.worker.batched.window_keys import WindowKey, window_key
from headrace.worker.beam_operations import (
    DoFn,
    Handle,
    Handles,
    Parameter,
    SendTimer,
    Signature,
    StateHandler,
    StateSpec,
)
from headrace.worker.beam_types import (
    CellKey,
    CoderImpl,
    Instant,
    Key,
    Pane,
    Proto,
    UserFunction,
    Value,
    Window,
)

_GLOBAL = GlobalWindow()
#: Cells that Beam keeps as bags.
_OF_BAGS = (userstate.BagStateSpec, userstate.CombiningValueStateSpec)
_UNKNOWN = object()
_all_faithful = FAITHFUL.issuperset


class ValueHandle(userstate.ReadModifyWriteRuntimeState):  # type: ignore[misc]
    """One value of one key and window; Beam's own makes three objects for each read of it."""

    def __init__(self, handler: StateHandler, cell: Proto | CellKey, coder: CoderImpl) -> None:
        self._handler = handler  # answers state requests
        self._cell = cell
        self._coder = coder
        self._value: Value = _UNKNOWN  # as it was written in this bundle, or read and cannot change
        self._written = False
        self._present = False  # if it was written: whether there is a value

    def read(self) -> Value:
        """Give the value; None if there is none."""
        value = self._value
        if value is not _UNKNOWN:
            return value
        value = next(iter(self._handler.blocking_get(self._cell, self._coder)), None)
        if is_frozen(value):  # else each read gives an object of its own, as Beam's does
            self._value = value
        return value

    def write(self, value: Value) -> None:
        """Set the value."""
        self._value = value
        self._written = self._present = True

    def clear(self) -> None:
        """Take the value away."""
        self._value = None
        self._written, self._present = True, False

    def commit(self) -> None:
        """Hand on what was written in this bundle."""
        if self._written:
            done = self._handler.clear(self._cell)
            if self._present:
                done = self._handler.extend(self._cell, self._coder, (self._value,))
            done.get()


class OutputTimer(bundle_processor.OutputTimer):  # type: ignore[misc]
    """Sets the timers of one family, key and window; Beam's own looks at the family each time."""

    def __init__(
        self, send: SendTimer, key: Key, window: Window, micros: int, pane: Pane, by_event: bool
    ) -> None:
        self._send = send
        self._key = key
        self._windows = (window,)
        self._micros = micros  # of the element; timers of processing time hold there
        self._pane = pane
        self._by_event = by_event

    def set(self, ts: Instant | float, dynamic_timer_tag: str = "") -> None:
        """Let a timer fire at this time."""
        at = Timestamp.of(ts)
        hold = at if self._by_event else moment_of(self._micros)
        self._send(
            userstate.Timer(
                self._key, dynamic_timer_tag, self._windows, False, at, hold, self._pane
            ),
            None, True,
        )  # fmt: skip

    def clear(self, dynamic_timer_tag: str = "") -> None:
        """Take a timer back."""
        self._send(
            userstate.Timer(self._key, dynamic_timer_tag, self._windows, True, None, None, None),
            None, True,
        )  # fmt: skip


class _Encoded(bytes):
    """An encoded key, which no key that is bytes itself is equal to."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(other) is _Encoded and bytes.__eq__(self, other)

    __hash__ = bytes.__hash__


def is_faithful(key: Key) -> bool:
    """Whether a key is equal to Python to those keys alone that have the same encoding."""
    kind = type(key)
    return kind in FAITHFUL or (kind is tuple and _all_faithful(map(type, key)))


class StateContext(bundle_processor.FnApiUserStateContext):  # type: ignore[misc]
    """Beam's keeper of state handles, which gives all handles of a key and window at once."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.specs: tuple[StateSpec, ...] = ()  # of the cells that `process` asks for
        self.of_keys: dict[Key, Handles] = {}  # handles in the global window
        #: Handles in other windows, by what stands for the window in a table.
        self.of_windows: dict[WindowKey, dict[Key, Handles]] = {}
        self._encode = self._key_coder.get_impl().encode_nested
        self._encode_window = self._window_coder.get_impl().encode
        self._coders: dict[StateSpec, CoderImpl] = {}  # by specification
        self._senders: dict[str, SendTimer] = {}  # by timer family: takes what user code sets
        self._last: tuple[Key, Window | None, bytes, bytes] = (None, None, b"", b"")
        # Beam's own handler, in a process that runs Beam's own runner too, takes messages alone.
        self._plain_names = getattr(self._state_handler, "takes_plain_names", False)

    def _create_state(self, spec: StateSpec, key: Key, window: Window) -> Any:
        if isinstance(spec, userstate.ReadModifyWriteStateSpec):
            coder = self._coders.get(spec)
            if coder is None:
                coder = self._coders[spec] = spec.coder.get_impl()
            return ValueHandle(self._state_handler, self._cell(spec.name, key, window), coder)
        if not isinstance(spec, _OF_BAGS):
            return super()._create_state(spec, key, window)
        bag = bundle_processor.SynchronousBagRuntimeState(
            self._state_handler, self._cell(spec.name, key, window), spec.coder
        )
        if isinstance(spec, userstate.BagStateSpec):
            return bag
        # Beam copies the CombineFn for each key; one that opens nothing may serve them all.
        combine_fn = spec.combine_fn
        if owns_resources(combine_fn):
            combine_fn = copy.deepcopy(combine_fn)
        return bundle_processor.CombiningValueRuntimeState(bag, combine_fn)

    def _cell(self, state: str, key: Key, window: Window) -> Proto | CellKey:
        """Name a cell; those of one key and window are mostly asked for together."""
        last_key, last_window, encoded_window, encoded_key = self._last
        if key is not last_key or window is not last_window:
            encoded_window, encoded_key = self._encode_window(window), self._encode(key)
            self._last = (key, window, encoded_window, encoded_key)
        name = CellKey(self._transform_id, state, encoded_window, encoded_key)
        return name if self._plain_names else _message(name)

    def sender(self, family: str) -> SendTimer:
        """Give what takes the timers of a family."""
        found = self._senders.get(family)
        if found is None:
            info = self._timers_info[family]
            found = self._senders[family] = info.timer_coder_impl.encode_to_stream
        return found

    def get_state(self, spec: StateSpec, key: Key, window: Window) -> Handle:
        """Give the handle of a cell; keys are the same if their encodings are."""
        name = key if is_faithful(key) else _Encoded(self._encode(key))
        place = (spec, name, window_key(window))
        found: Handle | None = self._all_states.get(place)
        if found is None:
            found = self._all_states[place] = self._create_state(spec, key, window)
        return found

    def in_global(self, key: Key) -> Handles:
        """Give the handles of a key in the global window, for the first time in a bundle."""
        found = self.of_keys[key] = self.of_any(key, _GLOBAL)
        return found

    def in_window(self, window: Window) -> dict[Key, Handles]:
        """Give the handles in a window that were asked for in this bundle, by key."""
        return self.of_windows.setdefault(window_key(window), {})

    def of_any(self, key: Key, window: Window) -> Handles:
        """Give the handles of a key of any kind, and a window."""
        return tuple([self.get_state(spec, key, window) for spec in self.specs])

    def reset(self) -> None:
        """Forget all handles."""
        super().reset()
        self.of_keys.clear()
        self.of_windows.clear()


def _message(name: CellKey) -> Proto:
    """Name a cell as Beam does."""
    return beam_fn_api_pb2.StateKey(
        bag_user_state=beam_fn_api_pb2.StateKey.BagUserState(**name._asdict())
    )


#: One builds at a time: the name that Beam looks up is the module's, and so every thread's.
_BUILDING = threading.Lock()


@contextmanager
def state_contexts() -> Iterator[list[StateContext]]:
    """What Beam builds in this block keeps its handles in ours; it offers no other way.

    Gives those that were made: Beam's operations do not show theirs.
    """
    made: list[StateContext] = []

    def make(*args: Any) -> StateContext:
        made.append(StateContext(*args))
        return made[-1]

    with _BUILDING:
        before = bundle_processor.FnApiUserStateContext
        bundle_processor.FnApiUserStateContext = make
        try:
            yield made
        finally:
            bundle_processor.FnApiUserStateContext = before


class StatefulCall:
    """`process` of a stateful DoFn, as a function of the element; `begin` says of which batch."""

    def __init__(
        self, process: UserFunction, fill: list[tuple[int, Parameter]], context: StateContext
    ) -> None:
        self._process = process
        self._context = context
        self._states = [i for i, p in fill if isinstance(p, core.DoFn.StateParam)]
        context.specs = tuple(p.state_spec for _, p in fill if isinstance(p, core.DoFn.StateParam))
        self._others = [(i, _filler(p, context)) for i, p in fill if i not in self._states]
        # Handles stand right behind the element: nothing else need be put together.
        self._plain = not self._others and self._states == list(range(len(self._states)))
        self._window: Window | None = None  # the last one, and the handles in it
        self._handles: dict[Key, Handles] = {}
        self._where: Iterator[tuple[Window, int, Pane]] = iter(())
        self._one_window = False

    def begin(self, values: list[Value], meta: Meta) -> tuple[list[Value], Meta]:
        """Take the batch that is called for next, element by element; gives it by single windows.

        As Beam does: who sees state sees one window at a time.
        """
        self._window = None  # the handles of the last batch may be of a bundle that has ended
        if type(meta) is not Columns:
            if len(meta.windows) == 1:
                (window,) = meta.windows
                self._one_window = self._plain and window == _GLOBAL
                if not self._one_window:
                    self._where = repeat((window, meta.timestamp_micros, meta.pane_info))
                return values, meta
            meta = columns(values, meta)
        values, meta = by_window(values, meta)
        self._one_window = self._plain and all([w[0] is _GLOBAL for w in meta.windows])
        if not self._one_window:
            self._where = iter(
                [(w[0], t, p) for w, t, p in zip(meta.windows, meta.times, meta.panes, strict=True)]
            )
        return values, meta

    def __call__(self, value: Value) -> Value:
        """Process one element of the batch, in turn."""
        try:
            key, _ = value
        except (TypeError, ValueError):
            msg = (
                "Input value to a stateful DoFn or KeyParam must be a KV tuple; "
                f"instead, got '{value}'."
            )
            raise ValueError(msg) from None
        context = self._context
        if self._one_window:
            if is_faithful(key):
                handles = context.of_keys.get(key) or context.in_global(key)
            else:
                handles = context.of_any(key, _GLOBAL)
            return self._process(value, *handles)
        window, micros, pane = next(self._where)
        if window is not self._window:
            self._window, self._handles = window, context.in_window(window)
        known = self._handles.get(key) if is_faithful(key) else None
        if known is None:
            known = context.of_any(key, window)
            if is_faithful(key):
                self._handles[key] = known
        if self._plain:
            return self._process(value, *known)
        arguments = list(known)  # the handles of cells come first, then what stands between them
        for i, fill in self._others:
            arguments.insert(i, fill(key, window, micros, pane))
        return self._process(value, *arguments)


def stateful_call(
    fn: DoFn, args: Sequence[Value], kwargs: Mapping[str, Value], context: StateContext,
    signature: Signature | None = None,
) -> StatefulCall | None:
    """Give the function inside a stateful DoFn; None if only Beam's invoker can call it.

    Args:
        fn: the DoFn.
        args: the transform's own.
        kwargs: the transform's own.
        context: in which the DoFn has its state.
        signature: of the DoFn, if it is at hand.
    """
    if fn._process_batch_defined or not fn._process_defined or args or kwargs:  # noqa: SLF001
        return None
    if getattr(fn, "_process_yields_batches", False):
        return None
    signature = signature or signature_of(fn)
    if signature is None:
        return None
    method = signature.process_method
    names, defaults = list(method.args), list(method.defaults)
    # One argument without a default, which is the element; all others are filled in.
    if len(names) - len(defaults) != 1 or not defaults:
        return None
    if not all(_is_known(default) for default in defaults):
        return None
    return StatefulCall(fn.process, list(enumerate(defaults)), context)


#: Gives an argument of `process`, for a key, its window, time (microseconds) and pane.
Filler = Callable[[Key, Window, int, Pane], Value]
#: What `process` may ask for of key, window, time and pane.
_FILLERS: dict[str, Filler] = {
    core.DoFn.KeyParam.param_id: lambda key, _window, _micros, _pane: key,
    core.DoFn.WindowParam.param_id: lambda _key, window, _micros, _pane: window,
    core.DoFn.TimestampParam.param_id: lambda _key, _window, micros, _pane: moment_of(micros),
    core.DoFn.PaneInfoParam.param_id: lambda _key, _window, _micros, pane: pane,
}


def _is_known(default: Value) -> bool:
    if isinstance(default, ArgumentPlaceholder):
        return False
    if isinstance(default, (core.DoFn.StateParam, core.DoFn.TimerParam)):
        return True
    return isinstance(default, core._DoFnParam) and default.param_id in _FILLERS  # noqa: SLF001


def _filler(parameter: Parameter, context: StateContext) -> Filler:
    if not isinstance(parameter, core.DoFn.TimerParam):
        return _FILLERS[parameter.param_id]
    family = parameter.timer_spec.name
    by_event = TimeDomain.is_event_time(parameter.timer_spec.time_domain)
    send: SendTimer | None = None  # is known once the stage has bound its timers

    def timer(key: Key, window: Window, micros: int, pane: Pane) -> OutputTimer:
        nonlocal send
        if send is None:
            send = context.sender(family)
        return OutputTimer(send, key, window, micros, pane, by_event)

    return timer
