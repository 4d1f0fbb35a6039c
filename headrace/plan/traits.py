"""What is known of an operator: state, selectivity, key forwarding, determinism.

Gives the four enums, the frozen record `Traits` that carries a reason beside each value, and the
decorator `traits` by which an author declares what analysis cannot see. Decides nothing and reads
no code: it only holds what others found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import TypeVar


class State(Enum):
    """What an operator remembers from one element to the next."""

    NONE = "none"  # nothing: any shard may take any element
    KEYED = "keyed"  # a map by the element's key: one key, one shard
    UNKNOWN = "unknown"  # something else, or nobody can tell: one shard for all


class Selectivity(Enum):
    """How many elements leave for one that enters."""

    EXACTLY_ONE = "exactly_one"  # every element is answered by one
    AT_MOST_ONE = "at_most_one"  # an element may vanish
    MANY = "many"  # any number, each caused by one element or one pulse
    UNKNOWN = "unknown"  # outputs cannot be traced to inputs


class KeyForwarding(Enum):
    """Whether the key of a key-value pair leaves as it came."""

    FORWARDED = "forwarded"  # every output is a pair with the input's key
    CHANGED = "changed"  # the key is replaced, or the output is no pair any more
    UNKNOWN = "unknown"  # not proven either way


class Determinism(Enum):
    """Whether a second run on the same element gives the same outputs."""

    DETERMINISTIC = "deterministic"  # same input, same output
    UNKNOWN = "unknown"  # asks a clock, a dice or the world, or nobody can tell


NOT_LOOKED_AT = "not analysed"
DECLARED = "declared by its author"


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """What an author said of an operator; `None` where nothing was said."""

    state: State | None = None
    selectivity: Selectivity | None = None
    forwarding: KeyForwarding | None = None
    determinism: Determinism | None = None

    def over(self, older: Declaration) -> Declaration:
        """This declaration, with the gaps filled from an older one."""
        return Declaration(
            **{f.name: getattr(self, f.name) or getattr(older, f.name) for f in fields(self)}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """The four traits of one operator, each with the reason that explain prints."""

    state: State = State.UNKNOWN
    state_reason: str = NOT_LOOKED_AT
    selectivity: Selectivity = Selectivity.UNKNOWN
    selectivity_reason: str = NOT_LOOKED_AT
    forwarding: KeyForwarding = KeyForwarding.UNKNOWN
    forwarding_reason: str = NOT_LOOKED_AT
    determinism: Determinism = Determinism.UNKNOWN
    determinism_reason: str = NOT_LOOKED_AT

    def declared(self, declaration: Declaration) -> Traits:
        """These traits, overruled where the author declared something."""
        said: dict[str, object] = {}
        for field in fields(declaration):
            value = getattr(declaration, field.name)
            if value is not None:
                said[field.name] = value
                said[f"{field.name}_reason"] = DECLARED
        return replace(self, **said)  # type: ignore[arg-type]


#: A DoFn may offer its outputs in bulk by a method of this name: it takes an element and gives a
#: list of values and a list of their times in microseconds, just those that `process` would give
#: one by one as timestamped values. Other runners know nothing of it and call `process`.
BLOCK_METHOD = "headrace_block"

_ATTRIBUTE = "_headrace_traits"

_E = TypeVar("_E", bound=Enum)
_T = TypeVar("_T")


def traits(
    *,
    state: State | str | None = None,
    selectivity: Selectivity | str | None = None,
    forwards_key: KeyForwarding | str | bool | None = None,
    deterministic: Determinism | str | bool | None = None,
) -> Callable[[_T], _T]:
    """Declare traits of a DoFn class or of a function given to Map, FlatMap or Filter.

    A declaration wins over analysis, so it must be true; `--verify_traits` checks it in a test run.

    >>> @traits(selectivity="at_most_one", forwards_key=True)
    ... def parse(line):
    ...     return legacy_parser(line)
    >>> declaration_of(parse).selectivity
    <Selectivity.AT_MOST_ONE: 'at_most_one'>

    Raises:
        ValueError: a value is outside its domain; the message lists the domain.
        TypeError: the decorated object cannot carry an attribute.
    """
    if isinstance(forwards_key, bool):
        forwards_key = KeyForwarding.FORWARDED if forwards_key else KeyForwarding.CHANGED
    if isinstance(deterministic, bool):
        deterministic = Determinism.DETERMINISTIC if deterministic else Determinism.UNKNOWN
    declaration = Declaration(
        state=_member("state", State, state),
        selectivity=_member("selectivity", Selectivity, selectivity),
        forwarding=_member("forwards_key", KeyForwarding, forwards_key),
        determinism=_member("deterministic", Determinism, deterministic),
    )

    def decorate(subject: _T) -> _T:
        older = vars(subject).get(_ATTRIBUTE) if hasattr(subject, "__dict__") else None
        try:
            setattr(subject, _ATTRIBUTE, declaration.over(older) if older else declaration)
        except (AttributeError, TypeError) as e:
            msg = f"traits cannot be declared on {subject!r}: wrap it in a function of your own"
            raise TypeError(msg) from e
        return subject

    return decorate


def declaration_of(subject: object) -> Declaration | None:
    """What was declared on a function, a DoFn class, or the class of a DoFn instance.

    A class that writes its own `process` does not inherit the declaration of its base: the base's
    author spoke of other code.
    """
    own = _own(subject)
    if own is not None:
        return own
    kind = subject if isinstance(subject, type) else type(subject)
    for cls in kind.__mro__:
        found = _own(cls)
        if found is not None or "process" in vars(cls):
            return found
    return None


def _own(subject: object) -> Declaration | None:
    found = vars(subject).get(_ATTRIBUTE) if hasattr(subject, "__dict__") else None
    return found if isinstance(found, Declaration) else None


def _member(name: str, domain: type[_E], value: object) -> _E | None:
    if value is None or isinstance(value, domain):
        return value
    for member in domain:
        if member.value == value:
            return member
    known = ", ".join(repr(m.value) for m in domain)
    msg = f"{name}={value!r} is not known; use one of {known}"
    raise ValueError(msg)
