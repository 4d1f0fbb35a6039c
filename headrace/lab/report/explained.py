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
_HEAPS = (
    "Spark's JVM may fill the heap that it is given, 2 GiB, before it collects, and beside it and "
    "in Python stand the batches, of up to a million events. Flink hands elements to Python by the "
    "thousand."
)
_LOCAL = (
    "Beam's local runner keeps everything in one process: no JVM, no exchange between processes, "
    "no checkpoint. What it holds is gone with it."
)
_FLINK = (
    "Flink's operators run all the time and pass elements on one by one; headrace's results wait "
    "for the end of an epoch."
)

_JOINED = (
    "Spark drops the rows that the join does not look at, and joins the rest, in code of its own "
    "in the JVM. To headrace's functions every event crosses first, and what is kept of a seller "
    "or a window is read and written by Python."
)
_SESSIONS = (
    "Spark merges sessions in an operator of its own, in the JVM. In headrace every bid crosses to "
    "Python, where its session is found, merged and counted."
)
_AT_ONCE = (
    "Spark's join lets a pair out as soon as both are there; in the Beam pipeline a window's pairs "
    "leave when the window is over."
)
_ROLLING = (
    "Spark's version numbers all records of an address in a batch by one call of Python; the Beam "
    "pipeline reads and writes the count of an address for each record."
)

#: Workloads that are asked of each event alone, or that count or compare inside windows.
_BY_COLUMNS = (
    "nexmark:q1", "nexmark:q2", "nexmark:q5", "nexmark:q7", "nexmark:q13",
    "yahoo:campaigns", "hibench:fixwindow", "windowed:aggregation",
    "kernels:network", "kernels:twitter_nlp", "micro:pardo_chain", "scaling:stateless",
    "scaling:keyed", "scaling:shuffle",
)
_JOINS = ("nexmark:q3", "nexmark:q8", "windowed:join")

#: (figure, peer, question) -> why the peer is ahead; an empty question is any.
REASONS: Mapping[tuple[str, str, str], str] = {
    ("rate", "spark", "filter"): _COLUMNS,
    ("rate", "spark", "count"): _COLUMNS,
    ("rate", "spark", "sliding"): _COLUMNS,
    ("rate", "spark", "state"): _PANDAS,
    ("cpu", "spark", "state"): _PANDAS,
    **{("rate", "spark", question): _COLUMNS for question in _BY_COLUMNS},
    **{(figure, "spark", question): _JOINED for figure in ("rate", "cpu") for question in _JOINS},
    **{("p99", "spark", question): _AT_ONCE for question in ("nexmark:q8", "windowed:join")},
    **{(figure, "spark", "nexmark:q11"): _SESSIONS for figure in ("rate", "cpu")},
    **{(figure, "spark", "hibench:wordcount"): _ROLLING for figure in ("rate", "cpu")},
    ("cpu", "spark", ""): _COLUMNS,
    ("p99", "spark", ""): _EPOCH,
    ("recovery", "spark", ""): _EPOCH,
    ("peak memory", "spark", ""): _MEMORY,
    ("peak memory", "direct", ""): _LOCAL,
    ("peak memory", "pyflink", ""): _HEAPS,
    ("peak memory", "pyflink-thread", ""): _HEAPS,
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
