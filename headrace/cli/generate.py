"""`headrace generate`: writes the events of a suite to files.

Arguments only. The options follow from the suite's settings, so they are read in two steps: first
which suite, then the rest. A suite is loaded when it is asked for, its pipelines not at all if its
package says what its events are.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from headrace.errors import OptionError
from headrace.lab.catalog import CATALOG
from headrace.lab.data.files import Format, log
from headrace.lab.parameters import Whole, parameters_of, read_settings
from headrace.terminal.display import showing
from headrace.terminal.view import View, duration

#: Suite -> package with `SETTINGS`, a dataclass of settings, and `generator`, which takes one.
#: In the others each workload has events of its own.
SUITES = {
    suite: f"headrace.lab.workloads.{suite}"
    for suite in ("nexmark", "yahoo", "hibench", "windowed")
}
_EXAMPLES = """\
examples:
  headrace generate nexmark --events 10M --format parquet --output events
  headrace generate nexmark --events 1M --format jsonl --output events.jsonl --processes 2
  headrace generate nexmark --out_of_order_group_size 10 --rate_shape SQUARE \\
      --first_event_rate 50K --next_event_rate 1K --format arrow --output events.arrow
  headrace generate kernels finance --events 100K --output trades

`headrace generate nexmark --help` shows every setting of a suite. The same settings always give
the same events, whatever the format and however many processes make them.
"""


class Events(NamedTuple):
    """What can be generated."""

    title: str
    settings: type
    generator: Callable[[Any], Any]


def add_to(commands: Any) -> None:
    """Add the sub-command to a parser's sub-commands."""
    sub = commands.add_parser(
        "generate",
        help="write the events of a suite to files",
        description="Write the events of a suite to files.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    sub.add_argument("suite", metavar="SUITE", help=f"one of {', '.join(CATALOG.suites)}")
    sub.add_argument(
        "options", metavar="OPTIONS", nargs=argparse.REMAINDER,
        help="see `headrace generate SUITE --help`",
    )
    sub.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the events that were asked for."""
    found, options = _find(arguments.suite, list(arguments.options))
    known = options_of(found).parse_args(options)
    names = [parameter.name for parameter in parameters_of(found.settings)]
    texts = {name: value for name in names if (value := getattr(known, name)) is not None}
    generator = found.generator(read_settings(found.settings, texts))
    start = time.monotonic()
    written = Written(found.title, generator.events)
    with showing(written.look, known.progress):
        target = log(
            generator, known.output, Format(known.format), known.processes, progress=written.wrote
        )
    seconds = time.monotonic() - start
    print(
        f"{generator.events:,} events, {_bytes_of(target) / 1e6:,.1f} MB, in {target} "
        f"after {seconds:.1f} s: {generator.events / seconds:,.0f} events/s"
    )
    return 0


class Written:
    """How many events are written by now."""

    def __init__(self, title: str, total: int) -> None:
        self._title = title
        self._total = total
        self._count = 0

    def wrote(self, count: int) -> None:
        """Take the number."""
        self._count = count

    def look(self, seconds: float) -> View:
        """Say it, for a display."""
        events = f"{self._count:,} of {self._total:,} events"
        return View(title=f"headrace: {self._title}", parts=(events, duration(seconds)))


def _find(suite: str, options: list[str]) -> tuple[Events, list[str]]:
    """Find the events that are meant; give the options that are left.

    Raises:
        OptionError: there are none of that name.
    """
    package = SUITES.get(suite)
    if package is not None:
        module = import_module(package)
        return Events(suite, module.SETTINGS, module.generator), options
    if not options or options[0].startswith("-"):
        names = ", ".join(workload.name for workload in CATALOG.of_suite(suite))
        msg = f"each workload of {suite} has its own events: name one of {names} after {suite}"
        raise OptionError(msg)
    workload = CATALOG.workload(suite, options[0])
    return Events(workload.full_name, workload.settings, workload.generator), options[1:]


def options_of(events: Events) -> argparse.ArgumentParser:
    """The parser of everything that stands behind the suite's name."""
    top = argparse.ArgumentParser(
        prog=f"headrace generate {events.title}", usage="%(prog)s --output PATH [OPTIONS]",
        description=f"Write the events of {events.title} to files.", epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
    )
    formats = [each.value for each in Format]
    add = top.add_argument
    add("--output", required=True, metavar="PATH", type=Path,
        help="what to write: a folder for parquet, a file for jsonl and arrow; must not exist yet")
    add("--format", choices=formats, default="parquet", help="default: parquet")
    add("--processes", type=_positive, default=1, metavar="N",
        help="processes that make events; default: 1")
    add("--progress", choices=["auto", "rich", "plain", "off"], default="auto",
        help="how progress is shown; default: rich in a terminal, plain lines elsewhere")
    group = top.add_argument_group("settings")
    for parameter in parameters_of(events.settings):
        aliases = ["--events"] if parameter.name == "num_events" else []
        text = f"{parameter.effect} Value: {parameter.domain.tell()}; default: {parameter.default}."
        is_flag = isinstance(parameter.default, bool)
        bare: dict[str, Any] = {"nargs": "?", "const": "true"} if is_flag else {}
        group.add_argument(
            *aliases, f"--{parameter.name}", dest=parameter.name, metavar="VALUE",
            help=text.replace("%", "%%"), **bare,
        )
    return top


def _positive(text: str) -> int:
    domain = Whole(1, 1_000)
    try:
        value = domain.read(text)
    except ValueError:
        value = 0
    if not domain.holds(value):
        msg = f"{text} is not {domain.tell()}"
        raise argparse.ArgumentTypeError(msg)
    return value


def _bytes_of(target: Path) -> int:
    paths = target.iterdir() if target.is_dir() else [target]
    return sum(path.stat().st_size for path in paths)
