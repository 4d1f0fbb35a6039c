"""A whole run: claim a folder, calibrate, measure, write everything down.

What was measured before a run was interrupted is written down too: an hour of measuring is not lost
to one key.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path

from headrace.lab.measure import Measuring
from headrace.lab.results.folder import SPEC, RunFolder
from headrace.lab.results.summary import Summary
from headrace.lab.spec import Spec
from headrace.lab.statistics.calibration import calibrate


def run_spec(
    spec: Spec, root: Path, told: Callable[[str], None] = lambda _text: None
) -> RunFolder:
    """Run a spec; give the folder with its results.

    Args:
        spec: what is to be measured.
        root: below it the folder is made.
        told: hears what is done, a line each.
    """
    started, start = datetime.now(timezone.utc), time.monotonic()
    folder = RunFolder.create(root, spec.name, started)
    folder.write(SPEC, spec.text)
    folder.write_environment()
    told("calibrating")
    calibration = calibrate(str(folder.path))
    measuring = Measuring(spec, told, calibration.loops_per_second)
    interrupted = ""
    try:
        measuring.run()
    except BaseException as ended:
        interrupted = f"{type(ended).__name__}: {ended}".removesuffix(": ")
        # What the command line says of the end; see `engine.signals`.
        ended.headrace_said = f"what was measured is in {folder.path}"  # type: ignore[attr-defined]
        raise
    finally:
        folder.write_samples(measuring.kept)
        folder.write_summary(Summary(
            name=spec.name, started=f"{started:%Y-%m-%dT%H:%M:%SZ}",
            seconds=time.monotonic() - start, calibration=asdict(calibration),
            systems=measuring.systems(), figures=tuple(measuring.figures),
            interrupted=interrupted, guarantees=measuring.guarantees(),
            probes=tuple(measuring.probes),
        ))
    return folder
