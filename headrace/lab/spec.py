"""Reads the spec of a run: which systems, which experiments, how long, how often.

A spec is a TOML file. A table for each experiment that is to be made, a table below `systems` for
each system. Every name is checked: a setting that is not known is refused, not skipped.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import tomllib

from headrace.errors import OptionError
from headrace.lab.live.facts import NAMES as WORKLOADS

_T = TypeVar("_T")
#: What a system can be asked of the lab's own, which `probe.pipelines.questions` has with the
#: packages that they need. Beside them it can be asked the workloads of `live.facts`.
QUESTIONS = ("filter", "count", "sliding", "state")
#: The kinds of systems whose drivers run in the lab's process, on one Spark: they share its JVM.
ON_SPARK = ("headrace", "spark")
#: The kinds that run in the lab's process and nowhere else: what they hold nobody can tell apart.
IN_PROCESS = ("direct",)


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemSpec:
    """One system that is to be measured."""

    name: str
    kind: str
    settings: Mapping[str, Any]
    candidates: tuple[Mapping[str, Any], ...] = ()  # of tuning; empty: those of its kind
    first_rate: float = 0.0  # where its searches begin, events per second; 0: where all do
    near: Mapping[str, float] = field(default_factory=dict)  # question -> about where it ends


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
    #: Of the interpreter, on the machine that first rates are from: on another one they are taken
    #: times as high as it is fast. 0: as they are.
    loops_per_second: float = 0.0
    repeats: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencySpec:
    """Latency in an open loop."""

    rate: float = 0.0  # events per second; 0: a share of what is sustainable
    share: float = 0.8
    shares: tuple[float, ...] = ()  # at which it is measured once more, for latency against rate
    shares_questions: tuple[str, ...] = ()  # empty: all that latency is about
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
class CongestionSpec:
    """More than a system sustains for a while, then less."""

    rate: float = 0.0  # that it sustains; 0: as it was searched
    share: float = 1.0
    times: float = 1.5  # that rate while there is congestion
    below: float = 0.5  # of that rate, before and after
    calm_seconds: float = 20.0
    over_seconds: float = 20.0
    after_seconds: float = 60.0
    questions: tuple[str, ...] = ()  # empty: all of the run


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSpec:
    """A fault in mid-run."""

    kind: str = "kill-worker"
    rate: float = 0.0
    share: float = 0.5
    seconds: float = 60.0
    at_seconds: float = 20.0
    lasts_seconds: float = 10.0  # of one that is not over at once: slow-disk
    questions: tuple[str, ...] = ()  # empty: all of the run


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingSpec:
    """The search at several numbers of cores and shards, with the settings of `sustainable`."""

    cores: tuple[int, ...] = (1, 2)  # empty: not over cores
    shards: tuple[int, ...] = ()  # on all cores of the system; empty: not over shards
    questions: tuple[str, ...] = ()  # empty: all of the run


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthSpec:
    """Whether the state grows at a steady rate."""

    rate: float = 0.0
    share: float = 0.5
    seconds: float = 120.0
    questions: tuple[str, ...] = ()  # empty: all of the run


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSpec:
    """One setting after the other, each with several values, at one rate."""

    rate: float = 0.0
    share: float = 0.5
    seconds: float = 30.0
    per_batch: tuple[int, ...] = ()
    trigger_ms: tuple[int, ...] = ()
    bundle_ms: tuple[int, ...] = ()
    bundle_events: tuple[int, ...] = ()
    shards: tuple[int, ...] = ()
    questions: tuple[str, ...] = ()  # empty: all of the run


#: The settings that can be swept.
SWEPT = ("per_batch", "trigger_ms", "bundle_ms", "bundle_events", "shards")


@dataclass(frozen=True, slots=True, kw_only=True)
class CausalSpec:
    """What a faster step would give, searched with the settings of `sustainable`."""

    steps: tuple[str, ...] = ()  # the system's names of its steps
    times: float = 2.0  # as fast
    questions: tuple[str, ...] = ()  # empty: all of the run


#: The experiments and what they can be told, in the order in which they are made.
EXPERIMENTS: dict[str, type[Any]] = {
    "tuning": TuningSpec, "sustainable": SustainableSpec, "latency": LatencySpec,
    "spike": SpikeSpec, "congestion": CongestionSpec, "fault": FaultSpec, "scaling": ScalingSpec,
    "growth": GrowthSpec, "sweep": SweepSpec, "causal": CausalSpec,
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
        about = (*getattr(settings, "questions", ()), *getattr(settings, "shares_questions", ()))
        other = set(about) - set(questions)
        if other:
            msg = f"{each} names the question {other.pop()!r}, and the run has {list(questions)}"
            raise OptionError(msg)
    return Spec(
        name=name, systems=systems, questions=questions, experiments=experiments, text=text
    )


def only(spec: Spec, questions: Sequence[str]) -> Spec:
    """Give the spec with some of its questions; experiments about none of them are left out.

    Raises:
        OptionError: one of them is not asked in the spec.
    """
    other = set(questions) - set(spec.questions)
    if other:
        msg = f"the spec does not ask {other.pop()!r}; it asks {', '.join(spec.questions)}"
        raise OptionError(msg)
    experiments = {}
    for name, settings in spec.experiments.items():
        about = getattr(settings, "questions", ())
        kept = tuple(each for each in about if each in questions)
        if about and kept:
            experiments[name] = dataclasses.replace(settings, questions=kept)
        elif not about:
            experiments[name] = settings
    return dataclasses.replace(
        spec, questions=tuple(each for each in spec.questions if each in questions),
        experiments=experiments, text=f"# only: {', '.join(questions)}\n{spec.text}",
    )


def _questions(told: Any) -> tuple[str, ...]:
    if not isinstance(told, list) or not told or len(set(map(str, told))) < len(told):
        msg = f"questions is {told!r}; it must be a list of names, each of them once"
        raise OptionError(msg)
    for name in told:
        if name not in QUESTIONS and name not in WORKLOADS:
            there = ", ".join((*QUESTIONS, *WORKLOADS))
            msg = f"there is no question {name!r}; there are {there}"
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
        near = first if isinstance(first, dict) else {}
        _check_first_rates(name, first, near)
        found.append(SystemSpec(
            name=name, kind=kind, settings=settings, candidates=tuple(candidates),
            first_rate=0.0 if near else float(first),
            near={question: float(rate) for question, rate in near.items()},
        ))
    return tuple(found)


def _check_first_rates(name: str, first: Any, near: Mapping[str, Any]) -> None:
    rates = near.values() if near else [first]
    if any(isinstance(r, bool) or not isinstance(r, int | float) or r < 0 for r in rates):
        msg = f"systems.{name}.first_rate is {first!r}; it must be events per second, as 50000"
        raise OptionError(msg)
    unknown = set(near) - {*QUESTIONS, *WORKLOADS}
    if unknown:
        msg = f"systems.{name}.first_rate names {unknown.pop()!r}, and there is no such question"
        raise OptionError(msg)


def _check_rates(experiments: Mapping[str, Any]) -> None:
    """Refuse a share of a rate that nobody searches."""
    for name, settings in experiments.items():
        if getattr(settings, "rate", None) == 0 and "sustainable" not in experiments:
            msg = f"{name} has no rate, and a share of the sustainable one needs [sustainable]"
            raise OptionError(msg)
    latency = experiments.get("latency")
    if latency is not None and latency.shares:
        if latency.rate:
            msg = "latency has a rate, and shares are of the sustainable one; leave one of them out"
            raise OptionError(msg)
        if not all(isinstance(each, float) and 0 < each <= 1 for each in latency.shares):
            msg = f"latency.shares is {list(latency.shares)}; each must be above 0 and at most 1.0"
            raise OptionError(msg)
    sweep = experiments.get("sweep")
    if sweep is not None and not any(getattr(sweep, name) for name in SWEPT):
        msg = f"sweep names no setting; write as trigger_ms = [0, 100], of {', '.join(SWEPT)}"
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
