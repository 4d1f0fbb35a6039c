"""Beam's operations and DoFns by name, and what they ask of the state that they are given.

Like `beam_types`: the protocols say what of Beam's objects the worker uses, and what Beam uses of
ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias

from headrace.worker.beam_types import (
    Coder,
    CoderImpl,
    Element,
    Operation,
    OutStream,
    Proto,
    Timer,
    UserFunction,
    Value,
    Window,
)


class Done(Protocol):
    """What Beam waits for after a write of state."""

    def get(self, timeout: float | None = None) -> object:
        """Wait until it is written."""


class StateHandler(Protocol):
    """Keeps the cells of user state; names are Beam's messages, or `CellKey`."""

    def blocking_get(self, state_key: Proto, coder: CoderImpl) -> Iterable[Value]:
        """Read a cell."""

    def extend(self, state_key: Proto, coder: CoderImpl, elements: Iterable[Value]) -> Done:
        """Append to a cell."""

    def clear(self, state_key: Proto) -> Done:
        """Empty a cell."""


#: Takes a timer that user code sets: `encode_to_stream` of a timer coder, with no stream.
SendTimer: TypeAlias = Callable[[Timer, OutStream | None, bool], None]
#: The block in which the time that passes is that of one operation.
ScopedState: TypeAlias = AbstractContextManager[None]


class Handle(Protocol):
    """What user code reads and writes one of its cells by; what for, is the user's to know."""

    def clear(self) -> None:
        """Empty the cell."""

    def commit(self) -> None:
        """Hand on what was written in this bundle."""


#: Those of one key and window, in the order in which `process` asks for them.
Handles: TypeAlias = tuple[Handle, ...]


class Parameter(Protocol):
    """What `process` asks Beam to fill in: `DoFn.StateParam`, `DoFn.KeyParam` and their like."""

    @property
    def param_id(self) -> str:
        """What is asked for."""


class StateSpec(Protocol):
    """What a DoFn says of one of its cells."""

    @property
    def name(self) -> str:
        """Names the cell."""

    @property
    def coder(self) -> Coder:
        """The coder of what is in it."""


class Method(Protocol):
    """What Beam finds out about a method of a DoFn."""

    @property
    def args(self) -> Sequence[str]:
        """Names of its arguments."""

    @property
    def defaults(self) -> Sequence[Value]:
        """Defaults of the last ones: what Beam fills in, or the user's own."""


class Signature(Protocol):
    """What Beam finds out about a DoFn."""

    @property
    def process_method(self) -> Method:
        """Its `process`."""

    def is_stateful_dofn(self) -> bool:
        """Whether it has state or timers."""

    def is_splittable_dofn(self) -> bool:
        """Whether its elements can be split."""


class DoFn(Protocol):
    """A DoFn, as Beam unpickled it."""

    process: UserFunction
    _fn: UserFunction  # of those alone that Beam made of a function
    _process_defined: bool
    _process_batch_defined: bool


class SideInputMap(Protocol):
    """Beam's map from a window to a side input."""

    def is_globally_windowed(self) -> bool:
        """Whether there is only one window."""

    def __getitem__(self, window: Window) -> Value:
        """Give the view for a window of the main input."""


class OperationFactory(Protocol):
    """What builds Beam's operations of one stage; most of what it has is for them alone."""

    counter_factory: Any
    state_sampler: Any
    context: Any
    descriptor: Proto

    def get_coder(self, coder_id: str) -> Any:
        """Give a coder by its id; of what kind it is, who asks knows."""

    def augment_oldstyle_op(
        self, op: Operation, step_name: str, consumers: Consumers, tag_list: Sequence[str]
    ) -> Operation:
        """Connect an operation with those that take its outputs."""


#: Operations by the tag of the output that they take.
Consumers: TypeAlias = Mapping[str, Sequence[Operation]]


class Receiver(Protocol):
    """Where an operation's output goes, and is counted."""

    #: Of elements and their sizes; compiled.
    opcounter: Any

    def receive(self, element: Element) -> None:
        """Take one element."""
