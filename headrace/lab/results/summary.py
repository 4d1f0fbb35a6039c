"""The summary of a run: figures with their intervals and repeats, and what voids them.

Frozen data, to and from JSON. What is read or written is held against the schema beside this file,
so a summary that opens is one that can be compared.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from importlib.resources import files
from typing import Any

from headrace.errors import OptionError

FORMAT = 1
_SCHEMA = "summary.schema.json"
#: How a figure is void that a system cannot have: it says beforehand why it cannot be asked.
REFUSED = "refused: "


class Better(Enum):
    """Which way a figure is better."""

    HIGHER = "higher"
    LOWER = "lower"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured figure of one system. Void or unknown: value, low and high are None."""

    system: str
    experiment: str
    name: str
    unit: str
    better: Better
    value: float | None
    low: float | None
    high: float | None
    repeats: tuple[float, ...]  # the figure of each repeat, where there are several
    void: str = ""  # why it does not count; empty if it does
    question: str = ""  # what the system was asked; empty: the experiment has no questions

    @classmethod
    def of_samples(
        cls, system: str, experiment: str, name: str, unit: str, better: Better,
        samples: Sequence[float], void: str = "",
    ) -> Figure:
        """Give the median of samples, and their range; without any, or void, nothing is known."""
        known = [] if void else samples
        return cls(
            system=system, experiment=experiment, name=name, unit=unit, better=better,
            value=statistics.median(known) if known else None, low=min(known, default=None),
            high=max(known, default=None), repeats=tuple(known), void=void,
        )

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What the figure is, whichever run it is of."""
        return self.system, self.question, self.experiment, self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedRecord:
    """The settings that were chosen for a system and a question."""

    question: str
    chosen: Mapping[str, Any]
    rate: float  # sustained with them under the bound; 0: none was with any
    p99_seconds: float  # the bound
    tried: tuple[Mapping[str, Any], ...]  # each: settings, rate, said


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRecord:
    """One rate that a search has tried."""

    system: str
    question: str
    experiment: str  # that searched
    repeat: int
    rate: float  # events per second
    status: str  # as `sustainable.ProbeStatus` has it
    reason: str  # why it did not keep up, or does not count; empty: it kept up
    is_confirmation: bool


class Shown(Enum):
    """What a run has shown of a guarantee."""

    YES = "yes"  # in every trial that asked for it
    NO = "no"  # a trial shows the contrary
    OPEN = "not shown"  # no trial asked for it, or those that did do not count


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """What a run has shown of one promise that a system may make."""

    system: str
    name: str  # exactly once after a killed worker; order; durability
    shown: Shown
    evidence: str  # what was seen, in words


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemRecord:
    """A system that was to be measured."""

    name: str
    kind: str
    engine: str  # what really ran; empty: nothing did
    absent: str  # why it was not measured, and what would install it; empty if it was
    settings: Mapping[str, Any]
    tuned: tuple[TunedRecord, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """All figures of a run."""

    name: str
    started: str  # as 2026-11-17T03:58:00Z
    seconds: float
    calibration: Mapping[str, float]
    systems: tuple[SystemRecord, ...]
    figures: tuple[Figure, ...]
    interrupted: str = ""  # why it ended before all was measured; empty if all was
    guarantees: tuple[Guarantee, ...] = ()
    probes: tuple[ProbeRecord, ...] = ()  # in the order in which they were made

    @property
    def voids(self) -> tuple[Figure, ...]:
        """The figures that do not count."""
        return tuple(figure for figure in self.figures if figure.void)

    def to_json(self) -> str:
        """Write it.

        Raises:
            OptionError: it is not as the schema says.
        """
        told = {"format": FORMAT, **asdict(self)}
        for figure in told["figures"]:
            figure["better"] = figure["better"].value
            for name in ("value", "low", "high"):
                if figure[name] is not None and not math.isfinite(figure[name]):
                    figure[name] = None
        for guarantee in told["guarantees"]:
            guarantee["shown"] = guarantee["shown"].value
        plain = json.loads(json.dumps(told))
        check(plain, "the summary")
        return json.dumps(plain, indent=1) + "\n"


def read_summary(text: str, where: str) -> Summary:
    """Read a summary.

    Raises:
        OptionError: it is none, or of another format.
    """
    try:
        told = json.loads(text)
    except ValueError as error:
        msg = f"{where} is no JSON: {error}"
        raise OptionError(msg) from error
    check(told, where)
    return Summary(
        name=told["name"], started=told["started"], seconds=told["seconds"],
        calibration=told["calibration"],
        systems=tuple(
            SystemRecord(**{
                **system, "tuned": tuple(
                    TunedRecord(**{**each, "tried": tuple(each["tried"])})
                    for each in system.get("tuned", ())
                ),
            })
            for system in told["systems"]
        ),
        figures=tuple(figure_of(figure) for figure in told["figures"]),
        interrupted=told.get("interrupted", ""),
        guarantees=tuple(
            Guarantee(**{**each, "shown": Shown(each["shown"])})
            for each in told.get("guarantees", ())
        ),
        probes=tuple(ProbeRecord(**each) for each in told.get("probes", ())),
    )


def figure_of(told: Mapping[str, Any]) -> Figure:
    """Read a figure from plain data."""
    return Figure(**{
        **told, "better": Better(told["better"]), "repeats": tuple(told["repeats"]),
    })


def check(told: Any, where: str) -> None:
    """Hold plain JSON against the schema.

    Raises:
        OptionError: it does not fit; says where and why.
    """
    import jsonschema  # type: ignore[import-untyped]

    schema = json.loads(files("headrace.lab.results").joinpath(_SCHEMA).read_text("utf-8"))
    try:
        jsonschema.validate(told, schema)
    except jsonschema.ValidationError as error:
        place = "/".join(map(str, error.absolute_path)) or "the whole"
        msg = f"{where} is not a summary of format {FORMAT}: {place}: {error.message}"
        raise OptionError(msg) from error
