"""Runs one workload on one system and has its answer judged.

The order is: claim the folder, let the system get ready, run, gather the rows, ask the oracle,
compare. Only the third of these is timed, by the system itself. A run at the default settings is
held against the shipped reference too, which judges alone where the oracle's packages are missing.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.errors import OptionError
from headrace.lab.endpoints.event_log import write_log
from headrace.lab.endpoints.names import SourceKind
from headrace.lab.endpoints.rows import write_json_lines
from headrace.lab.endpoints.sources import differs, spooled
from headrace.lab.progress import showing
from headrace.lab.reference import Comparison, reference_for
from headrace.lab.systems.system import Outcome, Request, System
from headrace.lab.verdict import Verdict, judge
from headrace.lab.workload import Row, find

#: The file that says which run a folder belongs to.
CLAIM = "run.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """What a run gave, and what the oracle and the shipped reference say to it."""

    outcome: Outcome
    row_count: int | None  # None: nobody counted
    verdict: Verdict | None  # None: the oracle did not judge
    unjudged: str = ""  # why not
    comparison: Comparison | None = None  # None: no reference is shipped for these settings

    @property
    def right(self) -> bool:
        """Whether nothing is known to be wrong."""
        compared = self.comparison is None or self.comparison.same
        return compared and (self.verdict is None or self.verdict.right)

    def lines(self) -> list[str]:
        """Say what the oracle and the reference say, a line each."""
        what = "not checked" if self.comparison is None else "checked by the reference alone"
        lines = [f"{what}: {self.unjudged}"] if self.verdict is None else self.verdict.lines()
        return lines if self.comparison is None else [*lines, self.comparison.line()]


def run_workload(
    request: Request, system: System, *, check: bool = True, output: str = "", style: str = "off"
) -> RunReport:
    """Run a workload once.

    Args:
        request: what is to be run.
        system: what runs it; it is prepared here, and stopped by whoever made it.
        check: ask the oracle.
        output: where the rows go as JSON lines; empty: nowhere.
        style: how progress is shown, see `terminal.display`.
    """
    request.folder.mkdir(parents=True, exist_ok=True)
    _claim(request, system.name)
    source = spooled(request.source, request.generator, request.folder)
    request = dataclasses.replace(request, source=source)
    with showing(f"{system.name} gets ready", style):
        system.prepare(request)
    outcome = system.run(request)
    rows: list[Row] | None = None
    if outcome.rows is not None:
        with showing("gathering the rows", style):
            rows = outcome.rows.read(request.workload.columns)
            if output:
                write_json_lines(output, request.workload.columns, rows)
    count = outcome.row_count if rows is None else len(rows)
    reason = "not asked for" if not check else _unjudged(request, rows)
    if reason or rows is None:
        return RunReport(outcome=outcome, row_count=count, verdict=None, unjudged=reason)
    with showing("asking the oracle", style):
        verdict, reason = _ask(request, rows)
        reference = reference_for(request.workload, request.settings)
        comparison = None if reference is None else reference.compare(rows, request.workload.rule)
    return RunReport(
        outcome=outcome, row_count=count, verdict=verdict, unjudged=reason, comparison=comparison
    )


def _ask(request: Request, rows: list[Row]) -> tuple[Verdict | None, str]:
    """Have the oracle judge; without its packages give the reason why it could not."""
    try:
        right = expected(request)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] == "headrace":
            raise
        return None, f"the oracle needs {missing.name}, which comes with headrace[lab]"
    return judge(rows, right, request.workload.rule), ""


def expected(request: Request) -> list[Row]:
    """Ask the oracle: log the events, unless they are logged already, and let it read them."""
    folder = request.folder / "log"
    if request.source.kind is SourceKind.LOG and request.source.path:
        folder = Path(request.source.path)
    log = write_log(request.generator, folder)
    rows = find(request.workload.oracle)(log, request.settings)
    return [tuple(row) for row in rows]


def _unjudged(request: Request, rows: list[Row] | None) -> str:
    """Say why the oracle has nothing to compare; empty if it has."""
    if rows is None:
        return f"the sink {request.sink.kind.value} keeps no rows"
    source = request.source
    match source.kind:
        case SourceKind.NULL:
            return "there were no events"
        case SourceKind.SPARK if source.path:
            return f"the oracle does not know the events in {source.path}"
        case SourceKind.FILE | SourceKind.CONSOLE:
            return differs(source.path, request.generator)
        case _:
            return ""


def _claim(request: Request, system: str) -> None:
    """Write down whose folder it is; refuse to go on with a run that was another one.

    Raises:
        OptionError: the folder holds another run.
    """
    record = {
        "workload": request.workload.full_name, "system": system, "mode": request.mode.value,
        "settings": dataclasses.asdict(request.settings),
    }
    path = Path(request.folder) / CLAIM
    if path.exists():
        was = json.loads(path.read_text(encoding="utf-8"))
        differing = _difference(was, record)
        if differing:
            msg = (
                f"{request.folder} holds a run with {differing}; give another folder, or what "
                "that run was given to go on with it"
            )
            raise OptionError(msg)
        return
    path.write_text(json.dumps(record, indent=1), encoding="utf-8")


def _difference(was: dict[str, Any], record: dict[str, Any]) -> str:
    for name, value in was.items():
        now = record.get(name)
        if isinstance(value, dict) and isinstance(now, dict):
            inner = _difference(value, now)
            if inner:
                return inner
        elif value != now:
            return f"{name} {value}, not {now}"
    return ""
