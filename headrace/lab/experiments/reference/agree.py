"""Decides whether answers make a reference: two systems at least agree, and none disagrees.

Takes the oracle's rows and what the systems said. Asks nobody and writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.lab.ending import Ending
from headrace.lab.experiments.reference.asked import Answer
from headrace.lab.reference import (
    SOME,
    WHOLE,
    Absence,
    Agreement,
    Reference,
    digest_of,
    lines_of,
    texts_of,
)
from headrace.lab.workload import Row, Workload

#: How many systems must have given the oracle's answer.
ENOUGH = 2


def reference(workload: Workload, rows: Sequence[Row], answers: Iterable[Answer]) -> Reference:
    """Make the reference of a workload at its default settings.

    Args:
        workload: the workload.
        rows: of the oracle.
        answers: of the systems.

    Raises:
        ValueError: a system gave another answer, or too few gave this one.
    """
    settings = workload.settings()
    digest, lines = digest_of(rows, workload.rule), lines_of(rows, workload.rule)
    agreed, left_out = [], []
    for said in answers:
        where = f"{said.system} in {said.mode.value}"
        if said.ending is Ending.WRONG:
            msg = f"{where}: {said.told}"
            raise ValueError(msg)
        if said.ending is not Ending.RIGHT:
            left_out.append(Absence(system=said.system, mode=said.mode, reason=said.told))
        elif said.digest != digest:
            msg = f"{where}: its rows are right, but they have another digest"
            raise ValueError(msg)
        else:
            agreed.append(Agreement(system=said.system, mode=said.mode, engine=said.engine))
    names = {one.system for one in agreed}
    if len(names) < ENOUGH:
        msg = f"{len(names)} of the systems agreed, {ENOUGH} must: {sorted(names)}"
        raise ValueError(msg)
    return Reference(
        workload=workload.full_name, settings=texts_of(settings),
        events=workload.generator(settings).events, rows=len(lines), digest=digest,
        shown=tuple(lines if len(lines) <= WHOLE else lines[:SOME]),
        agreed=tuple(agreed), left_out=tuple(left_out),
    )
