"""Runs round after round, seed after seed, until there were as many faults as asked for.

Each round is judged against the oracle, told in one line, and kept as one line of JSON, by which a
campaign that was cut off goes on. Rounds share nothing but the machine.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from headrace.lab.ending import Ending
from headrace.lab.experiments.faults.data import InputSpec, write_input
from headrace.lab.experiments.faults.faults import plan_round
from headrace.lab.experiments.faults.oracle import differences, right_answer
from headrace.lab.experiments.faults.processes import Home
from headrace.lab.experiments.faults.reading import written
from headrace.lab.experiments.faults.rounds import STOP, Round, RoundError, StoppedError
from headrace.lab.experiments.faults.splittable import READERS
from headrace.lab.experiments.faults.variants import VARIANTS, Source, Variant

#: How the files of campaigns say how a round ended.
WORDS = {Ending.RIGHT: "right", Ending.WRONG: "DIFFERENT", Ending.FAILED: "FAILED"}

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What all rounds of a campaign are like."""

    elements: int = 16_000
    files: int = 20  # of events for each reader; each is an epoch
    rate_files: int = 8  # of rates; each is an epoch
    faults: int = 18  # planned for one round


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How one round went."""

    seed: int
    variant: str
    asked: Asked
    verdict: Ending
    hits: tuple[tuple[str, str, int], ...]  # kind, phase or gap, how often
    skipped: tuple[tuple[str, int], ...] = ()
    starts: int = 0
    epochs: int = 0
    rows: int = 0  # of the right answer
    seconds: float = 0.0
    told: tuple[str, ...] = field(default=())  # what is wrong

    @property
    def faults(self) -> int:
        """How many faults took effect."""
        return sum(count for *_, count in self.hits)

    @property
    def command(self) -> str:
        """How to run this round again."""
        asked, usual = asdict(self.asked), asdict(Asked())
        more = "".join(
            f" --{name.replace('_', '-')} {value}" for name, value in asked.items()
            if value != usual[name]
        )
        return f"headrace lab run faults round --seed {self.seed} --variant {self.variant}{more}"

    def line(self) -> str:
        """Tell of it in one line."""
        by_kind: Counter[str] = Counter()
        for kind, _, count in self.hits:
            by_kind[kind] += count
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(by_kind.items()))
        return (
            f"seed {self.seed} {self.variant}: {WORDS[self.verdict]}; {self.faults} faults "
            f"({kinds}), "
            f"{self.starts} starts, {self.epochs} epochs, {self.seconds:.0f} s"
        )

    def to_json(self) -> dict[str, Any]:
        """Give plain data."""
        return asdict(self) | {"verdict": WORDS[self.verdict]}

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Result:
        """Read what `to_json` and JSON have made of one."""
        lists = {name: tuple(map(tuple, told[name])) for name in ("hits", "skipped")}
        return cls(
            **{**told, **lists, "asked": Asked(**told["asked"]), "told": tuple(told["told"]),
               "verdict": Ending(told["verdict"])}
        )


def variant_of(seed: int) -> Variant:
    """Give the variant of a seed: in turn, and not in step with what else is dealt by the seed."""
    return list(VARIANTS.values())[(seed + seed // 9) % len(VARIANTS)]


def run_round(seed: int, variant: Variant, asked: Asked, folder: Path) -> Result:
    """Run one round in a folder and judge it; the folder stays if something is wrong."""
    source = folder / "input"
    # Readers take their files side by side, streaming DataFrames one after the other.
    files = asked.files * (READERS if variant.source is Source.SPLITTABLE else 1)
    write_input(
        source,
        InputSpec(elements=asked.elements, files=files, rate_files=asked.rate_files, seed=seed),
    )
    home = Home(source=source, folder=folder / "run")
    one = Round(home, variant, plan_round(seed, asked.faults), seed)
    verdict, told, wanted = Ending.UNJUDGED, [], right_answer(source)
    try:
        one.run()
        told = differences(written(home.output, variant), wanted)
        verdict = Ending.WRONG if told else Ending.RIGHT
    except (RoundError, TimeoutError) as failure:
        verdict, told = Ending.FAILED, [str(failure)]
    finally:
        one.close(keep=verdict.bad)
    outcome = one.outcome
    return Result(
        seed=seed, variant=variant.name, asked=asked, verdict=verdict, told=tuple(told),
        hits=tuple(sorted((kind.value, where, n) for (kind, where), n in outcome.hits.items())),
        skipped=tuple(sorted((kind.value, n) for kind, n in outcome.skipped.items())),
        starts=outcome.starts, epochs=outcome.epochs, seconds=round(outcome.seconds, 1),
        rows=sum(rows.total() for rows in wanted.values()),
    )


class Campaign:
    """Rounds until enough has happened."""

    def __init__(
        self, *, faults: int, first_seed: int, asked: Asked, jobs: int, minutes: float | None,
        keep: Path | None, log: Path | None, say: Say,
    ) -> None:
        self._faults, self._asked, self._jobs = faults, asked, jobs
        self._deadline = None if minutes is None else time.monotonic() + minutes * 60
        self._keep, self._log, self._say = keep, log, say
        self._lock = threading.Lock()
        self._seed = first_seed
        self._first = first_seed
        self._running = 0  # rounds, which bring faults that are not counted yet
        self.results: list[Result] = []

    def run(self) -> list[Result]:
        """Run to the end; give all results, also those of an earlier start."""
        self.results = [r for r in known(self._log) if r.seed >= self._first]
        if self.results:
            self._say(f"{len(self.results)} rounds are known from {self._log}")
        with ThreadPoolExecutor(self._jobs) as pool:
            for done in [pool.submit(self._work) for _ in range(self._jobs)]:
                done.result()
        return sorted(self.results, key=lambda result: result.seed)

    def _work(self) -> None:
        while (seed := self._next()) is not None:
            folder = Path(tempfile.mkdtemp(prefix=f"headrace-chaos-{seed}-", dir=self._keep))
            try:
                result = run_round(seed, variant_of(seed), self._asked, folder)
            except StoppedError:
                shutil.rmtree(folder, ignore_errors=True)
                return
            finally:
                with self._lock:
                    self._running -= 1
            self._take(result, folder)

    def _next(self) -> int | None:
        with self._lock:
            done = sum(result.faults for result in self.results)
            expected = done + self._running * self._asked.faults
            late = self._deadline is not None and time.monotonic() > self._deadline
            if STOP.is_set() or late or expected >= self._faults:
                return None
            while any(result.seed == self._seed for result in self.results):
                self._seed += 1
            self._seed += 1
            self._running += 1
            return self._seed - 1

    def _take(self, result: Result, folder: Path) -> None:
        with self._lock:
            self.results.append(result)
            if self._log is not None:
                with self._log.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(result.to_json()) + "\n")
            total = sum(each.faults for each in self.results)
        self._say(f"{result.line()}; {total} in all")
        if result.verdict is Ending.RIGHT:
            shutil.rmtree(folder, ignore_errors=True)
            return
        for line in result.told:
            self._say(f"  {line}")
        self._say(f"  kept: {folder}; again: {result.command}")


def known(log: Path | None) -> list[Result]:
    """Read the results of an earlier start; a line that was cut off is none."""
    found = []
    if log is not None and log.exists():
        for line in log.read_text(encoding="utf-8").splitlines():
            try:
                found.append(Result.from_json(json.loads(line)))
            except (ValueError, KeyError, TypeError):
                continue
    return found
