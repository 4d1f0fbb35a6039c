"""`headrace lab`: makes experiments by name or by a spec, compares runs, writes a report.

Arguments and printing only; what is measured, and how, the lab knows.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.engine.leftovers import remove_own_folders
from headrace.engine.signals import EndRequestedError, say_end
from headrace.errors import OptionError
from headrace.lab.by_name import spec_text
from headrace.lab.doors import BY_SPEC, door_of, listing
from headrace.lab.installing import INSTALLED, install
from headrace.lab.laboratory import run_spec
from headrace.lab.report.choosing import SLOTS, filled
from headrace.lab.report.page import write_page
from headrace.lab.results.compare import compare
from headrace.lab.results.dated import read_dated
from headrace.lab.results.folder import RunFolder
from headrace.lab.results.summary import Figure, Summary
from headrace.lab.spec import only, read_spec
from headrace.quiet import quietly
from headrace.terminal.display import showing
from headrace.terminal.view import View, duration

#: The status of a run with a figure that does not count.
VOID = 2

_EXAMPLES = """\
Experiments have names and options of their own:

  headrace lab list                            name them, a line each
  headrace lab run table nexmark:q5            one workload on three systems, side by side
  headrace lab run faults campaign --help      what this one can be told

Those that measure any system from outside are described by a spec. A run of a spec leaves a folder
of its own, which nothing overwrites:

  headrace lab run my.toml                     measure; prints figures and the folder
  headrace lab report results/lab/*-my         one page of HTML that opens without a network
  headrace lab fill results/lab/RUN PAGE.md    its figures as tables in a page of Markdown
  headrace lab compare OLD_RUN NEW_RUN         what changed, and whether chance could do it
  headrace lab install pyflink                 a peer that does not come with headrace

A spec of two systems, their highest sustainable rate and their latency at 80 % of it:

  name = "my"
  [systems.headrace]
  [systems.spark]
  [sustainable]
  first_rate = 5000
  [latency]
  share = 0.8
  seconds = 60
  repeats = 3

Events are sent by processes beside the system, on a schedule, whether or not it keeps up. A latency
counts from the time at which an event was to be sent. Every answer is checked: one row lost or
doubled, or a sender that was late itself, and the figure is void. Ends with 0 when all figures
count, 2 when one is void. `headrace lab run --help` lists all that a spec can say.
"""
_SPEC = """\
tables of a spec, with their defaults:

  questions = ["count"]   what every system is asked, at the top of the file: of filter, count,
                   sliding and state, and of workloads such as nexmark:q5, some or all
  [systems.NAME]   kind = headrace, spark, direct, pyflink, pyflink-thread, flink-sql, beam-flink
                   or fake; NAME if it is not said. `headrace lab install pyflink` brings the
                   three on PyFlink, `headrace lab install beam-flink` Beam's Flink runner.
                   fake: capacity, delay_seconds, epoch_seconds, drop_every and more
                   others: cores = 2, partitions = 1, keys = 100, window_ms = 1000, panes = 4,
                   one_in = 100, every = 100, warm_seconds = 10 at a tenth of the rate, before
                   the load; shards = 0 (as many as cores), per_batch = 1000000, trigger_ms = 0,
                   bundle_ms = 100, bundle_events = 1000; who_asks = "spark", or "headrace"
                   costs = [["Parse", 40], ...]: more steps of the filter, and the microseconds
                   that each takes for an event: waits, or computes with spins = true
                   candidates = [{...}, ...]: settings that [tuning] chooses from
                   first_rate = 0: where searches of this one begin; 0: where all do;
                   {count = 50000}: about where that of a question ends, without a ramp
  [tuning]         p99_seconds = 2, first_rate = 1000, precision = 0.25, probe_seconds = 10
  [sustainable]    first_rate = 1000, precision = 0.05, probe_seconds = 20,
                   confirm_seconds = 60, acceptable_seconds = 1, limit_seconds = 5,
                   drain_seconds = 5, p99_seconds = 0 (no bound), ramp = false, repeats = 1,
                   loops_per_second = 0: of the machine that first rates are from; on another
                   one they are taken as much higher as that is faster; 0: as they are
  [latency]        share = 0.8 of the sustainable rate (or rate), seconds = 60, repeats = 3,
                   shares = []: once more at each, for latency against rate;
                   shares_questions = [] (all that latency is about)
  [spike]          share = 0.3 (or rate), times = 10, calm_seconds = 30, spike_seconds = 2
  [congestion]     share = 1 (or rate) is what it sustains: times = 1.5 of that for over_seconds =
                   20, below = 0.5 of it for calm_seconds = 20 before, after_seconds = 60 after
  [fault]          kind = "kill-worker", or kill-driver, which is started again on its checkpoint
                   (headrace, spark), or slow-disk, the checkpoint's, for lasts_seconds = 10
                   (headrace); share = 0.5 (or rate), seconds = 60, at_seconds = 20
  [scaling]        cores = [1, 2], shards = []: the first is measured, each further one of cores
                   foretold from what an event took of processors there, then measured
  [growth]         share = 0.5 (or rate), seconds = 120
  [sweep]          trigger_ms = [0, 100], per_batch, bundle_ms, bundle_events, shards: a run for
                   each value; share = 0.5 (or rate), seconds = 30
  [causal]         steps = [] by their names, times = 2: what the rate would be were a step so
                   many times as fast, of headrace and fake; a rerun where its cost is set
  latency, spike, congestion, fault, scaling, growth, sweep and causal: questions = [] (all)

To try it without Spark, in a second:

  printf '[systems.fake]\\ncapacity = 5000\\n[sustainable]\\n[latency]\\n' > try.toml
  headrace lab run try.toml
"""


def add_to(commands: Any) -> None:
    """Add the sub-command to a parser's sub-commands."""
    sub = commands.add_parser(
        "lab", help="measure systems from outside, compare runs, write a report",
        description="Measure systems from outside.", epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = sub.add_subparsers(dest="verb", metavar="VERB", required=True)
    run_it = verbs.add_parser(
        "run", help="make an experiment by its name, or what a spec says", parents=[_of_spec()],
        epilog="\n".join(["experiments " + listing()[0], *listing()[1:], "", _SPEC]),
        description="Make an experiment, or what a spec says.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run_it.add_argument("what", metavar="NAME|SPEC.toml", help="an experiment, or a file")
    run_it.add_argument(
        "options", metavar="...", nargs=argparse.REMAINDER, help="the experiment's own options"
    )
    run_it.set_defaults(run=run)
    names = verbs.add_parser(
        "list", help="name the experiments", description="Name the experiments, a line each."
    )
    names.set_defaults(run=show_names)
    new = verbs.add_parser(
        "install", help="bring a system that does not come with headrace",
        description="Bring a system that does not come with headrace, in the user's cache folder: "
        "PyFlink in an environment of its own, by pip; the job servers of Beam's portable runners "
        "as jars, by Maven (mvn), each held against its SHA-256. What is there already stays.",
    )
    new.add_argument("system", metavar="SYSTEM", choices=INSTALLED, help=", ".join(INSTALLED))
    new.set_defaults(run=install_system)
    both = verbs.add_parser(
        "compare", help="say how two runs differ",
        description="Say how the figures of two runs differ, and whether chance could do it.",
    )
    both.add_argument("first", metavar="A", type=Path, help="the folder of a run, or a file")
    both.add_argument("second", metavar="B", type=Path, help="another one")
    both.set_defaults(run=compare_runs)
    page = verbs.add_parser(
        "report", help="write a page about runs",
        description="Write one page of HTML about runs: it opens without a network, in light and "
        "dark, and carries its samples.",
    )
    page.add_argument("runs", metavar="RUN", type=Path, nargs="+", help="the folder of a run")
    page.add_argument(
        "--output", metavar="FILE", type=Path, default=None,
        help="the page; must not exist yet. Default: report.html in the last run's folder",
    )
    page.set_defaults(run=report)
    words = verbs.add_parser(
        "fill", help="write a run's figures into a page of Markdown",
        description="Write the figures of a run into a page of Markdown, between <!-- lab: NAME "
        f"--> and <!-- lab: end -->. Names: {', '.join(SLOTS)}. What stands there is replaced.",
    )
    words.add_argument("run_folder", metavar="RUN", type=Path, help="the folder of a run")
    words.add_argument("page", metavar="PAGE.md", type=Path, help="the page")
    words.set_defaults(run=fill)


def _of_spec() -> argparse.ArgumentParser:
    """The options of a run by a spec, which may stand before the file and after it."""
    made = argparse.ArgumentParser(add_help=False)
    made.add_argument(
        "--results", metavar="DIR", type=Path, default=Path("results/lab"),
        help="of a spec: where the run's folder is made; default: results/lab",
    )
    made.add_argument(
        "--only", metavar="QUESTION", action="append", default=None,
        help="of a spec: ask this one of its questions alone; may be given again",
    )
    made.add_argument(
        "--progress", choices=["auto", "rich", "plain", "off"], default="auto",
        help="of a spec: how progress is shown; default: rich in a terminal, plain lines elsewhere",
    )
    return made


def show_names(arguments: argparse.Namespace) -> int:
    """Name the experiments."""
    del arguments
    print("\n".join(listing()))
    return 0


def run(arguments: argparse.Namespace) -> int:
    """Make an experiment."""
    door = door_of(arguments.what)
    if door is not None:
        with quietly():  # Beam, which most of them load
            experiment = door.open()
        try:
            return experiment(arguments.options)
        except (KeyboardInterrupt, EndRequestedError) as ended:
            say_end(ended, _kept(arguments.options), remove_own_folders)
            raise
    after = argparse.ArgumentParser(
        prog=f"headrace lab run {arguments.what}", parents=[_of_spec()]
    )
    if arguments.what not in BY_SPEC:
        given = after.parse_args(arguments.options, arguments)
        return run_text(_read(Path(arguments.what)), given)
    after.description = f"Measure {BY_SPEC[arguments.what]}."
    after.add_argument(
        "--system", action="append", required=True, metavar="NAME[,SETTING=VALUE...]",
        help="a system, as a spec names it, with its settings; may be given again",
    )
    after.add_argument(
        "--set", action="append", default=[], metavar="SETTING=VALUE",
        help="a setting of the experiment, as a spec has it; without a rate, one is searched",
    )
    given = after.parse_args(arguments.options, arguments)
    return run_text(spec_text(given.what, given.system, given.set), given)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror or error}"
        if path.suffix != ".toml":
            msg = f"there is no experiment {path} and no such file; `headrace lab list` names them"
        raise OptionError(msg) from error


def _kept(options: Sequence[str]) -> str:
    """Say what is left of an experiment that was ended, from the options that it was given.

    >>> _kept(["nexmark:q5", "--keep", "cells.jsonl"])
    'stopped; what was measured is in cells.jsonl, the same command goes on'
    """
    for option in ("--keep-going", "--keep"):
        for at, word in enumerate(options):
            name, _, file = word.partition("=")
            if name == option and (file or at + 1 < len(options)):
                return (
                    f"stopped; what was measured is in {file or options[at + 1]}, "
                    "the same command goes on"
                )
    return "stopped; nothing is kept"


def run_text(text: str, arguments: argparse.Namespace) -> int:
    """Measure what a spec says."""
    spec = read_spec(text)
    if arguments.only:
        spec = only(spec, arguments.only)
    said = Said(f"headrace: lab {spec.name}")
    with showing(said.look, arguments.progress):
        with quietly():  # Beam, when a system loads it
            folder = run_spec(spec, arguments.results, said.say)
    summary = folder.summary()
    print("\n".join(lines_of(summary)))
    print(f"kept in {folder.path}; headrace lab report {folder.path} makes a page of it")
    return VOID if summary.voids else 0


def install_system(arguments: argparse.Namespace) -> int:
    """Bring a system."""
    said = Said(f"headrace: lab install {arguments.system}")
    with showing(said.look):
        folder = install(arguments.system, said.say)
    print(f"{arguments.system} is in {folder}")
    return 0


class Said:
    """What was done last, for a display."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._last = "starting"
        self._count = 0

    def say(self, text: str) -> None:
        """Take a line."""
        self._last, self._count = text.strip(), self._count + 1

    def look(self, seconds: float) -> View:
        """Give it as a view."""
        return View(
            title=self._title, parts=(self._last, f"step {self._count}", duration(seconds))
        )


def lines_of(summary: Summary) -> list[str]:
    """Say the figures of a run, a line each, what is void first."""
    lines = [f"VOID {_name(figure)}: {figure.void}" for figure in summary.voids]
    lines += [
        f"absent {system.name}: {system.absent}" for system in summary.systems if system.absent
    ]
    for figure in summary.figures:
        if figure.value is not None:
            high = "more" if figure.high is None else f"{figure.high:,.4g}"
            between = f" [{figure.low:,.4g}, {high}]"
            lines.append(f"{_name(figure)}: {figure.value:,.5g}{between} {figure.unit}")
    return lines


def _name(figure: Figure) -> str:
    return " ".join(filter(None, figure.key))


def compare_runs(arguments: argparse.Namespace) -> int:
    """Compare two runs."""
    first, second = (_opened(path) for path in (arguments.first, arguments.second))
    print("\n".join(compare(first, second)))
    return 0


def _opened(path: Path) -> Summary:
    """The figures of a run: of its folder, or of a dated file of results."""
    return read_dated(path) if path.is_file() else RunFolder.open(path).summary()


def report(arguments: argparse.Namespace) -> int:
    """Write the page."""
    folders = [RunFolder.open(path) for path in arguments.runs]
    target = arguments.output or folders[-1].path / "report.html"
    start = time.monotonic()
    look = View(title="headrace: lab report", parts=(f"{len(folders)} runs",))
    with showing(lambda _seconds: look):
        write_page(folders, target)
    print(f"{target}, {target.stat().st_size / 1e6:.1f} MB, {time.monotonic() - start:.1f} s")
    return 0


def fill(arguments: argparse.Namespace) -> int:
    """Write a run's figures into a page."""
    run_folder = RunFolder.open(arguments.run_folder)
    text = filled(_read(arguments.page), run_folder, arguments.run_folder.as_posix())
    arguments.page.write_text(text, encoding="utf-8")
    print(f"{arguments.page} has the figures of {arguments.run_folder}")
    return 0
