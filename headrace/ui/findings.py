"""Says in a sentence what is wrong with a run, and what to do about it. Pure.

Takes the pipeline's graph and the records of the last epochs, gives findings: a sentence that names
the cause, the figures it rests on, a remedy. Says nothing of a run that is well. A rule looks at a
few epochs, since a run that was ill an hour ago may be well now. The rules about load and about
time stand in modules of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace.plan.epoch_records import EpochRecord, RetryRecord
from headrace.ui.finding import LOOKED_AT, Finding
from headrace.ui.graph import Graph, outer
from headrace.ui.load_findings import LOAD_RULES
from headrace.ui.time_findings import TIME_RULES


def findings(
    graph: Graph, history: Sequence[EpochRecord], failing: Sequence[RetryRecord] = ()
) -> list[Finding]:
    """Say what is wrong.

    Args:
        graph: the pipeline.
        history: of epochs that count, oldest first.
        failing: tries at the epoch that is running.
    """
    found = [*_retries(history[-LOOKED_AT:], failing)]
    if history:
        for rule in (*LOAD_RULES, *TIME_RULES):
            found += rule(graph, history)
    hot = any(finding.kind == "hot key" for finding in found)
    # A shard that is slow since it owns a hot key is told of by the key's name.
    return [f for f in found if not (f.kind == "slow shard" and hot)]


def _retries(
    recent: Sequence[EpochRecord], failing: Sequence[RetryRecord]
) -> Iterator[Finding]:
    tries = [*(retry for record in recent for retry in record.retries), *failing]
    if not tries:
        return
    last = tries[-1]
    of_last = [retry for retry in tries if retry.epoch == last.epoch]
    step = outer(last.step) if last.step else ""
    where = f" in step {step}" if step else ""
    running = bool(failing)
    yield Finding(
        kind="retry", subject=step or last.error,
        sentence=f"epoch {last.epoch} {'is' if running else 'was'} tried again: "
        f"{last.error}{where}",
        evidence=f"{len(of_last)} failed tries at it, {len(tries)} in the last epochs",
        remedy="mend what raises it; --max_retries says how often an epoch is tried again, and "
        "a dead-letter output keeps one bad element from stopping the others",
        epoch=last.epoch,
    )
