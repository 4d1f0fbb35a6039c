"""Asks the executors, before the first pipeline, whether they can run it.

Takes a Spark context, gives what is installed in the executors' Pythons. One tiny job per context;
a Python, Beam or headrace that differs is refused with the executor and the remedy. Sends headrace
itself where it is missing.
"""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from headrace.engine.spark.archives import own_package, ship
from headrace.errors import SessionError

#: How long executors may take to appear and to answer; a cluster that must start machines first
#: needs a session that is already warm.
LIMIT_SECONDS = 120.0
#: Executors that start together register within this time of each other.
SETTLE_SECONDS = 1.0
POLL_SECONDS = 0.1
#: A task rests this long, so that one executor does not answer for all.
REST_SECONDS = 0.2
#: Jobs until every executor has been met; on a busy cluster some may stay unseen.
ROUNDS = 3

REMEDY = (
    "Point PYSPARK_PYTHON (or spark.pyspark.python) at a Python that has the same versions as this "
    "one on every machine, or send one along with spark.archives; see docs/guide/cluster.md."
)

#: Whether a Python worker serves more than one task.
REUSE = "spark.python.worker.reuse"

_lock = threading.Lock()
_checked: dict[str, Mapping[str, str]] = {}  # by application id


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one executor's Python says of itself."""

    host: str
    folder: str  # the executor's working folder, its own even where a host has several
    python: str  # major.minor
    executable: str
    distributions: Mapping[str, str]  # normal name -> version
    beam: str | None  # None: not to be had
    pyarrow: str | None
    headrace: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What the driver has, and so what the executors must have."""

    python: str
    beam: str
    headrace: str


def is_local(master: str) -> bool:
    """Whether tasks run on this machine and in this folder, as children of this process."""
    return master == "local" or master.startswith("local[")


def expected_here() -> Expected:
    """Give the driver's own versions."""
    return Expected(
        python="{}.{}".format(*sys.version_info[:2]),
        beam=metadata.version("apache-beam"),
        headrace=sys.modules["headrace"].__version__,
    )


def check_executors(context: Any, limit_seconds: float = LIMIT_SECONDS) -> Mapping[str, str]:
    """Give the distributions that every executor has; refuse executors that do not fit.

    The answer is kept for the life of the context.
    """
    with _lock:
        found = _checked.get(context.applicationId)
        if found is None:
            found = _check(context, time.monotonic() + limit_seconds, limit_seconds)
            _checked[context.applicationId] = found
        return found


def ask_workers(context: Any, limit_seconds: float = LIMIT_SECONDS) -> list[Answer]:
    """Ask every executor what it has, whether it fits or not; the workers here of a local master.

    Raises:
        SessionError: none answers.
    """
    deadline = time.monotonic() + limit_seconds
    if not is_local(context.master):
        wait_for_executors(context, deadline, limit_seconds)
    return _ask_all(context, deadline, limit_seconds)


def advice_on_reuse(setting: str) -> list[str]:
    """Advise on workers that die with their task."""
    if setting != "false":
        return []
    return [
        f"{REUSE} is false: every task starts a Python and imports Beam (about 2 s). Set it to "
        "true before the session starts."
    ]


def _check(context: Any, deadline: float, limit: float) -> Mapping[str, str]:
    wait_for_executors(context, deadline, limit)
    expected = expected_here()
    answers = _ask_all(context, deadline, limit)
    if any(answer.headrace is None for answer in answers):
        refuse(answers, expected, may_send=True)
        ship(context.applicationId, context.addPyFile, own_package())
        answers = _ask_all(context, deadline, limit)
    refuse(answers, expected)
    return common(answers)


def refuse(answers: Sequence[Answer], expected: Expected, *, may_send: bool = False) -> None:
    """Raise if an executor differs from the driver; `may_send` forgives a missing headrace."""
    for answer in answers:
        faults = list(differences(answer, expected, may_send=may_send))
        if faults:
            msg = (
                f"the executor on {answer.host} ({answer.executable}) does not fit: "
                f"{'; '.join(faults)}. {REMEDY}"
            )
            raise SessionError(msg)


def differences(answer: Answer, expected: Expected, *, may_send: bool = False) -> Iterator[str]:
    """Say what an executor has and should not have."""
    if answer.python != expected.python:
        yield f"Python {answer.python}, the driver has {expected.python}"
    if answer.beam is None:
        yield f"no apache-beam, the driver has {expected.beam}"
    elif answer.beam != expected.beam:
        yield f"apache-beam {answer.beam}, the driver has {expected.beam}"
    if answer.pyarrow is None:
        yield "no pyarrow"
    if answer.headrace is None:
        if not may_send:
            yield "headrace cannot be imported, though it was sent"
    elif answer.headrace != expected.headrace:
        yield f"headrace {answer.headrace}, the driver has {expected.headrace}"


def common(answers: Sequence[Answer]) -> Mapping[str, str]:
    """Give the distributions that all executors have."""
    first, *others = answers
    return {
        name: version
        for name, version in first.distributions.items()
        if all(name in other.distributions for other in others)
    }


def wait_for_executors(context: Any, deadline: float, limit: float) -> None:
    """Wait until executors are there and no more come; never past the deadline."""
    known, since = 0, time.monotonic()
    while True:
        count, now = executor_count(context), time.monotonic()
        if count != known:
            known, since = count, now
        if known and now - since >= SETTLE_SECONDS:
            return
        if now >= deadline:
            if known:
                return
            raise SessionError(_silence(context, limit, "no executor registered"))
        time.sleep(POLL_SECONDS)


def executor_count(context: Any) -> int:
    """Count the executors that Spark knows of."""
    status = context._jsc.sc().getExecutorMemoryStatus()  # noqa: SLF001 (Python has no such call)
    return int(status.size()) - 1  # the driver is in it too


def _silence(context: Any, limit: float, what: str) -> str:
    conf = context.getConf()
    host = conf.get("spark.driver.host", "?")
    return (
        f"{what} with {context.master} within {limit:.0f} s. Check that its workers are up and "
        f"have the memory ({conf.get('spark.executor.memory', '1g')}) and cores free that an "
        f"executor asks for, and that they can reach the driver at {host} (set SPARK_LOCAL_IP to "
        "this machine's address in the cluster's network)."
    )


def _ask_all(context: Any, deadline: float, limit: float) -> list[Answer]:
    met: dict[tuple[str, str], Answer] = {}
    for _ in range(ROUNDS):
        tasks = 2 * max(int(context.defaultParallelism), executor_count(context))
        for answer in _run(context, tasks, deadline, limit):
            met[(answer.host, answer.folder)] = answer
        if len(met) >= executor_count(context):
            break
    return [met[where] for where in sorted(met)]


def _run(context: Any, tasks: int, deadline: float, limit: float) -> list[Answer]:
    """Run the job in a thread of its own, so that a cluster that never answers cannot hold us."""
    group = f"headrace-probe-{time.monotonic_ns()}"
    outcome: list[Any] = []

    def work() -> None:
        try:
            context.setJobGroup(group, "headrace: do the executors fit?")
            rows = context.parallelize(range(tasks), tasks).mapPartitions(question()).collect()
            outcome.append([Answer(**row) for row in rows])
        except Exception as error:  # noqa: BLE001 (raised again by the caller)
            outcome.append(error)

    thread = threading.Thread(target=work, name=group, daemon=True)
    thread.start()
    thread.join(max(0.0, deadline - time.monotonic()))
    if not outcome:
        context.cancelJobGroup(group)
        raise SessionError(_silence(context, limit, "no executor answered"))
    if isinstance(outcome[0], Exception):
        raise SessionError(explain(str(outcome[0]))) from outcome[0]
    return list(outcome[0])


def explain(text: str) -> str:
    """Say in one sentence why the executors' Python did not even start."""
    where = re.search(r"Lost task [^\n(]*\([^)]*\) \((\S+) executor", text)
    host = where.group(1) if where else "a worker"
    versions = re.search(r"different version: ([\d.]+) than that in driver:? ([\d.]+)", text)
    program = re.search(r'Cannot run program "([^"]+)"', text)
    module = re.search(r"No module named '?([\w.]+)", text)
    if versions:
        what = f"Python {versions.group(1)}, the driver has {versions.group(2)}"
    elif program:
        what = f"there is no program {program.group(1)}"
    elif module:
        what = f"its Python has no module {module.group(1)}"
    else:
        return f"the executors' Python could not be asked. {REMEDY} Spark said: {text[:2000]}"
    return f"the executor on {host} does not fit: {what}. {REMEDY}"


def question(rest_seconds: float = REST_SECONDS) -> Callable[[Iterable[int]], Iterator[Any]]:
    """Give the function that answers on an executor.

    It is nested and names nothing of this module, so that it travels by value: the executor may
    not have headrace.
    """

    def answer(_: Iterable[int]) -> Iterator[Any]:
        import importlib
        import importlib.metadata
        import os
        import re
        import socket
        import sys
        import time

        def version(module: str, attribute: str) -> str | None:
            try:
                return str(getattr(importlib.import_module(module), attribute))
            except ImportError:
                return None

        time.sleep(rest_seconds)
        distributions = {
            re.sub(r"[-_.]+", "-", each.metadata["Name"]).lower(): each.version
            for each in importlib.metadata.distributions()
            if each.metadata["Name"]
        }
        yield {
            "host": socket.gethostname(),
            "folder": os.getcwd(),
            "python": "{}.{}".format(*sys.version_info[:2]),
            "executable": sys.executable,
            "distributions": distributions,
            "beam": distributions.get("apache-beam") or version("apache_beam", "__version__"),
            "pyarrow": distributions.get("pyarrow") or version("pyarrow", "__version__"),
            "headrace": version("headrace", "__version__"),
        }

    return answer
