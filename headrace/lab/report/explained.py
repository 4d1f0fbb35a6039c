"""Why a system is ahead, in the questions of the lab: said beside a figure only if it is so there.

Each is what the two systems do differently, which can be read in their code and plans. None is a
figure.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.lab.report.compared import Compared, Relation

_COLUMNS = (
    "Spark computes this in code of its own in the JVM, on the columns that the source gives. "
    "headrace runs the functions of the pipeline in Python processes: every event crosses to them, "
    "and what they group crosses once more."
)
_PANDAS = (
    "Spark's version is written for whole columns: one call of Python for a key and a batch, where "
    "NumPy adds up. The Beam pipeline is asked for every event, in the order of its key, and reads "
    "and writes its state each time."
)
_EPOCH = (
    "An epoch of headrace plans a job of Spark's, runs Python, writes state and then the manifest "
    "that makes it count; a batch of Spark's own does less of each, so a second has more of them."
)
_MEMORY = (
    "Python workers with Beam in memory stand beside the JVM; what Spark computes alone needs none."
)
_LOCAL = (
    "Beam's local runner keeps everything in one process: no JVM, no exchange between processes, "
    "no checkpoint. What it holds is gone with it."
)
_FLINK = (
    "Flink's operators run all the time and pass elements on one by one; headrace's results wait "
    "for the end of an epoch."
)

#: (figure, peer, question) -> why the peer is ahead; an empty question is any.
REASONS: Mapping[tuple[str, str, str], str] = {
    ("rate", "spark", "filter"): _COLUMNS,
    ("rate", "spark", "count"): _COLUMNS,
    ("rate", "spark", "sliding"): _COLUMNS,
    ("rate", "spark", "state"): _PANDAS,
    ("cpu", "spark", "state"): _PANDAS,
    ("cpu", "spark", ""): _COLUMNS,
    ("p99", "spark", ""): _EPOCH,
    ("recovery", "spark", ""): _EPOCH,
    ("peak memory", "spark", ""): _MEMORY,
    ("peak memory", "direct", ""): _LOCAL,
    ("cpu", "direct", ""): _LOCAL,
    ("p99", "direct", ""): _LOCAL,
    ("recovery", "direct", ""): _LOCAL,
    ("p99", "pyflink", ""): _FLINK,
    ("p99", "pyflink-thread", ""): _FLINK,
    ("recovery", "pyflink", ""): _FLINK,
}
UNEXPLAINED = "No reason is known yet; the samples of the run are the place to look."


def lost(found: tuple[Compared, ...]) -> tuple[tuple[Compared, str], ...]:
    """Give the comparisons in which the other one is ahead, each with the reason."""
    return tuple((each, reason(each)) for each in found if each.relation is Relation.BEHIND)


def reason(each: Compared) -> str:
    """Say why the other one is ahead."""
    for question in (each.question, ""):
        said = REASONS.get((each.what.name, each.theirs.system, question))
        if said:
            return said
    return UNEXPLAINED
