"""Settings of workloads: what each does, what values it may have, and how text becomes a value.

A suite's settings are one frozen dataclass whose fields are made by `setting`. The command line
makes its options from them; nothing else needs to know them by name.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from headrace.errors import OptionError

_SCALES = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}
_T = TypeVar("_T")


class Domain(Protocol):
    """The values a setting may have."""

    def read(self, text: str) -> Any:
        """Make a value of text; ValueError if it is none."""

    def holds(self, value: Any) -> bool:
        """Whether the value is inside."""

    def tell(self) -> str:
        """Say which values are inside, as in "a whole number from 1 to 100"."""


@dataclass(frozen=True, slots=True)
class Whole:
    """Whole numbers from `least` to `most`; text may say 50K or 1M."""

    least: int = 0
    most: int = 2**53

    def read(self, text: str) -> int:
        """Make a number of text such as 50K."""
        found = re.fullmatch(r"(-?\d+(?:\.\d+)?)([KMG]?)", text.strip().replace("_", "").upper())
        if found is None:
            raise ValueError(text)
        value = float(found[1]) * _SCALES[found[2]] if "." in found[1] else (
            int(found[1]) * _SCALES[found[2]]
        )
        if value != int(value):
            raise ValueError(text)
        return int(value)

    def holds(self, value: Any) -> bool:
        """Whether the value is inside."""
        return type(value) is int and self.least <= value <= self.most

    def tell(self) -> str:
        """Say which values are inside."""
        if self.most == 2**53:
            return f"a whole number from {self.least:,} up (50K and 1M are understood)"
        return f"a whole number from {self.least:,} to {self.most:,}"


@dataclass(frozen=True, slots=True)
class Real:
    """Numbers from `least` to `most`."""

    least: float
    most: float

    def read(self, text: str) -> float:
        """Make a number of text."""
        return float(text)

    def holds(self, value: Any) -> bool:
        """Whether the value is inside; a NaN never is."""
        return isinstance(value, (int, float)) and self.least <= value <= self.most

    def tell(self) -> str:
        """Say which values are inside."""
        return f"a number from {self.least:g} to {self.most:g}"


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some words."""

    words: tuple[str, ...]

    def read(self, text: str) -> str:
        """Find the word, whatever its case."""
        for word in self.words:
            if word.lower() == text.strip().lower():
                return word
        raise ValueError(text)

    def holds(self, value: Any) -> bool:
        """Whether the value is one of the words."""
        return value in self.words

    def tell(self) -> str:
        """Say which words there are."""
        return "one of " + ", ".join(self.words)


@dataclass(frozen=True, slots=True)
class Flag:
    """Yes or no."""

    def read(self, text: str) -> bool:
        """Understand true, false, yes, no, 1, 0."""
        known = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
        try:
            return known[text.strip().lower()]
        except KeyError:
            raise ValueError(text) from None

    def holds(self, value: Any) -> bool:
        """Whether the value is a truth value."""
        return type(value) is bool

    def tell(self) -> str:
        """Say which values there are."""
        return "true or false"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One setting."""

    name: str
    default: Any
    domain: Domain
    effect: str  # one sentence


def setting(default: _T, domain: Domain, effect: str) -> _T:
    """Make a field of a settings dataclass."""
    facts = {"domain": domain, "effect": effect}
    return dataclasses.field(default=default, metadata=facts)


def parameters_of(settings: type) -> tuple[Parameter, ...]:
    """Give the settings that a dataclass has, in its order."""
    return tuple(
        Parameter(
            name=field.name,
            default=field.default,
            domain=field.metadata["domain"],
            effect=field.metadata["effect"],
        )
        for field in dataclasses.fields(settings)
    )


def check(settings: Any) -> None:
    """Refuse values outside their domain; a settings dataclass calls it when it is made.

    Raises:
        OptionError: names the setting, the value and the domain.
    """
    for parameter in parameters_of(type(settings)):
        value = getattr(settings, parameter.name)
        if not parameter.domain.holds(value):
            raise OptionError(_outside(parameter, value))


def read_settings(kind: type[_T], texts: Mapping[str, str]) -> _T:
    """Make settings of texts; what is not given has its default.

    Raises:
        OptionError: a name is unknown, or a text is no value of its domain.
    """
    known = {parameter.name: parameter for parameter in parameters_of(kind)}
    values = {}
    for name, text in texts.items():
        parameter = known.get(name)
        if parameter is None:
            msg = f"there is no setting {name!r}; there are {', '.join(known)}"
            raise OptionError(msg)
        try:
            values[name] = parameter.domain.read(text)
        except ValueError:
            raise OptionError(_outside(parameter, text)) from None
    return kind(**values)


def _outside(parameter: Parameter, value: Any) -> str:
    return f"{parameter.name}={value} is outside its domain: {parameter.domain.tell()}"
