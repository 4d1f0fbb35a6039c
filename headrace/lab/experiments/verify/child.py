"""One run in a process of its own, to be killed there; `verify.kill` starts it.

Takes what names the run and gives nothing: what it leaves in the run's folder is what matters.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

from headrace.lab.catalog import CATALOG
from headrace.lab.experiments.verify.choices import request_of
from headrace.lab.experiments.verify.conditions import Condition
from headrace.lab.systems.headrace_system import HeadraceSystem
from headrace.runner import start_session

#: Says where Spark runs, if not here: `sc://host:port` is a server of Spark Connect.
MASTER = "HEADRACE_LAB_MASTER"


def main(suite: str, name: str, events: str, folder: str) -> None:
    """Run a workload; a time is not taken, so nothing is warmed up."""
    logging.getLogger().setLevel(logging.ERROR)  # Beam warns about packages no workload needs
    workload = CATALOG.workload(suite, name)
    request = request_of(workload, Condition.KILLED, int(events), Path(folder))
    request.folder.mkdir(parents=True, exist_ok=True)
    session = start_session(os.environ.get(MASTER, "local[2]"))
    try:
        HeadraceSystem(session).run(request)
    finally:
        session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
