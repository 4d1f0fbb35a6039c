"""What all tests share: the workers' Python, and the markers that say who owns a gap."""

from __future__ import annotations

import gc
import logging
import math
import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from tests.packing import Groups, in_order
from tests.s3 import s3  # noqa: F401 (fixtures, for every test that asks for them)
from tests.spark_session import forget_connection, spark  # noqa: F401

# Spark starts its workers with the `python3` of PATH unless told otherwise, and that one may have
# another version and no Beam.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

# Nothing here runs long enough for the JVM's second compiler to pay: without it and its threads,
# tests on Spark take about three quarters of the time.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# The S3 of the tests asks who is there and lets everybody in. Set before Spark starts, so that its
# workers know it too, and always: a client without a name would go and look for one elsewhere.
os.environ.update(AWS_ACCESS_KEY_ID="tests", AWS_SECRET_ACCESS_KEY="tests")
os.environ.pop("AWS_SESSION_TOKEN", None)

# A busy machine takes its time: how long an example runs says nothing about what is right.
settings.register_profile("headrace", deadline=None)
settings.load_profile("headrace")

#: No limit is made longer than this: a test that hangs must not hold up all others for an hour.
LONGEST_SECONDS = 900

# Marker -> whether the test still runs. A test that runs must fail: when it passes, the gap is
# closed and the marker has to go (xfail_strict).
GAPS = {"not_built": True, "spark_cannot": True, "never": False}

# A whole run with one of these variables checks every claim about functions, or all that columns
# compute. The first calls functions twice and turns columns off, the second calls them though
# columns have computed; tests that look at either cannot hold there, and say so by the marker.
VERIFYING = {
    "not_verifying_traits": "HEADRACE_VERIFY_TRAITS",
    "not_verifying_columns": "HEADRACE_VERIFY_COLUMNS",
}


@pytest.fixture(autouse=True)
def _log_level() -> Iterator[None]:
    """Put back what a command under test made of the log: others wait for records."""
    root = logging.getLogger()
    before = root.level
    yield
    root.setLevel(before)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep a test that was cut off in a call to the JVM from taking later ones down with it."""
    if report.failed:
        forget_connection()


def pytest_collectstart() -> None:
    """Make building pipelines cheaper as soon as a test's module has loaded Beam."""
    if "apache_beam" in sys.modules:
        from tests.quick_beam import install

        install()


# Loading hundreds of modules leaves no garbage worth the looking for it, and what they hold stays
# to the end: a collection in a test looks at what the test has made.
gc.disable()


def pytest_collection_finish() -> None:
    """The same where the last module was the first to load Beam; from here on, garbage counts."""
    pytest_collectstart()
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    """Let modules written in C see their objects go, or they tell of leaks."""
    gc.unfreeze()


@pytest.hookimpl(optionalhook=True)  # where pytest-xdist deals out
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Groups:
    """Let a process run the tests of a group, whatever `--dist` says."""
    return Groups(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Turn every gap marker into the skip or the strict expected failure it stands for.

    Time limits are there for tests that hang: where processes share the cores, all take longer.
    """
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    most = math.inf if "HEADRACE_SLOW" in os.environ else LONGEST_SECONDS
    for item in items:
        asks = "spark" in getattr(item, "fixturenames", ())
        if asks and item.get_closest_marker("spark") is None:
            message = f"{item.nodeid}: asks for the session `spark` and is not marked `spark`"
            raise pytest.UsageError(message)
        if " at 0x" in item.nodeid:  # an address: another one in each process that collects
            message = f"{item.nodeid}: give its parameters names, with ids=[...]"
            raise pytest.UsageError(message)
        limit = item.get_closest_marker("timeout")
        if limit is not None and processes > 1:
            seconds = max(limit.args[0], min(limit.args[0] * processes, most))
            longer = pytest.mark.timeout(seconds, **limit.kwargs)
            item.add_marker(longer, append=False)
        for name, variable in VERIFYING.items():
            unfit = item.get_closest_marker(name)
            if unfit is not None:
                reason = f"{variable}: {gap_reason(unfit, item.nodeid)}"
                item.add_marker(pytest.mark.skipif(variable in os.environ, reason=reason))
        for name, runs in GAPS.items():
            marker = item.get_closest_marker(name)
            if marker is None:
                continue
            reason = f"{name}: {gap_reason(marker, item.nodeid)}"
            item.add_marker(
                pytest.mark.xfail(reason=reason, strict=True)
                if runs
                else pytest.mark.skip(reason=reason)
            )
    in_order(items)


def gap_reason(marker: pytest.Mark, where: str) -> str:
    """The reason a gap marker gives; a marker without one is refused."""
    reason = marker.kwargs.get("reason", marker.args[0] if marker.args else "")
    if not isinstance(reason, str) or not reason.strip():
        message = f"{where}: the marker {marker.name} needs a reason"
        raise pytest.UsageError(message)
    return reason
