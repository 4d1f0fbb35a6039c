"""One process of a run: takes modules one after the other, on one Spark session.

`python -m headrace.lab.experiments.beam_suites.worker RUNNER RESULTS SECONDS MODULE...`. Whatever
it did is in RESULTS, line by line; the process may be killed at any time, and another one goes on.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from headrace.lab.experiments.beam_suites.discover import FOLDER
from headrace.lab.experiments.beam_suites.results import Ended, Result, as_line

#: What swaps the runner and writes results down.
PLUGIN = "headrace.lab.experiments.beam_suites.plugin"


def main(arguments: Sequence[str]) -> int:
    """Run the modules."""
    import pytest

    runner, results, seconds, *modules = arguments
    sys.argv = sys.argv[:1]  # Beam's tests read pipeline options from it
    for module in modules:
        began = time.monotonic()
        path = FOLDER.joinpath(*module.split(".")).with_suffix(".py")
        code = pytest.main(
            [
                str(path), "-c", "/dev/null", f"--rootdir={FOLDER.parent}",
                "--import-mode=importlib", "-p", "no:cacheprovider", "-p", PLUGIN,
                f"--suites-runner={runner}",
                f"--suites-results={results}", f"--timeout={seconds}", "-W", "ignore", "-q",
                "--no-header", "--no-summary", "--tb=short", "--show-capture=no",
                "-o", "python_functions=",  # as in Beam's own settings: helpers are no tests
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
