"""What a live system is told of a question, be it one of the lab's own or a workload."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from headrace.lab.data_engine.events import EventsName
from headrace.lab.data_engine.schedule import Schedule
from headrace.lab.endpoints.names import Sink, SinkKind
from headrace.lab.live.question import WorkloadQuestion, workload_question
from headrace.lab.probe.events import ProbeSettings
from headrace.lab.probe.pipelines.questions import Question, question_of

_PROBE_EVENTS = "headrace.lab.probe.events"
#: The settings of a system that are those of the events of the lab's own questions.
_OF_EVENTS = ("keys", "window_ms", "panes", "one_in", "every", "costs", "spins")


def question_named(name: str) -> Question | WorkloadQuestion:
    """Give the question of this name; a workload's has a colon in it.

    Raises:
        OptionError: there is none; says which there are.
    """
    return workload_question(name) if ":" in name else question_of(name)


def asked_of(question: Question | WorkloadQuestion, settings: Any, schedule: Schedule) -> Any:
    """Give the settings of the events of a schedule.

    Args:
        question: that is asked.
        settings: of the system, in which those of the lab's own questions stand.
        schedule: of the events.
    """
    if isinstance(question, WorkloadQuestion):
        return question.asked(schedule)
    told = {name: getattr(settings, name) for name in _OF_EVENTS}
    pairs = tuple((phase.seconds, phase.rate) for phase in schedule.phases)
    return ProbeSettings(schedule=pairs, **told)


def events_named(question: Question | WorkloadQuestion, asked: Any) -> EventsName:
    """Name the events for a data engine."""
    if isinstance(question, WorkloadQuestion):
        return question.events(asked)
    return EventsName(module=_PROBE_EVENTS, settings=asdict(asked))


def told_of(question: Question | WorkloadQuestion, asked: Any) -> dict[str, Any]:
    """Give what a request says of the question: the workload, its settings, where rows go."""
    if isinstance(question, WorkloadQuestion):
        return {
            "workload": question.asked_of(asked), "settings": question.settings,
            "sink": Sink(SinkKind.COLUMNS),
        }
    return {
        "workload": question.workload, "settings": asked, "sink": Sink(SinkKind.VECTOR),
    }
