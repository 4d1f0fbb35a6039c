"""The lab's questions by name: pipeline, right answer, and what a cut-off run can be asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.errors import OptionError
from headrace.lab.data_engine.schedule import I64
from headrace.lab.probe import answer
from headrace.lab.probe.events import ProbeSettings
from headrace.lab.probe.pipelines.count import COUNT
from headrace.lab.probe.pipelines.filter import FILTER
from headrace.lab.probe.pipelines.sliding import SLIDING
from headrace.lab.probe.pipelines.state import STATE
from headrace.lab.workload import Row, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question. The last column of its rows is the number of their newest input."""

    workload: Workload
    answer: answer.Answer
    over: Callable[[ProbeSettings, list[Row], int], list[Row]]  # rows that can be asked for
    is_ordered: bool = False  # the answer depends on the order of a key's events

    @property
    def name(self) -> str:
        """The name in a spec."""
        return self.workload.name

    def right(self, settings: ProbeSettings, numbers: I64) -> list[Row]:
        """Answer for the events of these numbers, which go up."""
        return answer.right_rows(self.answer, settings, numbers)


QUESTIONS = {
    "filter": Question(workload=FILTER, answer=answer.filtered, over=answer.past),
    "count": Question(workload=COUNT, answer=answer.counted, over=answer.closed),
    "sliding": Question(workload=SLIDING, answer=answer.slid, over=answer.slid_past),
    "state": Question(
        workload=STATE, answer=answer.added_up, over=answer.past, is_ordered=True
    ),
}


def question_of(name: str) -> Question:
    """Give the question of this name.

    Raises:
        OptionError: there is none; says which there are.
    """
    if name not in QUESTIONS:
        msg = f"there is no question {name!r}; there are {', '.join(QUESTIONS)}"
        raise OptionError(msg)
    return QUESTIONS[name]
