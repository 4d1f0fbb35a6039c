"""Finds a system by its name, and loads no other."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from headrace.errors import OptionError
from headrace.lab.systems.system import System

_HOME = "headrace.lab.systems"
_SYSTEMS = {
    "headrace": ("headrace_system", "HeadraceSystem"),
    "spark": ("spark_system", "SparkSystem"),
    "direct": ("direct_system", "DirectSystem"),
    "pyflink": ("pyflink_system", "PyFlinkSystem"),
    "pyflink-thread": ("pyflink_system", "PyFlinkSystem"),
    "flink-sql": ("pyflink_system", "PyFlinkSystem"),
    "beam-spark": ("portable_system", "PortableSystem"),
    "beam-flink": ("portable_system", "PortableSystem"),
}
#: The names, the project's own first.
SYSTEMS = tuple(_SYSTEMS)
#: Those that run any workload and come with headrace: who is compared where nobody is named.
AT_HAND = ("headrace", "spark", "direct")


def choose(name: str, session: Any | None = None, *, master: str | None = None) -> System:
    """Make a system that has not started anything yet.

    Args:
        name: one of `SYSTEMS`.
        session: a Spark session to use, for systems on Spark.
        master: where Spark runs if there is no session; all cores here if not given.

    Raises:
        OptionError: there is no such system.
    """
    found = _SYSTEMS.get(name)
    if found is None:
        msg = f"there is no system {name!r}; there are {', '.join(SYSTEMS)}"
        raise OptionError(msg)
    kind = getattr(import_module(f"{_HOME}.{found[0]}"), found[1])
    made: System
    if name in ("headrace", "spark"):
        made = kind(session, master=master)
    elif name in ("beam-spark", "beam-flink"):
        made = kind(name, master=master)
    else:
        made = kind() if name == "direct" else kind(name)
    return made
