"""Makes a stored checkpoint: `python -m tests.checkpoints.record`, once for each new format.

Runs the pipeline up to the cut, on Spark, and packs the checkpoint into an archive beside this file
that is named after its format. An archive is never made again: it is what that version wrote.
"""

from __future__ import annotations

import gzip
import io
import sys
import tarfile
import tempfile
from pathlib import Path

from headrace.engine.checkpoint import manifests
from headrace.state.crash_points import Point, observed
from tests.checkpoints.pipeline import BEFORE, CUT_AFTER, build
from tests.streaming.harness import checkpointed, finished, jotted

HOME = Path(__file__).parent


class CutError(Exception):
    """The run ends here."""


def cut(point: Point, epoch: int, *_: str) -> None:
    if (point, epoch) == (Point.AFTER_MANIFEST, CUT_AFTER):
        raise CutError


def packed(folder: Path) -> bytes:
    """Give the files of a folder as an archive that tells nothing of this machine."""
    made = io.BytesIO()
    with gzip.GzipFile(fileobj=made, mode="wb", mtime=0) as stream:
        with tarfile.open(fileobj=stream, mode="w") as archive:
            for path in sorted(p for p in folder.rglob("*") if p.is_file()):
                info = tarfile.TarInfo(str(path.relative_to(folder)))
                data = path.read_bytes()
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    return made.getvalue()


def main() -> int:
    target = HOME / f"format-{manifests.FORMAT}.tar.gz"
    if target.exists():
        print(f"{target} is there already; an archive is never made again", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        pipeline = checkpointed(folder)
        build(pipeline, folder / "out")
        try:
            with observed(cut):
                finished(pipeline)
        except CutError:
            pass
        said = sorted(jotted(folder / "out"))
        assert said == sorted(BEFORE), said
        (folder / "checkpoint" / "lock").unlink(missing_ok=True)
        for start in (folder / "checkpoint" / "incarnations").iterdir():
            start.write_text('{"host":"recorded","pid":1,"started":"2026-11-16T00:00:00+00:00"}')
        target.write_bytes(packed(folder / "checkpoint"))
    print(f"{target}: {target.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
