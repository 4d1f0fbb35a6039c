"""The experiments by name: what `headrace lab run NAME` opens, and what each one asks.

An experiment with a command of its own takes its options itself. Those of a spec measure any
systems from outside. Names and sentences only: an experiment is loaded when its door is
opened, since most bring Beam and Spark with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module

from headrace.errors import OptionError

_HOME = "headrace.lab.experiments"


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """An experiment with a command of its own."""

    name: str  # on the command line
    asks: str  # a line
    module: str  # below the experiments; has `main(arguments) -> status`
    extra: str = "lab"  # of the package, that brings what the experiment needs

    def open(self) -> Callable[[Sequence[str]], int]:
        """Load the experiment; gives the function that takes its options and ends in a status.

        Raises:
            OptionError: a package that it needs is not installed; says what installs it.
        """
        try:
            main: Callable[[Sequence[str]], int] = import_module(f"{_HOME}.{self.module}").main
        except ModuleNotFoundError as missing:
            msg = f"{self.name} needs {missing.name}: pip install 'headrace[{self.extra}]'"
            raise OptionError(msg) from missing
        return main


DOORS = (
    Door(name="micro", module="micro.command",
         asks="batch pipelines, case by case, beside Beam's FnApiRunner"),
    Door(name="streaming", module="streaming.command",
         asks="what an epoch costs; streams beside Spark's own; restores, hot keys, open windows"),
    Door(name="table", module="table.command",
         asks="every workload on headrace, Spark and Beam's local runner, rates side by side"),
    Door(name="verify", module="verify.command",
         asks="every workload in every condition, killed too, against its oracle"),
    Door(name="connect", module="connect.command", extra="lab,connect,test",
         asks="a server of Spark Connect: the runner suite of Beam, NEXMark, kills, epochs"),
    Door(name="reference", module="reference.command",
         asks="the reference answers that are shipped, made anew where systems agree"),
    Door(name="faults", module="faults.command",
         asks="faults at streaming runs: a campaign, one round again, a campaign's page"),
    Door(name="kills", module="faults.kill_run",
         asks="one long streaming run that is killed again and again"),
    Door(name="damage", module="faults.damage",
         asks="every file of a checkpoint damaged, and what a restart makes of it"),
    Door(name="copies", module="faults.copies",
         asks="local copies of state damaged between two runs"),
    Door(name="simulation", module="faults.simulation.command", extra="lab,kafka",
         asks="faults by schedule, without Spark; a failure is shrunk"),
    Door(name="soak", module="soak.command",
         asks="one streaming pipeline for long, and what grows"),
    Door(name="kafka", module="kafka.command", extra="lab,kafka",
         asks="messages a second from Kafka to Kafka, beside Spark's own"),
    Door(name="columns", module="columns.command",
         asks="whole pipelines on columns and on objects"),
    Door(name="columns-spark", module="columns_spark.command",
         asks="workloads from Parquet on Spark: columns, objects and Spark's own query in turns"),
    Door(name="kernel", module="kernel",
         asks="a lowered function on columns, the kernel alone"),
    Door(name="corners", module="corners",
         asks="sessions, window and time parameters, timers: processor time for each element"),
    Door(name="order", module="order.command",
         asks="what order costs, and how ordered regions speed up"),
    Door(name="regions", module="regions.command",
         asks="a model of ordered regions on more channels than there are cores"),
    Door(name="beam-suites", module="beam_suites.command", extra="test",
         asks="Beam's own pipeline tests on headrace"),
    Door(name="user-suites", module="user_suites.command", extra="test",
         asks="tests of packages that build on Beam, on headrace and on Beam's own runner"),
)
#: The tables of a spec, and what each one asks.
BY_SPEC = {
    "tuning": "which settings sustain the highest rate under a bound on latency, before all else",
    "sustainable": "the highest rate at which the queue stays short",
    "latency": "the age of results at a share of that rate, its waterfall, and what it costs",
    "spike": "whether the same latency comes back after a load spike",
    "congestion": "how long it takes to work off more than is sustained, and what is late or lost",
    "fault": "how long results stay old after a worker or the driver was killed, or a slow disk",
    "scaling": "the rate on 1, 2, ... cores and shards, each foretold by a model of the first",
    "growth": "whether the state and the checkpoint grow at a steady rate",
    "sweep": "the age of results and their cost by the size and time of batches, and by shards",
    "causal": "what the rate would be were one step faster",
}


def door_of(name: str) -> Door | None:
    """Give the door of this name; None if there is none."""
    return next((door for door in DOORS if door.name == name), None)


def listing() -> list[str]:
    """Name all experiments, a line each."""
    width = max(len(name) for name in (*BY_SPEC, *(door.name for door in DOORS))) + 2
    return [
        "by name, `headrace lab run NAME --help` says more:",
        *(f"  {door.name:{width}}{door.asks}" for door in DOORS),
        "",
        "of any systems, by `headrace lab run NAME --system SYSTEM` or by tables of a spec:",
        *(f"  {name:{width}}{asks}" for name, asks in BY_SPEC.items()),
    ]
