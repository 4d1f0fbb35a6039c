"""`headrace run`: runs a workload, shows how it goes on, and says whether its answer is right.

Arguments only. The options of a workload follow from its settings, so they are read in two steps:
first which workload, then the rest.
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from headrace.errors import OptionError
from headrace.lab.catalog import CATALOG, Catalog
from headrace.lab.endpoints.names import DrainKind, SourceKind, read_drain, read_source
from headrace.lab.parameters import Whole, parameters_of, read_settings
from headrace.lab.progress import size, watching
from headrace.lab.systems.choose import SYSTEMS, choose
from headrace.lab.systems.system import Request
from headrace.lab.workload import Mode, Workload

_EXAMPLES = """\
examples:
  headrace run nexmark q5 --events 1M --streaming
  headrace run nexmark q5 --events 1M --rate 50K --streaming --output rows.jsonl
  headrace run nexmark q5 --events 200K --streaming --system spark
  headrace run hibench wordcount --streaming --shards 4 --drain meter
  headrace run nexmark q1 --source file:events.jsonl --drain console --no-check

`headrace list` shows the suites and their workloads, `headrace run SUITE NAME --help` all options
of one. The answer is compared with that of an independent oracle; a wrong one is exit status 1.
"""

#: What the general options are called in the settings of suites.
_EVENTS = ("events", "num_events")
_RATES = (("rate",), ("first_event_rate", "next_event_rate"))


def add_to(commands: Any) -> None:
    """Add the sub-command to a parser's sub-commands."""
    sub = commands.add_parser(
        "run",
        help="run a workload and check its answer",
        description="Run a workload on a system and check its answer.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    sub.add_argument("suite", metavar="SUITE", help=f"one of {', '.join(CATALOG.suites)}")
    sub.add_argument("name", metavar="NAME", help="a workload of the suite, such as q5")
    sub.add_argument(
        "options", metavar="OPTIONS", nargs=argparse.REMAINDER,
        help="see `headrace run SUITE NAME --help`",
    )
    sub.set_defaults(run=run)


def run(arguments: argparse.Namespace, catalog: Catalog | None = None) -> int:
    """Run the workload; status 1 if its answer is wrong."""
    workload = (catalog or CATALOG).workload(arguments.suite, arguments.name)
    known = options_of(workload).parse_args(arguments.options)
    settings: Any = read_settings(workload.settings, _texts(workload, known))
    system = choose(known.system, master=known.master)
    with _folder(known.checkpoint) as folder:
        request = Request(
            workload=workload, settings=settings, folder=folder,
            mode=Mode.STREAMING if known.streaming else Mode.BATCH,
            source=read_source(known.source), drain=read_drain(known.drain),
            shards=known.shards, readers=known.readers, pace=known.rate is not None,
        )
        look = partial(
            watching, workload.full_name, request.generator, request.pace, known.progress
        )
        try:
            return _run(dataclasses.replace(request, watch=look), system, known)
        finally:
            system.stop()


def _run(request: Request, system: Any, known: argparse.Namespace) -> int:
    from headrace.lab.run import run_workload

    report = run_workload(
        request, system, check=known.check, output=known.output, style=known.progress
    )
    outcome = report.outcome
    print(f"{request.workload.full_name}: {request.workload.title}")
    print(f"  ran on    {outcome.engine}, {outcome.mode.value}")
    rate = outcome.events_per_second
    what = f"{outcome.events:,} events"
    what += ", some of them in an earlier run" if rate is None else f": {rate:,.0f} events/s"
    print(f"  took      {outcome.seconds:.2f} s for {what}")
    print(f"  gave      {'rows' if report.row_count is None else f'{report.row_count:,} rows'}")
    if outcome.checkpoint_bytes is not None:
        print(f"  kept      {size(outcome.checkpoint_bytes)} of checkpoint")
    for note in outcome.notes:
        print(f"  {note}")
    print("\n".join(report.lines()))
    return 0 if report.right else 1


@contextmanager
def _folder(checkpoint: str) -> Iterator[Path]:
    """The folder that was asked for, or one that ends with the run."""
    if checkpoint:
        yield Path(checkpoint)
        return
    with tempfile.TemporaryDirectory(prefix="headrace-run-", ignore_cleanup_errors=True) as made:
        yield Path(made)


def options_of(workload: Workload) -> argparse.ArgumentParser:
    """The parser of everything that stands behind the workload's name."""
    top = argparse.ArgumentParser(
        prog=f"headrace run {workload.full_name}", description=workload.title, epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
    )
    _add_general(top, workload)
    group = top.add_argument_group(f"settings of {workload.suite}")
    general = {*_EVENTS, "rate"}
    for parameter in parameters_of(workload.settings):
        if parameter.name in general:
            continue
        told = f"{parameter.effect} {_sentence(parameter.domain.tell())}"
        bare: dict[str, Any] = {}
        if isinstance(parameter.default, bool):
            bare = {"nargs": "?", "const": "true"}
        group.add_argument(
            f"--{parameter.name}", metavar="VALUE", default=None,
            help=f"{told} Default: {parameter.default}.".replace("%", "%%"), **bare,
        )
    return top


def _add_general(top: argparse.ArgumentParser, workload: Workload) -> None:
    names = [parameter.name for parameter in parameters_of(workload.settings)]
    aliases = [f"--{name}" for name in _EVENTS if name in names and name != "events"]
    add = top.add_argument
    add("--events", *aliases, dest="events", metavar="N", help="how many events, as in 1M")
    add("--rate", metavar="N", help="events per second of event time, and of the clock: events "
        "arrive when they are due. Default: the suite's event times, as fast as possible")
    add("--streaming", action="store_true", help="run as a stream; default: in batch")
    add("--system", choices=SYSTEMS, default="headrace", help="what runs it; default: headrace")
    add("--source", default="generator", metavar="NAME[:PATH]",
        help=f"where events come from: {_names(SourceKind)}; default: generator")
    add("--drain", default="file", metavar="NAME[:PATH]",
        help=f"where rows go: {_names(DrainKind)}; default: file")
    add("--output", default="", metavar="FILE", help="write the rows to a file, as JSON lines")
    add("--shards", type=_positive, help="tasks side by side; default: the session's cores")
    add("--readers", type=_positive, default=4,
        help="readers that share the generator's events; default: 4")
    add("--master", help="where Spark runs, as in local[2]; default: all cores here")
    add("--checkpoint", default="", metavar="DIR", help="keep state, rows and log in a folder, and "
        "go on with what an interrupted run left there; default: a folder that ends with the run")
    add("--no-check", dest="check", action="store_false", help="do not ask the oracle")
    add("--progress", choices=["auto", "live", "plain", "off"], default="auto",
        help="how progress is shown; default: auto")


def _names(kinds: Any) -> str:
    return ", ".join(kind.value for kind in kinds)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _positive(text: str) -> int:
    try:
        value = Whole(1).read(text)
    except ValueError:
        value = 0
    if value < 1:
        msg = f"{text} is not a whole number of 1 or more"
        raise argparse.ArgumentTypeError(msg)
    return value


def _texts(workload: Workload, known: argparse.Namespace) -> dict[str, str]:
    """The settings that were given, under the names that the suite has for them."""
    names = [parameter.name for parameter in parameters_of(workload.settings)]
    texts = {
        name: value for name in names
        if name not in (*_EVENTS, "rate") and (value := getattr(known, name, None)) is not None
    }
    if known.events is not None:
        if known.events.strip() == "0":
            msg = "--events 0 would never end: a whole number from 1 up (50K and 1M are understood)"
            raise OptionError(msg)
        texts[next(name for name in _EVENTS if name in names)] = known.events
    if known.rate is not None:
        for rates in _RATES:
            texts.update(dict.fromkeys((name for name in rates if name in names), known.rate))
    return texts
