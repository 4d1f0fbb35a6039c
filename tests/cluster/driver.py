"""A program as a user would write one: runs a pipeline at several places, prints what it wrote.

Run as a script of its own, because the test process has a local session and a process can have only
one. The functions are defined here, in `__main__`, so they reach the executors by value.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.coders import StrUtf8Coder, VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import fn_runner
from apache_beam.transforms import userstate, window
from pyspark.sql import SparkSession

import headrace

EVENTS = 60
WINDOW_SECONDS = 20
KEYS = ("a", "b", "c")
NAMES = {"a": "ant", "b": "bee", "c": "cat"}
FACTOR = 10
EXTRAS = (1, 2, 3)
#: Longer than any test waits for an error, so that only a kill can end it.
VICTIM_SECONDS = 240.0


class Ledger(beam.DoFn):  # type: ignore[misc]
    """Keeps a key's values in state and tells them, sorted, when the window is over."""

    VALUES = userstate.BagStateSpec("values", VarIntCoder())
    COUNT = userstate.CombiningValueStateSpec("count", combine_fn=sum)
    END = userstate.TimerSpec("end", userstate.TimeDomain.WATERMARK)

    def process(
        self,
        element: tuple[str, int],
        span: Any = beam.DoFn.WindowParam,
        values: Any = beam.DoFn.StateParam(VALUES),  # noqa: B008 (Beam's way)
        count: Any = beam.DoFn.StateParam(COUNT),  # noqa: B008 (Beam's way)
        end: Any = beam.DoFn.TimerParam(END),  # noqa: B008 (Beam's way)
    ) -> None:
        values.add(element[1])
        count.add(1)
        end.set(span.end)

    @userstate.on_timer(END)  # type: ignore[untyped-decorator]
    def tell(
        self,
        key: str = beam.DoFn.KeyParam,
        values: Any = beam.DoFn.StateParam(VALUES),  # noqa: B008 (Beam's way)
        count: Any = beam.DoFn.StateParam(COUNT),  # noqa: B008 (Beam's way)
    ) -> Iterator[str]:
        yield f"ledger {key} {count.read()} {sorted(values.read())}"


class Victim(beam.DoFn):  # type: ignore[misc]
    """Tells its process id to whoever would kill it, on the first attempt only."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def process(self, element: Any) -> Iterator[Any]:
        try:
            (self._folder / "claimed").touch(exist_ok=False)
        except FileExistsError:
            yield element
            return
        draft = self._folder / "pid.draft"
        draft.write_text(str(os.getpid()))
        draft.rename(self._folder / "pid")
        time.sleep(VICTIM_SECONDS)
        message = "nobody killed the worker"
        raise RuntimeError(message)


def total(
    element: tuple[str, Any],
    factor: int,
    names: dict[str, str],
    extras: Any,
    span: Any = beam.DoFn.WindowParam,
) -> str:
    key, values = element
    return f"total {names[key]} {int(span.start)} {sum(values) * factor + sum(extras)}"


def ground(line: str) -> str:
    """Use a module that only `--setup_file` can have brought to the executor."""
    import millstone  # type: ignore[import-not-found]

    return str(millstone.grind(line))


def build(pipeline: beam.Pipeline, folder: str, victim: str | None, packaged: bool) -> None:
    """Grouping in windows with three kinds of side input, a stateful DoFn, and a file sink."""
    factor = beam.pvalue.AsSingleton(pipeline | "Factor" >> beam.Create([FACTOR]))
    names = beam.pvalue.AsDict(pipeline | "Names" >> beam.Create(list(NAMES.items())))
    extras = beam.pvalue.AsIter(pipeline | "Extras" >> beam.Create(list(EXTRAS)))
    events = pipeline | beam.Create(range(EVENTS)) | beam.Reshuffle()
    if victim is not None:
        events = events | beam.ParDo(Victim(victim))
    events = events | beam.Map(
        lambda i: window.TimestampedValue((KEYS[i % len(KEYS)], i), i)
    ).with_output_types(tuple[str, int])
    windowed = events | beam.WindowInto(window.FixedWindows(WINDOW_SECONDS))
    totals = windowed | beam.GroupByKey() | beam.Map(total, factor, names, extras)
    ledger = (
        windowed
        | "Coarse" >> beam.WindowInto(window.FixedWindows(EVENTS))
        | beam.ParDo(Ledger())
    )
    together = [
        lines | f"Together{number}" >> beam.WindowInto(window.GlobalWindows())
        for number, lines in enumerate((totals, ledger))
    ]
    lines = together | beam.Flatten()
    if packaged:
        lines = lines | beam.Map(ground)
    _ = lines | beam.io.WriteToText(os.path.join(folder, "lines"), coder=StrUtf8Coder())


def run(
    runner: Any, options: list[str], victim: str | None = None, packaged: bool = False
) -> dict[str, Any]:
    """Run once; give the sorted lines, or the name of what was raised."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        try:
            with beam.Pipeline(runner=runner, options=PipelineOptions(options)) as pipeline:
                build(pipeline, folder, victim, packaged)
        except Exception as error:  # noqa: BLE001 (the test looks at it)
            seconds = time.monotonic() - start
            return {"error": type(error).__name__, "text": str(error), "seconds": seconds}
        lines = [
            line for path in Path(folder).glob("lines*") for line in path.read_text().splitlines()
        ]
    return {"lines": sorted(lines), "seconds": time.monotonic() - start}


def own_session(place: str, shards: list[int], victim: str | None) -> Iterator[dict[str, Any]]:
    """Runs in a session that headrace starts and that stays for the next run."""
    told = [f"--spark_master={place}", "--progress=off"]
    for number in shards:
        found = run(headrace.SparkRunner(), [*told, f"--shards={number}"])
        yield {"kind": "plain", "shards": number, **found}
    if victim is not None:
        yield {"kind": "victim", **run(headrace.SparkRunner(), [*told, "--shards=2"], victim)}


def users_session(place: str, setup_file: str) -> Iterator[dict[str, Any]]:
    """A run in a session that knows nothing of headrace, with a package of the user's own."""
    settings = {
        "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false", "spark.log.level": "ERROR",
    }  # fmt: skip
    session = SparkSession.builder.master(place).config(map=settings).getOrCreate()
    options = [f"--setup_file={setup_file}", "--progress=off"]
    yield {"kind": "users", **run(headrace.SparkRunner(spark=session), options, packaged=True)}


def facts() -> dict[str, Any]:
    """What the last session had: executors, and the addresses its JVM listens on."""
    session = SparkSession.getActiveSession()
    context = session.sparkContext
    found = {
        "kind": "facts",
        "executors": context._jsc.sc().getExecutorMemoryStatus().size() - 1,
        "addresses": listening(context._gateway.proc.pid),
    }
    session.stop()
    return found


def listening(pid: int) -> list[str]:
    """The addresses on which a process waits for connections, from Linux's tables."""
    if not Path("/proc/net/tcp").exists():
        return []
    owned = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            owned.add(os.readlink(link))
        except FileNotFoundError:  # closed meanwhile
            continue
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            columns = line.split()
            if columns[3] == "0A" and f"socket:[{columns[9]}]" in owned:
                found.add(columns[1].split(":")[0])
    return sorted(found)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--place", action="append", default=[])
    parser.add_argument("--shards", type=int, action="append", default=[])
    parser.add_argument("--victim", help="at the last place, be killed by way of this folder")
    parser.add_argument("--setup_file", help="run once more, in a user's session, with this")
    parser.add_argument("--out", required=True)
    told = parser.parse_args()
    found: list[dict[str, Any]] = []
    for place in told.place:
        if place == "beam":
            found.append({"place": place, "kind": "plain", **run(fn_runner.FnApiRunner(), [])})
            continue
        last = place == told.place[-1]
        rows = [*own_session(place, told.shards, told.victim if last else None), facts()]
        if told.setup_file and last:
            rows += [*users_session(place, told.setup_file), facts()]
        found += [{"place": place, **row} for row in rows]
    Path(told.out).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
