"""A workload as a question to a live system: its events, its pipeline, who can be asked."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, cast

from headrace.errors import OptionError
from headrace.lab.catalog import CATALOG, native_of
from headrace.lab.data.generator import Generator
from headrace.lab.data_engine.events import EventsName
from headrace.lab.data_engine.schedule import Schedule
from headrace.lab.live.content import content_of
from headrace.lab.live.facts import FACTS, NAMES, STREAMS, Facts
from headrace.lab.live.sent import SentEvents, SentSettings, plain
from headrace.lab.workload import Refusal, Workload

_EVENTS = "headrace.lab.live.sent"
#: The systems that can be asked: those that read rows of any columns, and give them as columns.
ASKED = ("headrace", "spark")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadQuestion:
    """One workload."""

    name: str  # as in a spec: nexmark:q5
    facts: Facts
    workload: Workload
    settings: Any  # of the workload
    #: Event times and the judge's log want the events in one order.
    is_ordered: bool = True

    def asked(self, schedule: Schedule) -> SentSettings:
        """Give the settings of the events of a schedule; makes what they say, the first time."""
        pairs = tuple((phase.seconds, phase.rate) for phase in schedule.phases)
        return SentSettings(
            schedule=pairs, stream=self.facts.stream, content=str(content_of(self.facts.stream))
        )

    def events(self, asked: SentSettings) -> EventsName:
        """Name the events for a data engine."""
        return EventsName(module=_EVENTS, settings=plain(asked))

    def asked_of(self, asked: SentSettings) -> Workload:
        """Give the workload as a system is to be asked: of these events."""
        # Of a live run's generator a system asks the schema and how many events there are.
        events = cast(Generator, SentEvents(asked))
        return replace(self.workload, generator=lambda _settings: events)

    def refusal(self, system: str) -> str:
        """Say why a system cannot be asked this; empty if it can."""
        if system not in ASKED:
            return (
                f"workloads are asked of {' and '.join(ASKED)}; others are asked the lab's own "
                "questions"
            )
        native = native_of(self.workload)
        if system == "spark" and isinstance(native, Refusal):
            return f"Spark's own DataFrames cannot answer it: {native.reason}"
        return ""


def workload_question(name: str) -> WorkloadQuestion:
    """Give the question of this name.

    Raises:
        OptionError: there is none; says which there are.
    """
    facts = FACTS.get(name)
    if facts is None:
        msg = f"there is no question {name!r}; of workloads there are {', '.join(NAMES)}"
        raise OptionError(msg)
    suite, _, own = name.partition(":")
    workload = CATALOG.workload(suite, own)
    return WorkloadQuestion(
        name=name, facts=facts, workload=workload,
        settings=workload.settings(**_told(workload, facts)),
    )


def _told(workload: Workload, facts: Facts) -> dict[str, Any]:
    """Give the settings that differ from the defaults: of the stream, and of the question.

    Natives derive from the rate how long Spark's watermark waits; events come in order, so a high
    one makes that as short as it can be.
    """
    told = {**STREAMS[facts.stream].told, **facts.told}
    names = {field.name for field in fields(workload.settings)}
    return {"rate": 1_000_000, **told} if "rate" in names else told

