"""State that another user of the machine could have written is never decoded."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import lmdb
import pytest
from apache_beam import coders
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec

from headrace.errors import CheckpointError, StateError
from headrace.io import ReadFromSpark
from tests.streaming.harness import Inbox, checkpointed, finished

pytestmark = [pytest.mark.spark, pytest.mark.timeout(150, func_only=True)]

NOTHING_YET = "nothing yet " * 40
NOTES = ReadModifyWriteStateSpec("notes", coders.PickleCoder())
NOTES_PARAM = beam.DoFn.StateParam(NOTES)


class Remembers(beam.DoFn):  # type: ignore[misc]
    def process(self, element: Any, notes: Any = NOTES_PARAM) -> Iterator[Any]:
        notes.read()
        notes.write(NOTHING_YET)
        yield element


def run(folder: Path, inbox: Inbox, state_dir: str = "local/{executor}") -> None:
    """Run to the end of the input. Where the executor names the folder, only workers know it."""
    p = checkpointed(folder, "--available_now", f"--state_dir={folder / state_dir}", shards=1)
    (
        p
        | "Read" >> ReadFromSpark(inbox.frame("key string"))
        | "Pair" >> beam.Map(lambda r: (r.key, None)).with_output_types(tuple[str, None])
        | "Remember" >> beam.ParDo(Remembers())
    )
    finished(p)


def poison(copy: Path, mark: Path) -> int:
    """Put a pickle that makes a file into the place of each remembered value."""
    whole = pickle.dumps(NOTHING_YET, pickle.HIGHEST_PROTOCOL)
    harm = f"cposix\nsystem\n(S'touch {mark}'\ntR.".encode()
    harm += b" " * (len(whole) - len(harm))  # what stands behind the end is not looked at
    count = 0
    with lmdb.open(str(copy), max_dbs=2) as environment:
        rows = environment.open_db(b"rows")
        with environment.begin(db=rows, write=True) as txn:
            for name, value in list(txn.cursor()):
                if whole in value:
                    txn.put(name, value.replace(whole, harm))
                    count += 1
    return count


def test_a_copy_that_others_could_have_written_is_refused_and_nothing_of_it_decoded(
    tmp_path: Path,
) -> None:
    inbox, local, mark = Inbox(tmp_path / "in"), tmp_path / "local", tmp_path / "mark"
    for key in ("a", "b", "c"):  # the copy lags behind by an epoch
        inbox.put({"key": key})
    run(tmp_path, inbox)
    (data,) = local.rglob("data.mdb")
    assert poison(data.parent, mark)
    inbox.put({"key": "a"})
    (executor,) = local.iterdir()
    (top,) = executor.iterdir()
    top.chmod(0o777)
    for named_by in ("local/{executor}", f"local/{executor.name}"):  # a worker, the driver
        with pytest.raises(StateError, match=f"{top} is not safe for copies.*0777 lets others in"):
            run(tmp_path, inbox, named_by)
    top.chmod(0o700)
    if os.geteuid() == 0:
        os.chown(top, 65534, -1)
        with pytest.raises(StateError, match=f"{top} is not safe.* belongs to user 65534"):
            run(tmp_path, inbox)
        os.chown(top, 0, -1)
    top.rename(tmp_path / "moved")
    top.symlink_to(tmp_path / "moved")
    with pytest.raises(StateError, match=f"{top} is not safe for copies.*symbolic link"):
        run(tmp_path, inbox)
    assert not mark.exists()
    top.unlink()
    (tmp_path / "checkpoint").chmod(0o775)
    with pytest.raises(CheckpointError, match="0775 lets others write"):
        run(tmp_path, inbox)
    (tmp_path / "checkpoint").chmod(0o755)
    run(tmp_path, inbox)  # the state is as it was, built from the checkpoint
    assert not mark.exists()
