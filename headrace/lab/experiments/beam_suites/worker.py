"""One process of a run: takes modules one after the other, on one Spark session.

`python -m headrace.lab.experiments.beam_suites.worker SUITE RUNNER RESULTS SECONDS MODULE...`.
Whatever it did is in RESULTS, line by line; the process may be killed at any time, and another one
goes on.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from headrace.lab.experiments.beam_suites.results import Ended, Result, as_line
from headrace.lab.experiments.beam_suites.suite import read_suite

#: What swaps the runner and writes results down.
PLUGIN = "headrace.lab.experiments.beam_suites.plugin"


def main(arguments: Sequence[str]) -> int:
    """Run the modules."""
    import pytest

    line, runner, results, seconds, *modules = arguments
    suite = read_suite(line)
    sys.argv = sys.argv[:1]  # Beam's tests read pipeline options from it
    for module in modules:
        began = time.monotonic()
        code = pytest.main(
            [
                str(suite.file_of(module)), "-c", "/dev/null", "-p", "no:cacheprovider",
                "-p", "pytest_timeout", "-p", PLUGIN, f"--suites-runner={runner}",
                f"--suites-table={suite.table}", f"--suites-results={results}",
                f"--timeout={seconds}", "-W", "ignore", "-q", "--no-header", "--no-summary",
                "--tb=short", "--show-capture=no", *suite.options,
            ]  # fmt: skip
        )
        broken = code in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.INTERNAL_ERROR)
        done = Result(
            module=module,
            test="",
            outcome=Ended.FAILED if broken else Ended.PASSED,
            seconds=round(time.monotonic() - began, 3),
            pipelines=0,
            text=f"pytest ended with {code} before any test ran" if broken else "",
        )
        with Path(results).open("a", encoding="utf-8") as file:
            file.write(as_line(done))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
