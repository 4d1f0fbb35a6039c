"""Reads the spec of a run: which systems, which experiments, how long, how often.

A spec is a TOML file. A table for each experiment that is to be made, a table below `systems` for
each system. Every name is checked: a setting that is not known is refused, not skipped.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import tomllib

from headrace.errors import OptionError

_T = TypeVar("_T")
#: What a system can be asked; `probe.questions` has them, with the packages that they need.
QUESTIONS = ("filter", "count", "sliding", "state")


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemSpec:
    """One system that is to be measured."""

    name: str
    kind: str
    settings: Mapping[str, Any]
    candidates: tuple[Mapping[str, Any], ...] = ()  # of tuning; empty: those of its kind
    first_rate: float = 0.0  # where its searches begin, events per second; 0: where all do


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningSpec:
    """The choice of settings for each system and question, before all else."""

    p99_seconds: float = 2.0  # the bound on latency
    first_rate: float = 1_000.0  # where the ramp begins, events per second
    precision: float = 0.25
    probe_seconds: float = 10.0
    acceptable_seconds: float = 1.5
    limit_seconds: float = 4.0
    drain_seconds: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SustainableSpec:
    """The search of the sustainable rate."""

    first_rate: float = 1_000.0  # events per second
    precision: float = 0.05
    probe_seconds: float = 20.0
    confirm_seconds: float = 60.0
    acceptable_seconds: float = 1.0  # of the rate, in the queue
    limit_seconds: float = 5.0
    drain_seconds: float = 5.0  # after the load, until the last result has left
    p99_seconds: float = 0.0  # a bound on latency; 0: none
    ramp: bool = False  # let one run with a growing rate say where to begin
    in_series: bool = False  # all probes in one run of the system, and a single latency too
    repeats: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencySpec:
    """Latency in an open loop."""

    rate: float = 0.0  # events per second; 0: a share of what is sustainable
    share: float = 0.8
    seconds: float = 60.0
    repeats: int = 3
    questions: tuple[str, ...] = ()  # empty: all of the run


@dataclass(frozen=True, slots=True, kw_only=True)
class SpikeSpec:
    """A load spike, and what comes after it."""

    rate: float = 0.0
    share: float = 0.3
    times: float = 10.0
    calm_seconds: float = 30.0
    spike_seconds: float = 2.0
    worse_at: float = 1.2
    questions: tuple[str, ...] = ()  # empty: all of the run


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSpec:
    """A fault in mid-run."""

    kind: str = "kill-worker"
    rate: float = 0.0
    share: float = 0.5
    seconds: float = 60.0
    at_seconds: float = 20.0
    questions: tuple[str, ...] = ()  # empty: all of the run


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingSpec:
    """The search at several numbers of cores, with the settings of `sustainable`."""

    cores: tuple[int, ...] = (1, 2)
    questions: tuple[str, ...] = ()  # empty: all of the run


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthSpec:
    """Whether the state grows at a steady rate."""

    rate: float = 0.0
    share: float = 0.5
    seconds: float = 120.0
    questions: tuple[str, ...] = ()  # empty: all of the run


@dataclass(frozen=True, slots=True, kw_only=True)
class CausalSpec:
    """What a faster step would give, searched with the settings of `sustainable`."""

    steps: tuple[str, ...] = ()  # the system's names of its steps
    times: float = 2.0  # as fast


#: The experiments and what they can be told, in the order in which they are made.
EXPERIMENTS: dict[str, type[Any]] = {
    "tuning": TuningSpec, "sustainable": SustainableSpec, "latency": LatencySpec,
    "spike": SpikeSpec, "fault": FaultSpec, "scaling": ScalingSpec, "growth": GrowthSpec,
    "causal": CausalSpec,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """A run."""

    name: str
    systems: tuple[SystemSpec, ...]
    questions: tuple[str, ...] = ("count",)  # that every system is asked
    experiments: Mapping[str, Any] = field(default_factory=dict)  # name -> its settings
    text: str = ""  # as it was read


def read_spec(text: str) -> Spec:
    """Read a spec.

    Raises:
        OptionError: it is none; says what is wrong and what is known.
    """
    try:
        told = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        msg = f"the spec is no TOML: {error}"
        raise OptionError(msg) from error
    name = told.pop("name", "run")
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9._-]+", name):
        msg = f"the name {name!r} is to become a folder: letters, digits, dots, dashes"
        raise OptionError(msg)
    questions = _questions(told.pop("questions", ["count"]))
    systems = _systems(told.pop("systems", {}))
    unknown = set(told) - set(EXPERIMENTS)
    if unknown:
        msg = f"there is no experiment {unknown.pop()!r}; there are {', '.join(EXPERIMENTS)}"
        raise OptionError(msg)
    if not told:
        msg = f"the spec asks for no experiment; there are {', '.join(EXPERIMENTS)}"
        raise OptionError(msg)
    experiments = {
        each: made(EXPERIMENTS[each], told[each], each) for each in EXPERIMENTS if each in told
    }
    _check_rates(experiments)
    for each, settings in experiments.items():
        other = set(getattr(settings, "questions", ())) - set(questions)
        if other:
            msg = f"{each} names the question {other.pop()!r}, and the run has {list(questions)}"
            raise OptionError(msg)
    return Spec(
        name=name, systems=systems, questions=questions, experiments=experiments, text=text
    )


def _questions(told: Any) -> tuple[str, ...]:
    if not isinstance(told, list) or not told or len(set(map(str, told))) < len(told):
        msg = f"questions is {told!r}; it must be a list of names, each of them once"
        raise OptionError(msg)
    for name in told:
        if name not in QUESTIONS:
            msg = f"there is no question {name!r}; there are {', '.join(QUESTIONS)}"
            raise OptionError(msg)
    return tuple(told)


def _systems(told: Any) -> tuple[SystemSpec, ...]:
    if not isinstance(told, dict) or not told:
        msg = "the spec names no system; write [systems.NAME] with kind = ..."
        raise OptionError(msg)
    found = []
    for name, settings in told.items():
        if not isinstance(settings, dict):
            msg = f"systems.{name} is no table"
            raise OptionError(msg)
        kind = settings.pop("kind", name)
        candidates = settings.pop("candidates", [])
        if not isinstance(candidates, list) or not all(isinstance(c, dict) for c in candidates):
            msg = f"systems.{name}.candidates must be a list of tables, as [{{shards = 1}}, ...]"
            raise OptionError(msg)
        first = settings.pop("first_rate", 0)
        if isinstance(first, bool) or not isinstance(first, int | float) or first < 0:
            msg = f"systems.{name}.first_rate is {first!r}; it must be events per second, as 50000"
            raise OptionError(msg)
        found.append(SystemSpec(
            name=name, kind=kind, settings=settings, candidates=tuple(candidates),
            first_rate=float(first),
        ))
    return tuple(found)


def _check_rates(experiments: Mapping[str, Any]) -> None:
    """Refuse a share of a rate that nobody searches."""
    for name, settings in experiments.items():
        if getattr(settings, "rate", None) == 0 and "sustainable" not in experiments:
            msg = f"{name} has no rate, and a share of the sustainable one needs [sustainable]"
            raise OptionError(msg)
    for name in ("scaling", "causal"):
        if name in experiments and "sustainable" not in experiments:
            msg = f"{name} searches with the settings of [sustainable], which is not there"
            raise OptionError(msg)


def made(kind: type[_T], told: Any, where: str) -> _T:
    """Make settings of a table.

    Raises:
        OptionError: a name is unknown, or a value of the wrong type.
    """
    if not isinstance(told, dict):
        msg = f"{where} is no table"
        raise OptionError(msg)
    fields = {each.name: each for each in dataclasses.fields(kind)}  # type: ignore[arg-type]
    values = {}
    for name, value in told.items():
        if name not in fields:
            msg = f"{where} has no setting {name!r}; there are {', '.join(fields)}"
            raise OptionError(msg)
        values[name] = _typed(fields[name].default, value, f"{where}.{name}")
    return kind(**values)


def _typed(default: Any, value: Any, where: str) -> Any:
    """Give the value in the type of the default."""
    if isinstance(default, tuple) and isinstance(value, list):
        return tuple(tuple(each) if isinstance(each, list) else each for each in value)
    if isinstance(default, float) and type(value) is int:
        return float(value)
    if type(value) is not type(default) and default is not dataclasses.MISSING:
        msg = f"{where} is {value!r}; it must be such as {default!r}"
        raise OptionError(msg)
    return value
