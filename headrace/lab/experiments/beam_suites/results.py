"""What a run of the suites says: one `Result` for each test, kept as lines of JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path


class Ended(Enum):
    """How a test ended."""

    PASSED = "passed"
    SKIPPED = "skipped"  # by Beam's own decorators, or because the module cannot be imported
    FAILED = "failed"
    BEGUN = "begun"  # in a file of lines: not ended yet; as a result: its process ended with it


@dataclass(frozen=True)
class Result:
    """One test's end."""

    module: str  # below apache_beam, dotted
    test: str  # Class::method; empty: the module as a whole
    outcome: Ended
    seconds: float
    pipelines: int  # how many it started on the runner under test
    text: str  # why it was skipped, or the end of what the failure says


def as_line(result: Result) -> str:
    """Write a result as a line."""
    return json.dumps(asdict(result) | {"outcome": result.outcome.value}) + "\n"


def read_lines(path: Path) -> list[Result]:
    """Read a plugin's file: the last line about each test counts.

    Of a module as a whole the first one does: that it was gone through, written at its end, must
    not hide that it could not be imported.
    """
    found: dict[tuple[str, str], Result] = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            raw = json.loads(line)
            result = Result(**raw | {"outcome": Ended(raw["outcome"])})
            if result.test or (result.module, "") not in found:
                found[result.module, result.test] = result
    return list(found.values())


def read_folder(folder: Path) -> list[Result]:
    """Read all files of a run."""
    return [result for file in sorted(folder.glob("*.jsonl")) for result in read_lines(file)]


def forget_begun(folder: Path) -> None:
    """Forget tests that an interrupted run had begun, so that the next one takes them up again."""
    for file in folder.glob("*.jsonl"):
        ended = [result for result in read_lines(file) if result.outcome is not Ended.BEGUN]
        file.write_text("".join(map(as_line, ended)), encoding="utf-8")
