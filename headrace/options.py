"""What a user may set: `HeadraceOptions`, and what the engine is told of it."""

from __future__ import annotations

import argparse
import json
import math
import os
from contextlib import suppress
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions, SetupOptions
from apache_beam.options.value_provider import StaticValueProvider
from apache_beam.utils.plugin import BeamPlugin

from headrace.engine.layouts import SmallEpochs
from headrace.engine.spark.packaging import Needs
from headrace.engine.spark.settings import Wish, listed, read_conf
from headrace.engine.status import PageOptions, StreamOptions, WhoAsks
from headrace.errors import OptionError
from headrace.plan.settings import ColumnsMode
from headrace.telemetry.asked import Asked, checked_lineage, checked_otel


def _positive(text: str) -> int:
    value = _whole(text)
    if value < 1:
        msg = f"{text} is not a whole number of 1 or more"
        raise argparse.ArgumentTypeError(msg)
    return value


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        msg = f"{text} is not a number of seconds, zero or more"
        raise argparse.ArgumentTypeError(msg)
    return value


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        msg = f"{text} is not a whole number"
        raise argparse.ArgumentTypeError(msg) from None


class HeadraceOptions(PipelineOptions):  # type: ignore[misc]
    """Options of headrace's SparkRunner."""

    @classmethod
    def _add_argparse_args(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--spark_master", default=None,
            help="Where Spark runs when no session is at hand: local[N], local[*] (the default) or "
            "spark://host:port. An active session is used as it is.",
        )
        parser.add_argument(
            "--spark_conf", action="append", default=None, metavar="NAME=VALUE",
            help="A setting of Spark for a session that headrace starts; may be given several "
            "times. Comes before spark-defaults.conf and before headrace's own settings.",
        )
        parser.add_argument(
            "--spark_app_name", default=None,
            help="What the application is called in Spark's pages and logs. Default: headrace.",
        )
        parser.add_argument(
            "--spark_jars", action="append", default=None, metavar="FILES",
            help="Jar files for Spark's class path, with commas between them.",
        )
        parser.add_argument(
            "--spark_packages", action="append", default=None, metavar="COORDINATES",
            help="Maven coordinates of packages for Spark's class path, with commas between them.",
        )
        parser.add_argument(
            "--shards", type=_positive, default=None,
            help="Into how many slices the key space is cut, and so how many tasks run side by "
            "side. Default: the session's parallelism (its cores).",
        )
        parser.add_argument(
            "--super_tuple_bytes", type=_positive, default=65_536,
            help="How many bytes of elements travel in one row between supersteps. "
            "Default: 65536.",
        )
        parser.add_argument(
            "--max_bundle_elements", type=_whole, default=0,
            help="End a bundle after about this many elements, so that finish_bundle is called "
            "more often. Not in ordered stages, where bundles may not show in the output. "
            "Default: 0, one bundle per stage and shard.",
        )
        parser.add_argument(
            "--group_memory_mb", type=_positive, default=384,
            help="Memory a task uses for grouped values before they go to the local disk. "
            "Default: 384.",
        )
        parser.add_argument(
            "--no_slicing", action="store_true", default=False,
            help="Keep a partial for every sliding window instead of one for every slice of time "
            "that windows share. Slower; there to compare with. Default: slices.",
        )
        parser.add_argument(
            "--ordered", action="store_true", default=False,
            help="Give every sink the rows, and in the order, that a run on one shard would give, "
            "whatever the number of shards. What is not proven to be safe in parallel runs on one "
            "shard; explain says what and why. Default: Beam's model, which promises no order; "
            "WriteToSpark(..., ordered=True) asks for one sink.",
        )
        parser.add_argument(
            "--no_hot_key_merging", action="store_true", default=False,
            help="Streaming: send one accumulator for each element of a combine that cannot be "
            "lifted. Slower where keys repeat, most of all with a hot key; there to compare with. "
            "Default: accumulators of one key are merged before they travel.",
        )
        parser.add_argument(
            "--columns", choices=["on", "off"], default="on",
            help="Compute on whole columns where the rows of a DataFrame enter a step whose "
            "function says nothing that columns could not do; a row for which they could differ "
            "goes to your function. off: every row becomes a Python object at once; slower, there "
            "to compare with, and to tell a fault of ours from one of yours. Default: on.",
        )
        parser.add_argument(
            "--verify_columns", action="store_true",
            default="HEADRACE_VERIFY_COLUMNS" in os.environ,
            help="Compute what runs on columns a second time by your own functions, and compare "
            "every value and its type; a difference ends the run and names the step and the "
            "element. Slow; for tests. Default: off, unless HEADRACE_VERIFY_COLUMNS is set.",
        )
        parser.add_argument(
            "--checkpoint", default="",
            help="Streaming: the folder (a path or a URI: s3://, gs://, abfss://, hdfs://, ...) "
            "where state is kept. "
            "A pipeline started again on it goes on where it was. Default: a folder of its own "
            "that ends with the run, so that nothing survives.",
        )
        parser.add_argument(
            "--trigger_interval", type=_seconds, default=0.0,
            help="Streaming: seconds between the beginnings of two batches of a streaming "
            "DataFrame. Default: 0, as fast as possible.",
        )
        parser.add_argument(
            "--available_now", action="store_true", default=False,
            help="Streaming: read what is there now, then stop; state stays for the next start.",
        )
        parser.add_argument(
            "--drain_available", action="store_true", default=False,
            help="Streaming: read what is there now, then drain: sources end, windows close, "
            "timers fire, and the run has come to its end. Default: off.",
        )
        parser.add_argument(
            "--state_dir", default="",
            help="Streaming: where each machine keeps its copy of the state; {executor} in it "
            "stands for the executor, where several share a machine and must not share copies. "
            "Default: below the folder for temporary files.",
        )
        parser.add_argument(
            "--max_bundle_seconds", type=_seconds, default=1.0,
            help="Streaming: how long an unbounded splittable DoFn may run before its rest is put "
            "off to the next epoch. Default: 1.",
        )
        parser.add_argument(
            "--small_epochs", choices=["auto", "off", "always"],
            default=os.environ.get("HEADRACE_SMALL_EPOCHS", "auto"),
            help="Streaming: run an epoch that is known to be small (few elements, little state, "
            "little work of late) as one task instead of a stage of Spark's for each exchange; "
            "only where all tasks run on one machine and the checkpoint is on its disk. The "
            "answers are the same. off: never. always: every epoch, wherever; for tests. Default: "
            "HEADRACE_SMALL_EPOCHS, or auto.",
        )
        parser.add_argument(
            "--who_asks", choices=["spark", "headrace"],
            default=os.environ.get("HEADRACE_WHO_ASKS", "spark"),
            help="Streaming, on a classic session: who asks the sources of DataFrames what is new. "
            "spark: Structured Streaming's queries. headrace: our own loop, as on Spark Connect, "
            "where the rows are plain columns of Parquet files, Kafka's messages or a Python "
            "data source, so that workers read them without Spark; small epochs then take a "
            "fraction of the time. All else is left to Spark. The log is the same, so a "
            "checkpoint may change hands at a start. Default: HEADRACE_WHO_ASKS, or spark.",
        )
        parser.add_argument(
            "--remove_later_epochs", action="store_true", default=False,
            help="Streaming: after an older copy of the checkpoint was restored, remove from the "
            "folders of WriteToSpark(path) the epochs that the copy does not know; their rows are "
            "written anew. Default: such a start is refused.",
        )
        parser.add_argument(
            "--max_retries", type=_whole, default=0,
            help="Streaming: how often an epoch is run again after an exception of your code or of "
            "a sink, with growing pauses; it starts from the state before it, so nothing is "
            "doubled. Default: 0, an exception ends the run. Lost workers are retried anyway.",
        )
        parser.add_argument(
            "--verify_traits", action="store_true", default="HEADRACE_VERIFY_TRAITS" in os.environ,
            help="Check, call by call, what headrace takes your functions for: number of outputs, "
            "keys handed on, nothing remembered, the same answer again. Slow; for tests. A claim "
            "that is false, declared or read from the code, ends the run. Default: off, unless "
            "HEADRACE_VERIFY_TRAITS is set.",
        )
        parser.add_argument(
            "--progress", choices=["auto", "rich", "plain", "off"], default="auto",
            help="How progress is shown: a bar in a terminal, plain lines elsewhere, or not at "
            "all. Default: auto.",
        )
        parser.add_argument(
            "--ui", action="store_true", default=False,
            help="Streaming: serve a live page of the run, and /metrics for Prometheus, on this "
            "machine; the address is printed. Default: off.",
        )
        parser.add_argument(
            "--ui_port", type=_whole, default=None,
            help="Port of the live page; 0: any that is free. Default: the first free one from "
            "4090 on.",
        )
        parser.add_argument(
            "--ui_host", default="127.0.0.1",
            help="Address at which the live page listens. It asks for no password: another one "
            "than this machine's own lets in whoever can reach it. Default: 127.0.0.1.",
        )
        parser.add_argument(
            "--ui_samples", action="store_true", default=False,
            help="Show on the live page some elements and what exceptions said; they may be "
            "private. Default: off.",
        )
        parser.add_argument(
            "--ui_hide_keys", action="store_true", default=False,
            help="Do not name hot keys on the live page. Default: they are named.",
        )
        parser.add_argument(
            "--otel", action="store_true", default=False,
            help="Export the run's metrics, and a span for each epoch, by OpenTelemetry's OTLP "
            "over HTTP; OTEL_* in the environment says where to and how. Needs headrace[otel]. "
            "Default: off.",
        )
        parser.add_argument(
            "--otel_endpoint", default="", metavar="URL",
            help="The collector that --otel exports to. Default: OTEL_EXPORTER_OTLP_ENDPOINT, "
            "else http://localhost:4318.",
        )
        parser.add_argument(
            "--lineage", action="store_true", default=False,
            help="Send OpenLineage's events of the run, with what it reads and writes; "
            "OPENLINEAGE_* in the environment or openlineage.yml says where to. Needs "
            "headrace[lineage]. Default: off.",
        )
        parser.add_argument(
            "--debug", action="store_true", default=False,
            help="Show an exception of your code with the frames of Beam and headrace, and what "
            "Spark logs of it. Default: your own frames, once.",
        )


def wish_of(known: Any) -> Wish:
    """Give what the options ask of Spark."""
    return Wish(
        master=known.spark_master,
        app_name=known.spark_app_name,
        conf=read_conf(known.spark_conf or ()),
        jars=listed(known.spark_jars or ()),
        packages=listed(known.spark_packages or ()),
    )


def columns_mode(known: Any) -> ColumnsMode:
    """Give what the options say of columns.

    Raises:
        OptionError: columns are to be off and compared.
    """
    if known.columns == "off":
        if known.verify_columns and "HEADRACE_VERIFY_COLUMNS" not in os.environ:
            msg = "--verify_columns compares what --columns=off turns off: give one of them"
            raise OptionError(msg)
        return ColumnsMode.OFF
    return ColumnsMode.VERIFY if known.verify_columns else ColumnsMode.ON


def stream_options(known: Any) -> StreamOptions:
    """Give what the options say of a streaming run."""
    return StreamOptions(
        checkpoint=known.checkpoint,
        state_dir=known.state_dir,
        trigger_seconds=known.trigger_interval,
        available_now=known.available_now or known.drain_available,
        drain_available=known.drain_available,
        bundle_seconds=known.max_bundle_seconds,
        remove_later_epochs=known.remove_later_epochs,
        small_epochs=SmallEpochs(known.small_epochs),
        who_asks=WhoAsks(known.who_asks),
        max_retries=known.max_retries,
        page=page_options(known),
    )


def page_options(known: Any) -> PageOptions | None:
    """Give what the options say of the live page.

    Raises:
        OptionError: something is said of a page that is off.
    """
    if not known.ui:
        if known.ui_port is not None or known.ui_samples or known.ui_hide_keys:
            given = "ui_port" if known.ui_port is not None else (
                "ui_samples" if known.ui_samples else "ui_hide_keys"
            )
            msg = f"--{given} says something of the live page, which is off: give --ui too"
            raise OptionError(msg)
        return None
    if known.ui_port is not None and not 0 <= known.ui_port < 65_536:
        msg = f"--ui_port={known.ui_port}: must be 0 to 65535"
        raise OptionError(msg)
    return PageOptions(
        host=known.ui_host, port=known.ui_port, samples=known.ui_samples,
        keys=not known.ui_hide_keys,
    )


def asked_outside(known: Any) -> Asked:
    """Give who is to be told of the run.

    Raises:
        OptionError: it cannot be told.
    """
    otel, endpoint = checked_otel(wanted=known.otel, endpoint=known.otel_endpoint)
    return Asked(
        otel=otel, otel_endpoint=endpoint, lineage=checked_lineage(wanted=known.lineage)
    )


def needs_of(options: Any) -> Needs:
    """Give what the options want on the workers."""
    asked = options.view_as(SetupOptions)
    return Needs(
        setup_file=asked.setup_file,
        requirements_file=asked.requirements_file,
        extra_packages=tuple(asked.extra_packages or ()),
    )


def for_workers(options: PipelineOptions) -> str:
    """Give what a pipeline was given as JSON: Beam's own code looks at it where functions run.

    Values that are no plain ones stay with the driver. Plugins are those that Beam would have its
    workers import: every subclass of `BeamPlugin`, such as a file system of the user's.
    """
    given = options.get_all_options(drop_default=True, retain_unknown_options=True)
    plain = {}
    for name, value in given.items():
        found = value.get() if isinstance(value, StaticValueProvider) else value
        with suppress(TypeError, ValueError):
            if found is not None and json.dumps(found):
                plain[name] = found
    plugins = [
        path
        for path in BeamPlugin.get_all_plugin_paths()
        if not path.startswith(("apache_beam.", "__main__."))
    ]
    plain["beam_plugins"] = [*plain.get("beam_plugins", ()), *plugins]
    return json.dumps(plain)
