"""The process of a driver that may be killed: starts headrace or Spark, runs what it is told.

Started by `driver_system`, with the name of the system, where Spark runs, and who makes the system.
Takes lines of JSON that name a request in a file, and answers in lines of JSON. All that it leaves
is in the request's folder: the checkpoint, the rows, and at the end the outcome.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from apache_beam.internal import cloudpickle_pickler

from headrace.lab.systems.system import Request, System
from headrace.lab.workload import find

#: The longest pause of a slow disk before and after a file is written, as in `faults campaign`.
SLOW_SECONDS = 0.4


def main(name: str, master: str, maker: str, marker: str) -> None:
    """Run one request after the other, until nobody tells more."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever prints is no answer

    def say(**words: Any) -> None:
        print(json.dumps(words), file=out, flush=True)

    logging.getLogger().setLevel(logging.ERROR)  # Beam warns about packages nobody needs here
    if marker:
        from headrace.lab.slow_disk import slow_checkpoints

        slow_checkpoints(SLOW_SECONDS, marker)
    make: Callable[..., System] = find(maker)
    system = make(name, master=master)
    say(ready=True)
    for line in sys.stdin:
        told = json.loads(line)
        request: Request = cloudpickle_pickler.loads(Path(told["request"]).read_bytes())
        system.prepare(request)
        if told["outcome"]:
            outcome = replace(system.run(request), rows=None)
            unfinished = Path(f"{told['outcome']}.unfinished")
            unfinished.write_bytes(pickle.dumps(outcome))
            unfinished.rename(told["outcome"])
        say(done=True)
    system.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
