"""`headrace run`: runs a pipeline of the user's, or a workload, whose answer it checks.

Arguments only. What ends in `.py`, or is the name of a file that is there, is a file; all else is
the name of a suite. The options of a workload follow from its settings, so they are read in two
steps: first which workload, then the rest.
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

from headrace.engine.leftovers import remove_own_folders
from headrace.engine.signals import EndRequestedError, end_on_request, said_of, say_end
from headrace.errors import OptionError
from headrace.lab.catalog import CATALOG, Catalog
from headrace.lab.endpoints.names import SinkKind, SourceKind, read_sink, read_source
from headrace.lab.parameters import Whole, parameters_of, read_settings
from headrace.lab.progress import watching
from headrace.lab.systems.choose import SYSTEMS, choose
from headrace.lab.systems.system import Request
from headrace.lab.workload import Mode, Workload
from headrace.quiet import quietly
from headrace.terminal.view import size

_EXAMPLES = """\
examples:
  headrace run my_pipeline.py --shards 4 --input data.csv
  headrace run nexmark q5 --events 1M --streaming
  headrace run nexmark q5 --events 1M --rate 50K --streaming --output rows.jsonl
  headrace run nexmark q5 --events 200K --streaming --system spark
  headrace run hibench wordcount --streaming --shards 4 --sink meter
  headrace run nexmark q1 --source file:events.jsonl --sink console --no-check

What ends in .py, or is the name of a file, is loaded as `python FILE` would load it, with the
options behind it; its pipelines run on headrace unless they name another runner. All else is a
suite: `headrace list` shows the suites and their workloads, `headrace run SUITE NAME --help` all
options of one. The answer of a workload is compared with that of an independent oracle; a wrong one
is exit status 1.
"""

#: What the general options are called in the settings of suites.
_EVENTS = ("events", "num_events")
_RATES = (("rate",), ("first_event_rate", "next_event_rate"))


def add_to(commands: Any) -> None:
    """Add the sub-command to a parser's sub-commands."""
    sub = commands.add_parser(
        "run",
        help="run a pipeline of yours, or a workload",
        description="Run a pipeline of yours on Spark, or a workload, and check its answer.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    sub.add_argument(
        "what", metavar="FILE | SUITE NAME",
        help=f"a Python file, or a suite ({', '.join(CATALOG.suites)}) and a workload of it",
    )
    sub.add_argument(
        "options", metavar="OPTIONS", nargs=argparse.REMAINDER,
        help="what the file, or the workload, is given",
    )
    sub.set_defaults(run=run)


def run(arguments: argparse.Namespace, catalog: Catalog | None = None) -> int:
    """Run the file or the workload; status 1 if the file fails or the answer is wrong."""
    if is_file(arguments.what):
        from headrace.cli.run_file import run_file

        return run_file(Path(arguments.what), [*arguments.options, *arguments.pipeline_args])
    suite, (name, *options) = arguments.what, arguments.options or [""]
    with quietly():  # it loads Beam
        workload = (catalog or CATALOG).workload(suite, name)
    known = options_of(workload).parse_args(options)
    settings: Any = read_settings(workload.settings, _texts(workload, known))
    system = choose(known.system, master=known.master)
    with _folder(known.checkpoint) as folder:
        request = Request(
            workload=workload, settings=settings, folder=folder,
            mode=Mode.STREAMING if known.streaming else Mode.BATCH,
            source=read_source(known.source), sink=read_sink(known.sink),
            shards=known.shards, readers=known.readers, pace=known.rate is not None,
        )
        look = partial(
            watching, workload.full_name, request.generator, request.pace, known.progress
        )
        try:
            with end_on_request():
                return _run(dataclasses.replace(request, watch=look), system, known)
        except (KeyboardInterrupt, EndRequestedError) as ended:
            say_end(ended, _kept(said_of(ended), known), remove_own_folders)
            raise
        finally:
            system.stop()


def _kept(said: str, known: argparse.Namespace) -> str:
    """Say what is left of a run that was ended, and how to go on."""
    stopped = said.partition(";")[0] or "stopped"
    if known.checkpoint and known.streaming:
        return f"{stopped}; the same command with --checkpoint {known.checkpoint} goes on"
    if known.streaming:
        return f"{stopped}; without --checkpoint nothing is kept"
    return f"{stopped}; a batch keeps no state, start it again"


def is_file(what: str) -> bool:
    """Whether a word means a Python file, there or not, and no suite."""
    return what.endswith(".py") or Path(what).is_file()


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
        text = f"{parameter.effect} {_sentence(parameter.domain.tell())}"
        bare: dict[str, Any] = {}
        if isinstance(parameter.default, bool):
            bare = {"nargs": "?", "const": "true"}
        group.add_argument(
            f"--{parameter.name}", metavar="VALUE", default=None,
            help=f"{text} Default: {parameter.default}.".replace("%", "%%"), **bare,
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
    add("--sink", default="file", metavar="NAME[:PATH]",
        help=f"where rows go: {_names(SinkKind)}; default: file")
    add("--drain", dest="sink", help=argparse.SUPPRESS)  # its older name
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
