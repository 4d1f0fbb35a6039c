"""`headrace lab run simulation --faults 100000 --seed N`: simulate, say what happened, save it.

In most schedules a few lines that count stand for the tasks, so that one takes milliseconds; in the
share that `--real` says headrace's own run, with windows, state, timers, side inputs and an outbox.
Ends with 0 if nothing was lost and nothing doubled, with 1 otherwise; then the smallest schedules
that fail are shown, and `--schedule` runs one of them again.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from headrace.lab.commands import today
from headrace.lab.experiments.faults.simulation.schedule import Planned, Schedule, Tasks
from headrace.lab.experiments.faults.simulation.simulate import (
    Asked,
    Tally,
    judged,
    simulate_in,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks."""
    parser = argparse.ArgumentParser(prog="headrace lab run simulation", description=__doc__)
    parser.add_argument("--faults", type=int, default=10_000, help="how many; default: 10000")
    parser.add_argument("--seed", type=int, default=1, help="of the first schedule; default: 1")
    parser.add_argument(
        "--processes", type=int, default=1, help="side by side, each with its own seeds; default: 1"
    )
    parser.add_argument(
        "--real", type=float, default=5.0, metavar="PERCENT",
        help="of the schedules, those in which headrace's own tasks run; default: 5",
    )
    parser.add_argument(
        "--minutes", type=float, default=float("inf"),
        help="begin no schedule after so many minutes, however many faults have happened",
    )
    parser.add_argument("--save", type=Path, help="where to write the result, as JSON")
    parser.add_argument("--schedule", help="run this one, as a failure shows it, and no other")
    given = parser.parse_args(arguments)
    if not 0.0 <= given.real <= 100.0:
        parser.error(f"--real={given.real:g} is no share in percent")
    if given.schedule:
        found = judged(from_json(given.schedule))
        print(found.problem or "right")
        return int(bool(found.problem))
    start = time.monotonic()
    asked = Asked(
        faults=given.faults, seed=given.seed, real=given.real / 100,
        until=time.time() + given.minutes * 60,
    )
    tally = simulate_in(given.processes, asked, _tell)
    seconds = time.monotonic() - start
    print(shown(tally, seconds))
    if given.save:
        result = record(tally, asked, given.processes, seconds)
        given.save.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return int(bool(tally.failures))


def from_json(text: str) -> Schedule:
    """Read a schedule."""
    told = json.loads(text)
    return Schedule(
        seed=told["seed"], batches=told["batches"],
        faults=tuple(Planned(**fault) for fault in told["faults"]),
        tasks=told.get("tasks", Tasks.COUNTING.value),
    )


def record(tally: Tally, asked: Asked, processes: int, seconds: float) -> dict[str, object]:
    """Give a result file."""
    gaps: dict[str, dict[str, int]] = {}
    for (gap, fault), count in sorted(tally.happened.items()):
        gaps.setdefault(gap, {})[fault] = count
    return {
        "date": str(today()),
        "seed": asked.seed,
        "asked_faults": asked.faults,
        "processes": processes,
        "real_share": asked.real,
        "schedules": tally.schedules,
        "faults": tally.faults,
        "drivers": tally.drivers,
        "drivers_overtaken": tally.overtaken,
        "gaps_passed": tally.gaps,
        "seconds": round(seconds, 1),
        "by_tasks": {
            tasks: {
                "schedules": kind.schedules, "faults": kind.faults,
                "ms_each": round(1000 * kind.seconds / kind.schedules, 1),
                "kinds_of_gaps": len(kind.passed),
            }
            for tasks, kind in sorted(tally.kinds.items())
        },
        "failures": [
            {"schedule": asdict(schedule), "problem": problem}
            for schedule, problem in tally.failures
        ],
        "faults_by_gap": gaps,
    }


def shown(tally: Tally, seconds: float) -> str:
    """Say what happened."""
    kinds: Counter[str] = Counter()
    for (_, fault), count in tally.happened.items():
        kinds[fault] += count
    lines = [
        f"{tally.faults:,} faults in {tally.schedules:,} runs of {tally.drivers:,} drivers, "
        f"{tally.overtaken:,} of them refused as overtaken; {seconds:.0f} s",
        ", ".join(f"{count:,} {kind}" for kind, count in sorted(kinds.items())),
        f"at {len({gap for gap, _ in tally.happened})} kinds of gaps",
    ]
    for tasks, kind in sorted(tally.kinds.items()):
        lines.append(
            f"{tasks} tasks: {kind.faults:,} faults in {kind.schedules:,} runs, "
            f"{1000 * kind.seconds / kind.schedules:.0f} ms each"
        )
    for schedule, problem in tally.failures:
        lines.append(f"FAILED {problem}\n  --schedule '{json.dumps(asdict(schedule))}'")
    lines.append("WRONG" if tally.failures else "nothing lost, nothing doubled")
    return "\n".join(lines)


def _tell(tally: Tally) -> None:
    print(f"{tally.faults:,} faults, {len(tally.failures)} failures", file=sys.stderr, flush=True)
