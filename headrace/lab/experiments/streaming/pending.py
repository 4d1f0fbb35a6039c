"""Pushed-back elements on the worker's pending graph over the real store, without Spark.

Elements wait for side windows that open in random order, a few per epoch. The time per element must
not grow with their number, and no element may be read more often than once.
"""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path
from typing import Any

from apache_beam import coders
from apache_beam.coders.coder_impl import StreamCoderImpl, create_OutputStream
from apache_beam.transforms import trigger
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import FixedWindows, IntervalWindow
from apache_beam.utils import windowed_value
from apache_beam.utils.timestamp import MIN_TIMESTAMP

from headrace.lab.experiments.streaming.bed import Bed, load
from headrace.lab.experiments.streaming.figures import Bar, CaseResult, Line
from headrace.state.chain import Chain
from headrace.state.files import Files
from headrace.state.lmdb_store import forget_local, open_partition
from headrace.worker.batched.batches import Columns
from headrace.worker.sideinputs.pending_graph import PendingGraph, Side
from headrace.worker.sideinputs.views import StoredSide

SIZES = (100_000, 300_000, 1_000_000)
WINDOWS = 1_000
WINDOW_SECONDS = 10
#: Epochs that bring elements, and windows that each later epoch opens.
FILLING_EPOCHS = 10
OPENED_AT_ONCE = 20
BATCH = 4_096
BAR = 1.5
_CHANNEL, _STAGE = 5, 3
_BEGINNING = MIN_TIMESTAMP.micros
_WINDOW_CODER = coders.coders.IntervalWindowCoder()
_SIDE_CODER = coders.WindowedValueCoder(coders.VarIntCoder(), _WINDOW_CODER)
#: Fires with its first element, so that a window opens when it gets one.
_AT_ONCE = Windowing(
    FixedWindows(WINDOW_SECONDS), triggerfn=trigger.Repeatedly(trigger.AfterCount(1)),
    accumulation_mode=trigger.AccumulationMode.DISCARDING,
)


class _CountingImpl(StreamCoderImpl):  # type: ignore[misc]
    """Integers; counts how often one is read."""

    def __init__(self) -> None:
        self.decoded = 0

    def encode_to_stream(self, value: int, out: Any, nested: bool) -> None:  # noqa: ARG002 (Beam's form)
        out.write_var_int64(value)

    def decode_from_stream(self, stream: Any, nested: bool) -> int:  # noqa: ARG002 (Beam's form)
        self.decoded += 1
        return int(stream.read_var_int64())


class Counting(coders.Coder):  # type: ignore[misc]
    """A coder of integers that knows how often it read one."""

    def __init__(self) -> None:
        self.impl = _CountingImpl()

    def get_impl(self) -> Any:
        return self.impl

    def is_deterministic(self) -> bool:
        return True


def _window(number: int) -> IntervalWindow:
    return IntervalWindow(number * WINDOW_SECONDS, (number + 1) * WINDOW_SECONDS)


#: Made beforehand: only the graph is timed.
_WINDOWS = [(_window(number),) for number in range(WINDOWS)]
_TIMES = [window.start.micros for (window,) in _WINDOWS]


class Waiting:
    """A pending graph and its side input on a state partition of its own."""

    def __init__(self, folder: Path, value_coder: Any) -> None:
        self._local, self._files = folder / "local", Files(str(folder / "checkpoint"))
        self._chain = Chain()
        self._epoch = 0
        self._channel = StoredSide(_CHANNEL, _SIDE_CODER, _AT_ONCE, False)
        side = Side(
            index=0, mapping=lambda window: window, channel=self._channel,
            window_coder=_WINDOW_CODER,
        )
        coder = coders.WindowedValueCoder(value_coder, _WINDOW_CODER)
        self._graph = PendingGraph(_STAGE, [side], coder, None)
        self.count = self.total = 0
        self.waiting = 0

    def epoch(self, opened: list[int], first: int, last: int) -> None:
        """Open side windows, then bring elements `first` to `last` - 1."""
        partition = open_partition(self._local, self._files, "1-0", self._chain)
        try:
            self._graph.attach(partition)
            self._channel.attach(partition, _BEGINNING)
            if opened:
                self._channel.add_rows(_payload(opened))
            found = [(0, window) for window in self._channel.advance(_BEGINNING)]
            for values, _ in self._graph.release(found, [_BEGINNING]):
                self.count += len(values)
                self.total += sum(values)
            for start in range(first, last, BATCH):
                self._admit(range(start, min(start + BATCH, last)))
            self.waiting = self._graph.count()
            self._channel.flush()
            self._graph.flush()
            self._chain = partition.seal(f"{self._epoch:08d}")
        finally:
            partition.close()
        self._epoch += 1

    def _admit(self, numbers: range) -> None:
        windows = [_WINDOWS[n % WINDOWS] for n in numbers]
        times = [_TIMES[n % WINDOWS] for n in numbers]
        panes = [windowed_value.PANE_INFO_UNKNOWN] * len(windows)
        passed = self._graph.admit(list(numbers), Columns(times, windows, panes))
        if passed is not None:
            self.count += len(passed[0])
            self.total += sum(passed[0])


def _payload(opened: list[int]) -> bytes:
    out = create_OutputStream()
    for number in opened:
        window = _window(number)
        element = windowed_value.create(
            number, window.start.micros, (window,), windowed_value.PANE_INFO_UNKNOWN
        )
        _SIDE_CODER.get_impl().encode_to_stream(element, out, True)
    return bytes(out.get())


def run(size: int, value_coder: Any) -> tuple[float, float, list[str]]:
    """Push elements back and let them go; give the seconds of both, and what was wrong.

    Seconds of processor time: all is in this one thread, and other processes must not count.
    """
    order = list(range(WINDOWS))
    random.Random(7).shuffle(order)
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        graph = Waiting(Path(folder), value_coder)
        start = time.process_time()
        for n in range(FILLING_EPOCHS):
            graph.epoch([], size * n // FILLING_EPOCHS, size * (n + 1) // FILLING_EPOCHS)
        filled = time.process_time()
        waited = graph.waiting
        for n in range(0, WINDOWS, OPENED_AT_ONCE):
            graph.epoch(order[n : n + OPENED_AT_ONCE], 0, 0)
        end = time.process_time()
        forget_local()
    told = (waited, graph.count, graph.total, graph.waiting)
    right = (size, size, size * (size - 1) // 2, 0)
    wrong = [] if told == right else [f"pending, {size}: waited, came, total, left {told}"]
    return filled - start, end - filled, wrong


def decoded(size: int) -> int:
    """Give how often elements were read in a whole run."""
    coder = Counting()
    run(size, coder)
    return coder.impl.decoded


def measure(bed: Bed | None = None, *, scale: float = 1.0, rounds: int = 3) -> CaseResult:
    """Run the sizes in turns."""
    before = load()
    sizes = [round(size * scale) for size in SIZES]
    taken: dict[int, list[tuple[float, float]]] = {size: [] for size in sizes}
    wrong: list[str] = []
    for number in range(rounds):
        for size in sizes:
            pushing, releasing, complaints = run(size, coders.VarIntCoder())
            taken[size].append((pushing, releasing))
            wrong += complaints
            if bed is not None:
                seconds = pushing + releasing
                bed.say(f"pending, round {number + 1}: {size} elements in {seconds:.2f} s")
    read = decoded(sizes[0])
    if read != sizes[0]:
        wrong.append(f"pending: {sizes[0]} elements were read {read} times")
    lines = tuple(
        Line(
            name=f"{size:,} elements", unit="CPU us per element",
            samples=tuple((a + b) / size * 1e6 for a, b in found),
            details={
                "pushing back": min(a for a, _ in found) / size * 1e6,
                "releasing": min(b for _, b in found) / size * 1e6,
            },
        )
        for size, found in taken.items()
    )
    # Upwards only: a small run carries the fixed cost of its epochs on fewer elements.
    middles = [line.median for line in lines]
    growth = max(
        later / earlier for i, earlier in enumerate(middles) for later in middles[i:]
    )
    bar = Bar(
        what="time per element, the most that a larger size takes over a smaller", value=growth,
        limit=BAR, at_most=True,
    )
    return CaseResult(
        case="pending", what=f"elements that wait for {WINDOWS:,} side windows, one shard",
        lines=lines, bars=(bar,), wrong=tuple(wrong), load=(before, load()),
    )
