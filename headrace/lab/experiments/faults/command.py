"""The command line. `headrace lab run faults COMMAND --help` says more.

Ends with 0 when every run wrote exactly the right rows, with 1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from headrace.lab.commands import get_ready, number, takes_save, today
from headrace.lab.ending import Ending
from headrace.lab.experiments.faults.campaign import WORDS, Asked, Campaign, run_round, variant_of
from headrace.lab.experiments.faults.faults import plan_round
from headrace.lab.experiments.faults.page import page, summary
from headrace.lab.experiments.faults.rounds import STOP, StoppedError
from headrace.lab.experiments.faults.variants import VARIANTS
from headrace.lab.results.dated import envelope, save

KAFKA_FORMAT = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks."""
    args = parser().parse_args(arguments)
    done: int = args.does(args)
    return done


def parser() -> argparse.ArgumentParser:
    """Describe the arguments."""
    made = argparse.ArgumentParser(
        prog="headrace lab run faults",
        description="Torture streaming runs and compare what they wrote.",
    )
    commands = made.add_subparsers(metavar="COMMAND", required=True)
    long = commands.add_parser("campaign", help="rounds of faults, seed after seed")
    long.set_defaults(does=_campaign)
    long.add_argument("--faults", type=number, default=1_000, metavar="N",
                      help="how many faults in all. Default: 1,000")
    long.add_argument("--jobs", type=int, default=2, metavar="N",
                      help="rounds at the same time. Default: 2")
    long.add_argument("--minutes", type=float, default=None, metavar="M",
                      help="begin no round after so long. Default: no limit")
    long.add_argument("--keep", type=Path, default=None, metavar="FOLDER",
                      help="where to work; folders of wrong rounds stay. Default: for temporary "
                      "files")
    long.add_argument("--keep-going", type=Path, default=None, metavar="FILE",
                      help="one line of JSON per round is added here; rounds that stand there are "
                      "not run again")
    long.add_argument("--save", type=Path, default=None, metavar="FILE",
                      help="write the totals there, as JSON")
    long.add_argument("--page", type=Path, default=None, metavar="FILE",
                      help="write the totals there, as a page for the docs")
    one = commands.add_parser("round", help="one round again")
    one.set_defaults(does=_round)
    one.add_argument("--variant", choices=sorted(VARIANTS), default=None,
                     help="kind of pipeline. Default: that of the seed")
    one.add_argument("--folder", type=Path, default=None, metavar="FOLDER",
                     help="where to work; kept. Default: a temporary one, kept if wrong")
    one.add_argument("--plan", action="store_true", help="tell what would be done, and do nothing")
    for command in (long, one):
        command.add_argument("--seed", type=int, default=1, metavar="N",
                             help="of inputs and faults; the first one of a campaign. Default: 1")
        command.add_argument("--elements", type=number, default=Asked().elements, metavar="N")
        command.add_argument("--files", type=number, default=Asked().files, metavar="N")
        command.add_argument("--rate-files", type=number, default=Asked().rate_files, metavar="N")
    long.add_argument("--round-faults", dest="planned", type=number, default=Asked().faults,
                      metavar="N", help="planned for each round")
    one.add_argument("--faults", dest="planned", type=number, default=Asked().faults, metavar="N",
                     help="planned")
    shown = commands.add_parser("page", help="lay saved totals out as a page")
    shown.set_defaults(does=_page)
    shown.add_argument("saved", type=Path, metavar="JSON")
    shown.add_argument("page", type=Path, metavar="PAGE")
    shown.add_argument("--remark", default=None, metavar="TEXT",
                       help="a paragraph for the page; kept in the totals. Default: what is there")
    topics = commands.add_parser(
        "kafka", help="Kafka to Kafka, with kills of driver, worker and broker",
        description="Join two topics of a broker of this machine into a third, kill driver, "
        "workers and broker meanwhile, and hold the third against a plain loop.",
    )
    topics.set_defaults(does=_kafka)
    topics.add_argument("--kills", type=number, default=50, metavar="N", help="Default: 50")
    topics.add_argument("--seed", type=int, default=1, metavar="N",
                        help="of who is killed when. Default: 1")
    topics.add_argument("--messages", type=number, default=100_000, metavar="N",
                        help="of each of the two topics. Default: 100K")
    topics.add_argument("--pause", type=float, default=20.0, metavar="S",
                        help="seconds between two kills, at most. Default: 20")
    takes_save(topics, "kafka-faults")
    return made


def _asked(args: argparse.Namespace) -> Asked:
    return Asked(
        elements=args.elements, files=args.files, rate_files=args.rate_files, faults=args.planned
    )


def _campaign(args: argparse.Namespace) -> int:
    if args.keep is not None:
        args.keep.mkdir(parents=True, exist_ok=True)
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        _say("not root: no disk can be filled, those faults are left out")
    campaign = Campaign(
        faults=args.faults, first_seed=args.seed, asked=_asked(args), jobs=args.jobs,
        minutes=args.minutes, keep=args.keep, log=args.keep_going, say=_say,
    )
    with _stoppable():
        results = campaign.run()
    told = summary(results, str(today()), _machine())
    if args.save is not None:
        args.save.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    if args.page is not None:
        args.page.write_text(page(told), encoding="utf-8")
    wrong = [result for result in results if result.verdict is not Ending.RIGHT]
    _say(
        f"{told['faults']} faults in {len(results)} rounds, {told['starts']} starts, "
        f"{told['epochs']} epochs"
    )
    for result in wrong:
        _say(f"{WORDS[result.verdict]}: {result.command}")
    if STOP.is_set():
        _say("stopped; the same command goes on" if args.keep_going else "stopped")
    elif told["faults"] < args.faults:
        _say(f"only {told['faults']} of {args.faults} faults took effect")
    enough = told["faults"] >= args.faults or args.minutes is not None
    if wrong or not results:
        _say("verdict: WRONG")
    else:
        _say(f"verdict: nothing lost, nothing doubled{'' if enough else ' so far'}")
    return 0 if results and enough and not wrong else 1


def _round(args: argparse.Namespace) -> int:
    variant = VARIANTS[args.variant] if args.variant else variant_of(args.seed)
    if args.plan:
        for number_, life in enumerate(plan_round(args.seed, args.planned), 1):
            print(f"{number_}: {life}")
        return 0
    folder = args.folder or Path(tempfile.mkdtemp(prefix=f"headrace-chaos-{args.seed}-"))
    try:
        with _stoppable():
            result = run_round(args.seed, variant, _asked(args), folder)
    except StoppedError:
        _say("stopped")
        return 1
    _say(result.line())
    for kind, where, count in result.hits:
        _say(f"  {count:3} {kind}: {where}")
    for line in result.told:
        _say(f"  {line}")
    if result.verdict is Ending.RIGHT and args.folder is None:
        shutil.rmtree(folder, ignore_errors=True)
    elif result.verdict is not Ending.RIGHT:
        _say(f"  kept: {folder}; again: {result.command}")
    return 0 if result.verdict is Ending.RIGHT else 1


def _page(args: argparse.Namespace) -> int:
    told = json.loads(args.saved.read_text("utf-8"))
    if args.remark is not None:
        told["remark"] = args.remark
        args.saved.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    args.page.write_text(page(told), encoding="utf-8")
    return 0


def _kafka(args: argparse.Namespace) -> int:
    from headrace.lab.experiments.faults.kafka import campaign  # Beam and a client of Kafka's

    get_ready()
    found = campaign(args.kills, args.seed, args.messages, args.pause)
    if args.save:
        settings = {name: value for name, value in vars(args).items() if name != "does"}
        told = envelope(KAFKA_FORMAT, settings, today(), [asdict(found)], found.figures())
        _say(f"saved as {save(told, 'kafka-faults')}")
    for line in found.lines():
        _say(line)
    return 0 if found.ending is Ending.RIGHT else 1


@contextmanager
def _stoppable() -> Iterator[None]:
    """Let a signal end the rounds in order: drivers and disks must not be left behind."""
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(each, lambda *_: STOP.set()) for each in numbers]
    try:
        yield
    finally:
        for each, handler in zip(numbers, before, strict=True):
            signal.signal(each, handler)


def _machine() -> str:
    return f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}"


def _say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)
