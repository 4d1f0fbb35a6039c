"""How a round judges drivers: with drivers that are threads, commit empty epochs, have no JVM."""

from __future__ import annotations

import json
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from headrace.lab.experiments.faults import rounds
from headrace.lab.experiments.faults.disks import Disks
from headrace.lab.experiments.faults.faults import Fault, Gap, Kind, Life
from headrace.lab.experiments.faults.processes import DRIVER, Home, Part, parts_of
from headrace.lab.experiments.faults.rounds import Round, RoundError
from headrace.lab.experiments.faults.variants import PLAIN
from headrace.state.crash_points import Point

EPOCHS = 30
EPOCH_SECONDS = 0.02


class FakeDriver:
    """Commits an epoch every moment until there are enough, or until something ends it."""

    made: list[FakeDriver] = []
    ends: dict[int, tuple[int, str]] = {}  # number of the start -> how it ends after 3 epochs,
    broken = threading.Event()  # once this is set
    last_words: str = ""  # of one that was frozen

    def __init__(self, home: Home, *, crash: str, **told: Any) -> None:
        self.started, self.said, self.log = time.time(), "", told["log"]
        self.told, self.crash = told, crash
        self.ended: int | None = None
        self._home, self._go_on = home, threading.Event()
        self._go_on.set()
        self._at_work = threading.Lock()
        FakeDriver.made.append(self)
        self._end = FakeDriver.ends.get(len(FakeDriver.made))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        claimed = self._numbers("incarnations")
        _put(self._home.checkpoint / "incarnations" / f"{len(claimed) + 1:08d}.json", {})
        mine = 0
        while self.ended is None:
            time.sleep(EPOCH_SECONDS)
            self._go_on.wait()
            with self._at_work:
                if not self._go_on.is_set():
                    continue  # frozen since it was let go on
                if len(self._numbers("incarnations")) > len(claimed) + 1:
                    self.said, self.ended = FakeDriver.last_words, 1
                epoch = len(self._numbers("manifests"))
                attempt = f"{len(claimed) + 1}.{mine + 1}"
                if self.ended is not None or self._crashes(epoch, attempt) or self._breaks(mine):
                    return
                if epoch == EPOCHS:
                    self.ended = 0
                    return
                manifest = self._home.checkpoint / "manifests" / f"{epoch:08d}.json"
                _put(manifest, {"epoch": epoch, "batches": {}})
                mine += 1

    def _numbers(self, folder: str) -> list[Path]:
        return list((self._home.checkpoint / folder).glob("[0-9]*.json"))

    def _crashes(self, epoch: int, attempt: str) -> bool:
        if self.crash == f"after_sinks:{attempt}":
            self.said = f"HEADRACE_CRASH: after_sinks {epoch} {attempt} -\n"
            self.ended = -signal.SIGKILL
        return self.ended is not None

    def _breaks(self, mine: int) -> bool:
        if self._end is not None and mine >= 3 and FakeDriver.broken.is_set():
            self.said, self.ended = self._end[1], self._end[0]
        return self.ended is not None

    def wait(self, seconds: float) -> int:
        self._thread.join(seconds)
        assert self.ended is not None
        return self.ended

    def kill_all(self) -> None:
        self.ended = self.ended or -signal.SIGKILL
        self._go_on.set()
        self._thread.join()

    kill_driver = kill_all

    def kill_part(self, part: Part, drawn: random.Random) -> bool:
        del part, drawn
        return True

    def pause(self, part: Part, seconds: float, drawn: random.Random) -> bool:
        del part, drawn
        time.sleep(seconds / 100)
        return True

    def freeze(self) -> None:
        self._go_on.clear()
        with self._at_work:
            """What it was at is done."""

    def thaw(self) -> None:
        self._go_on.set()


def _put(path: Path, told: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}")
    unfinished.write_text(json.dumps(told) + "\n")
    unfinished.rename(path)


def test_the_parts_of_a_run_are_told_apart() -> None:
    """The JVM is told the module of the daemon, whose command line its workers have too."""
    daemon = "python3 -m headrace.worker.daemon pyspark.worker"
    table = {
        1: (0, "init"),
        10: (1, f"python -m {DRIVER}"),
        11: (10, "/usr/bin/java -cp x --conf spark.python.daemon.module=headrace.worker.daemon"),
        12: (11, daemon), 13: (12, daemon), 14: (12, daemon),
        15: (10, "bash spark-class"), 16: (15, "/usr/bin/java org.apache.spark.launcher.Main"),
        20: (1, f"python -m {DRIVER}"), 21: (20, "/usr/bin/java"), 22: (21, daemon),
    }
    assert parts_of(10, table) == {
        Part.DRIVER: {10}, Part.JVM: {11}, Part.DAEMON: {12}, Part.WORKER: {13, 14},
    }


@pytest.fixture(autouse=True)
def _fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "Driver", FakeDriver)
    monkeypatch.setattr(FakeDriver, "made", [])
    monkeypatch.setattr(FakeDriver, "ends", {})
    FakeDriver.broken.set()
    monkeypatch.setattr(FakeDriver, "last_words", "CheckpointError: taken over")


def carried_out(tmp_path: Path, *lives: Life) -> rounds.Suffered:
    home = Home(source=tmp_path / "input", folder=tmp_path / "run")
    return Round(home, PLAIN, lives, seed=1).run()


def fault(kind: Kind, epochs: int | None = 2, **more: Any) -> Fault:
    return Fault(kind=kind, epochs=epochs, delay=0.0, **more)


def test_faults_are_done_in_order_and_counted_with_what_they_hit(tmp_path: Path) -> None:
    outcome = carried_out(
        tmp_path,
        Life(shards=3, faults=(fault(Kind.WORKER), fault(Kind.JVM_STOPPED), fault(Kind.MACHINE))),
        Life(shards=2, wipe=True, gaps=(Gap(point=Point.AFTER_SINKS, tries=2),)),
    )
    assert [driver.told["shards"] for driver in FakeDriver.made] == [3, 2, 2]
    assert (outcome.starts, outcome.epochs, outcome.wiped) == (3, EPOCHS, 1)
    kinds = sorted((kind.value, count) for (kind, _), count in outcome.hits.items())
    assert kinds == [
        ("JVM stopped", 1), ("ended in a gap", 1), ("machine killed", 1), ("worker killed", 1),
    ]
    assert outcome.hits[Kind.GAP, "after_sinks"] == 1


def test_a_driver_that_ends_with_an_error_that_nobody_caused_fails_the_round(
    tmp_path: Path,
) -> None:
    FakeDriver.ends = {1: (1, "ValueError: it broke")}
    with pytest.raises(RoundError, match="it broke"):
        carried_out(tmp_path, Life(shards=2, faults=(fault(Kind.WORKER),)))


@pytest.mark.parametrize(
    "words",
    ["OSError: [Errno 28] No space left on device",
     "sqlite3.OperationalError: database or disk is full"],
)
def test_a_full_disk_explains_only_the_end_of_a_driver_that_speaks_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    class FakeDisks:
        def fill(self, folder: Path, left_bytes: int) -> bool:
            del folder
            FakeDriver.broken.set()
            return left_bytes >= 0

        def empty(self, folder: Path) -> None:
            del folder

        def close(self, keep: bool) -> None:
            del keep

    monkeypatch.setattr(Disks, "make", lambda *_: FakeDisks())
    life = Life(shards=2, faults=(fault(Kind.FULL_SINK), fault(Kind.MACHINE)))
    FakeDriver.broken.clear()
    FakeDriver.ends = {1: (1, words)}
    outcome = carried_out(tmp_path / "a", life)
    assert outcome.starts == 2 and outcome.hits.total() == 1
    FakeDriver.broken.clear()
    FakeDriver.ends = {3: (1, "ValueError: it broke")}
    with pytest.raises(RoundError, match="it broke"):
        carried_out(tmp_path / "b", life)


def test_disks_that_cannot_be_filled_are_told_and_the_round_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Disks, "make", lambda *_: None)
    life = Life(shards=2, faults=(fault(Kind.FULL_STATE), fault(Kind.MACHINE)))
    outcome = carried_out(tmp_path, life)
    assert outcome.skipped == {Kind.FULL_STATE: 1}
    assert {kind for kind, _ in outcome.hits} == {Kind.MACHINE}


TWO = Life(shards=2, faults=(fault(Kind.TWO_DRIVERS, lasting=2.0),))


def test_a_driver_that_was_taken_over_from_must_say_so(tmp_path: Path) -> None:
    outcome = carried_out(tmp_path / "a", TWO)
    assert outcome.starts == 2 and {kind for kind, _ in outcome.hits} == {Kind.TWO_DRIVERS}
    old, new = FakeDriver.made
    assert old.ended == 1 and new.ended == 0
    assert old.told["state"] != new.told["state"]  # they are two machines
    assert json.loads(old.told["inside"])["no_locks"]
    FakeDriver.last_words = "it broke"
    with pytest.raises(RoundError, match="taken over from did not say so"):
        carried_out(tmp_path / "b", TWO)


def test_a_driver_that_commits_nothing_for_long_is_stuck(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "STUCK_SECONDS", 0.3)
    monkeypatch.setattr(FakeDriver, "pause", lambda self, *_: self.freeze() or True)
    monkeypatch.setattr(FakeDriver, "tell_stacks", lambda _: None, raising=False)
    with pytest.raises(RoundError, match="no epoch was committed"):
        carried_out(tmp_path, Life(shards=2, faults=(fault(Kind.DRIVER_STOPPED),)))
