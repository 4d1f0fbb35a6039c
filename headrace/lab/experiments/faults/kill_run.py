"""The experiment `kills`: one run left in peace, one that is killed again and again, the verdict.

Ends with 0 when both runs wrote exactly the right rows, with 1 otherwise.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from headrace.lab.commands import number
from headrace.lab.experiments.faults.data import InputSpec, write_input
from headrace.lab.experiments.faults.kills import plan
from headrace.lab.experiments.faults.oracle import differences, right_answer
from headrace.lab.experiments.faults.processes import Home
from headrace.lab.experiments.faults.reading import written
from headrace.lab.experiments.faults.torture import KilledRun, RunError, run


def parser() -> argparse.ArgumentParser:
    """Describe the arguments."""
    made = argparse.ArgumentParser(
        prog="headrace lab run kills",
        description="Kill a streaming run and compare what it wrote.",
    )
    made.add_argument("--elements", type=number, default=2_000_000, metavar="N",
                      help="events, as 40K or 2M. Default: 2M")
    made.add_argument("--kills", type=number, default=30, metavar="N",
                      help="how often something is killed. Default: 30")
    made.add_argument("--seed", type=int, default=1, metavar="N",
                      help="of the input and of the kills. Default: 1")
    made.add_argument("--files", type=number, default=40, metavar="N",
                      help="files of events; each is an epoch. Default: 40")
    made.add_argument("--rate-files", type=number, default=24, metavar="N",
                      help="files of the side input; each is an epoch. Default: 24")
    made.add_argument("--folder", type=Path, default=None, metavar="FOLDER",
                      help="where to work; kept. Default: a temporary one, kept on a difference")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks."""
    args = parser().parse_args(arguments)
    folder = args.folder or Path(tempfile.mkdtemp(prefix="headrace-chaos-"))
    spec = InputSpec(
        elements=args.elements, files=args.files, rate_files=args.rate_files, seed=args.seed
    )
    source = folder / "input"
    _say(f"{spec.elements:,} events, {spec.keys:,} keys, seed {spec.seed}; in {folder}")
    write_input(source, spec)
    wanted = right_answer(source)
    good = True
    try:
        peaceful, chaotic = (Home(source=source, folder=folder / n) for n in ("peace", "chaos"))
        calm = run(peaceful, (), args.seed, _say)
        _say(f"in peace: {calm.epochs} epochs, {calm.seconds:.0f} s")
        kills = plan(args.kills, calm.epochs, calm.seconds / max(1, calm.epochs), args.seed)
        rough = run(chaotic, kills, args.seed, _say)
        _say(_told(rough))
        reference, found = written(peaceful.output), written(chaotic.output)
        for name, one, other in (
            ("in peace against the oracle", reference, wanted),
            ("killed against the oracle", found, wanted),
            ("killed against in peace", found, reference),
        ):
            wrong = differences(one, other)
            good = good and not wrong
            rows = sum(rows.total() for rows in other.values())
            _say(f"{name}: {'DIFFERENT' if wrong else f'the same {rows:,} rows'}")
            for line in wrong:
                _say(f"  {line}")
        done = sum(rough.kills.values())
        if done < args.kills:
            _say(f"only {done} of {args.kills} kills hit")
            good = good and done > args.kills // 2  # else little was shown
    except (RunError, TimeoutError) as failure:
        _say(str(failure))
        good = False
    if good and args.folder is None:
        shutil.rmtree(folder, ignore_errors=True)
    _say("verdict: nothing lost, nothing doubled" if good else f"verdict: WRONG; see {folder}")
    return 0 if good else 1


def _told(outcome: KilledRun) -> str:
    lines = [
        f"killed: {outcome.epochs} epochs, {outcome.seconds:.0f} s, {outcome.starts} starts, "
        f"{outcome.wiped} with wiped stores, {outcome.moved} with another number of shards"
    ]
    ordered = sorted(outcome.kills.items(), key=lambda item: (item[0][0].value, item[0][1].value))
    lines += [f"  {count:3} {kind.value:8} {phase.value}" for (kind, phase), count in ordered]
    return "\n".join(lines)


def _say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)
