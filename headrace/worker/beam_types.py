"""What Beam hands us, by name: Beam's own packages carry no types.

The protocols say what of Beam's objects the worker uses. `Value` and `Key` are the user's: of any
type, so that nothing can be known of them before a coder has seen them.
"""

from __future__ import annotations

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
    def pane_info(self) -> Any:
        """Which firing it came with."""

    def with_value(self, new_value: Value) -> Element:
        """Give the same with another value."""


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

    def encode_to_stream(self, value: Value, stream: Any, nested: bool) -> None:
        """Encode one value to the end of a stream."""

    def decode_from_stream(self, stream: Any, nested: bool) -> Value:
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


class Windowing(Protocol):
    """Beam's windowing strategy."""

    @property
    def windowfn(self) -> Any:
        """Assigns windows."""

    @property
    def triggerfn(self) -> Any:
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
