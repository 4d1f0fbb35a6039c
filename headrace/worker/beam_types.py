"""What Beam hands us, by name: Beam's own packages carry no types.

The protocols say what of Beam's objects the worker uses. `Value` and `Key` are the user's: of any
type, so that nothing can be known of them before a coder has seen them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

#: What a user's pipeline made; only its coder knows more.
Value: TypeAlias = Any
#: The same, where it is the first of a pair.
Key: TypeAlias = Any
#: One of Beam's protocol buffers: generated classes have no types.
Proto: TypeAlias = Any
#: One of Beam's operations (`apache_beam.runners.worker.operations`), which are compiled.
Operation: TypeAlias = Any
#: What Beam sets and fires (`apache_beam.transforms.userstate.Timer`), a compiled class.
Timer: TypeAlias = Any
#: The user's combiner, or one of Beam's.
CombineFn: TypeAlias = Any
#: A function of the user's: of an element, and of whatever else it asks for.
UserFunction: TypeAlias = Callable[..., Value]
#: One of the user's, or of Beam's, of which only the element is left to be given.
OfOne: TypeAlias = Callable[[Value], Value]


class CellKey(NamedTuple):
    """Names a cell of user state, as Beam's message does, which costs ten times as much to make."""

    transform_id: str
    user_state_id: str
    window: bytes  # encoded
    key: bytes  # in nested encoding


class Instant(Protocol):
    """Beam's Timestamp and Duration."""

    @property
    def micros(self) -> int:
        """Microseconds."""


class Window(Protocol):
    """A window of event time."""

    def max_timestamp(self) -> Instant:
        """Give its last moment."""

    def __hash__(self) -> int:
        """It may stand in a dict."""


class Interval(Window, Protocol):
    """Beam's IntervalWindow; the public bounds build an object each time they are asked for."""

    _start_micros: int
    _end_micros: int


#: The windows that an element is in; a list where a window function of Beam's made it.
Windows: TypeAlias = Sequence[Window]


class Pane(Protocol):
    """Beam's PaneInfo: which firing of its window an element came with."""

    @property
    def index(self) -> int:
        """How many came before."""


class Element(Protocol):
    """Beam's WindowedValue."""

    @property
    def value(self) -> Value:
        """What the pipeline made."""

    @property
    def timestamp(self) -> Instant:
        """When it happened."""

    @property
    def timestamp_micros(self) -> int:
        """The same, without an object."""

    @property
    def windows(self) -> tuple[Window, ...]:
        """The windows that it is in."""

    @property
    def pane_info(self) -> Pane:
        """Which firing it came with."""

    def with_value(self, new_value: Value) -> Element:
        """Give the same with another value."""


class OutStream(Protocol):
    """Bytes that coders write, one value behind the other."""

    def write(self, data: bytes, nested: bool = False) -> None:
        """Write bytes; nested: with their length before them."""

    def write_var_int64(self, number: int) -> None:
        """Write a number in as few bytes as it takes."""

    def write_bigendian_int64(self, number: int) -> None:
        """Write a number in eight bytes."""

    def size(self) -> int:
        """Give how many bytes were written."""

    def get(self) -> bytes:
        """Give what was written."""


class InStream(Protocol):
    """Bytes that coders read."""

    def read_all(self, nested: bool) -> bytes:
        """Read what is left; nested: as many bytes as the length before them says."""

    def read_var_int64(self) -> int:
        """Read what `write_var_int64` wrote."""

    def read_bigendian_int64(self) -> int:
        """Read what `write_bigendian_int64` wrote."""

    def size(self) -> int:
        """Give how many bytes are left."""


#: Writes a value to the end of a stream: `encode_to_stream` of a coder.
Encode: TypeAlias = Callable[[Value, OutStream, bool], None]
#: Reads the next value of a stream: `decode_from_stream` of a coder.
Decode: TypeAlias = Callable[[InStream, bool], Value]


class CoderImpl(Protocol):
    """What does the work of a coder."""

    def encode(self, value: Value) -> bytes:
        """Encode one value."""

    def decode(self, encoded: bytes) -> Value:
        """Decode one value."""

    def encode_nested(self, value: Value) -> bytes:
        """Encode a value so that another may follow."""

    def decode_nested(self, encoded: bytes) -> Value:
        """Decode what `encode_nested` gave."""

    def encode_to_stream(self, value: Value, stream: OutStream, nested: bool) -> None:
        """Encode one value to the end of a stream."""

    def decode_from_stream(self, stream: InStream, nested: bool) -> Value:
        """Decode the next value of a stream."""


class Coder(Protocol):
    """One of Beam's coders."""

    def get_impl(self) -> CoderImpl:
        """Give what does the work."""

    def key_coder(self) -> Coder:
        """Of a pair: the coder of its keys."""

    def value_coder(self) -> Coder:
        """Of a pair: the coder of its values."""

    def is_kv_coder(self) -> bool:
        """Whether it is of pairs."""


class WindowedCoder(Coder, Protocol):
    """The coder of elements with their time, windows and pane."""

    @property
    def wrapped_value_coder(self) -> Coder:
        """The coder of the values."""

    @property
    def window_coder(self) -> Coder:
        """The coder of the windows."""


class WindowFn(Protocol):
    """Assigns windows, and merges them."""

    def assign(self, context: Any) -> Iterable[Window]:
        """Give the windows of an element; Beam's context is its time, value and window."""

    def merge(self, context: Any) -> None:
        """Tell Beam's context which of its windows are to be one."""

    def is_merging(self) -> bool:
        """Whether windows may become one."""

    def get_window_coder(self) -> Coder:
        """Give the coder of its windows."""

    def get_transformed_output_time(self, window: Window, input_timestamp: Instant) -> Instant:
        """Give the time that an element counts with in a window."""


class Trigger(Protocol):
    """Decides when a window fires: one of Beam's, or several in one."""

    def on_merge(self, to_be_merged: Windows, merge_result: Window, context: Any) -> None:
        """Let one window take over what is remembered of several."""


class StateTag(Protocol):
    """Names what a trigger remembers of a window."""

    @property
    def tag(self) -> str:
        """The name."""

    @property
    def combine_fn(self) -> CombineFn:
        """What adds values up, where that is what it remembers."""


class TriggerDriver(Protocol):
    """Beam's own: decides when windows fire."""

    INDEX: StateTag
    NONSPECULATIVE_INDEX: StateTag
    trigger_fn: Trigger
    clock: Any


class Windowing(Protocol):
    """Beam's windowing strategy."""

    @property
    def windowfn(self) -> WindowFn:
        """Assigns windows."""

    @property
    def triggerfn(self) -> Trigger:
        """Decides when a window fires."""

    @property
    def accumulation_mode(self) -> Any:
        """Whether a firing repeats what earlier ones brought."""

    @property
    def timestamp_combiner(self) -> Any:
        """Gives a firing its time."""

    @property
    def allowed_lateness(self) -> Instant:
        """How long after its end a window takes elements."""

    def is_default(self) -> bool:
        """Whether it is the global window, fired once."""


class TimerCoder(Coder, Protocol):
    """Beam's coder of timers."""

    def _get_component_coders(self) -> Sequence[Coder]:
        """Give the coders of the key and of the window."""
