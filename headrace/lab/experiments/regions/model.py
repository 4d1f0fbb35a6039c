"""A discrete-event model of ordered parallel regions: splitter, channels, merger.

Takes a `Region` and `Costs`, gives when each result left. Processes handle one item after the other
and need a core while they do; splitter and last merger have cores of their own. The splitter waits
where a channel has no room; mergers take everything, as order may need what comes later. Nothing is
measured here: seconds are those of the model.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import log2

import numpy as np

from headrace.lab.experiments.regions.costs import Costs
from headrace.lab.experiments.regions.mergers import Item, Strategy, merger_of, pulse_after

#: Tuples that may wait before a channel.
ROOM = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """What is modelled."""

    channels: int
    tuples: int
    strategy: Strategy
    keyed: bool = False  # tuples go by their keys; else in turn
    shuffle: bool = False  # a second region with other keys follows, channel to channel
    cores: int | None = None  # for all channels together; None: one for each process
    boost: float = 1.0  # what a core does, at most, while two processes share it, over one alone
    epoch: int = 10  # tuples of each channel between two pulses
    selectivity: float = 1.0  # results for each tuple; above 1 whole
    only_results: bool = False  # work is done only for tuples that have a result
    room: int = ROOM
    seed: int = 1

    def __post_init__(self) -> None:
        if min(self.channels, self.tuples, self.epoch, self.room) < 1:
            msg = "channels, tuples, epoch and room are numbers of 1 or more"
            raise ValueError(msg)
        several = self.selectivity > 1
        if self.selectivity < 0 or (several and self.selectivity != int(self.selectivity)):
            msg = f"a selectivity of {self.selectivity} is neither a share nor a whole number"
            raise ValueError(msg)
        if self.strategy is Strategy.ROUND_ROBIN and self.keyed:
            msg = "round robin cannot follow keys"
            raise ValueError(msg)
        if (self.selectivity < 1 and not self.strategy.pulsed) or (
            several and self.strategy is not Strategy.SUB_INDEX
        ):
            msg = f"{self.strategy.value} cannot restore order at selectivity {self.selectivity}"
            raise ValueError(msg)
        if self.shuffle and not self.strategy.pulsed:
            msg = "a shuffle needs pulses: not every channel gets every number"
            raise ValueError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """What came out."""

    items: list[Item]  # in the order in which they left
    times: list[float]  # when each did
    busy: dict[str, float]  # seconds that splitter, channels (all of them) and merger worked

    @property
    def rate(self) -> float:
        """Results a second while the region was full: from a fifth of them to four fifths."""
        low, high = len(self.times) // 5, len(self.times) * 4 // 5
        seconds = self.times[high] - self.times[low] if self.times else 0.0
        return (high - low) / seconds if seconds else 0.0


#: Where an item goes, and the channel that it comes by.
Output = tuple["Process", int, Item]
Served = tuple[float, list[Output]]


@dataclass(slots=True, eq=False)
class Process:
    """Handles items, one after the other."""

    name: str
    serve: Callable[[int, Item], Served]
    pinned: bool = False  # has a core of its own
    bounded: int | None = None  # items that may wait; None: any number
    queue: deque[tuple[int, Item]] = field(default_factory=deque)
    busy: bool = False
    blocked: list[tuple[Process, list[Output]]] = field(default_factory=list)  # who waits for room


class Cores:
    """Moves the clock, and deals the cores out."""

    def __init__(self, cores: int | None, boost: float) -> None:
        self._cores = cores
        self._boost = boost
        self._slots = None if cores is None else (cores if boost <= 1 else 2 * cores)
        self._running = 0
        self._ready: deque[Process] = deque()
        self._events: list[tuple[float, int, Process, list[Output]]] = []
        self._number = 0
        self.now = 0.0
        self.busy: dict[str, float] = {}

    def wake(self, process: Process) -> None:
        """Let a process go on if it has something to do and is not about it already."""
        if process.busy or not process.queue:
            return
        process.busy = True
        if process.pinned or self._slots is None or self._running < self._slots:
            self._start(process)
        else:
            self._ready.append(process)

    def _start(self, process: Process) -> None:
        slow = 1.0
        if not process.pinned:
            self._running += 1
            slow = self._slowness()
        channel, item = process.queue.popleft()
        if process.blocked:
            waiter, outputs = process.blocked.pop(0)
            self._deliver(waiter, outputs)
        seconds, outputs = process.serve(channel, item)
        self.busy[process.name] = self.busy.get(process.name, 0.0) + seconds
        self._number += 1
        heappush(self._events, (self.now + seconds * slow, self._number, process, outputs))

    def _slowness(self) -> float:
        if self._cores is None or self._running <= self._cores:
            return 1.0
        return self._running / (self._cores + (self._running - self._cores) * (self._boost - 1))

    def _deliver(self, process: Process, outputs: list[Output]) -> None:
        """Hand outputs over, as far as there is room; then the process may go on."""
        for i, (target, channel, item) in enumerate(outputs):
            if target.bounded is not None and len(target.queue) >= target.bounded:
                target.blocked.append((process, outputs[i:]))
                return
            target.queue.append((channel, item))
            self.wake(target)
        process.busy = False
        self.wake(process)

    def run(self) -> None:
        """Go on until nothing is left to do."""
        while self._events:
            self.now, _, process, outputs = heappop(self._events)
            if not process.pinned:
                self._running -= 1
            self._deliver(process, outputs)
            while self._ready and (self._slots is None or self._running < self._slots):
                self._start(self._ready.popleft())


def simulate(region: Region, costs: Costs) -> Passage:
    """Run the model."""
    cores = Cores(region.cores, region.boost)
    items: list[Item] = []
    times: list[float] = []

    def leave(item: Item) -> None:
        items.append(item)
        times.append(cores.now)

    made = _Made(region, costs, leave)
    made.splitter.queue.extend((0, item) for item in _source(region))
    cores.wake(made.splitter)
    cores.run()
    return Passage(items=items, times=times, busy=cores.busy)


def sequential_rate(region: Region, costs: Costs) -> float:
    """Give the rate without parallel regions: source, operators one after the other, sink."""
    worked = min(region.selectivity, 1.0) if region.only_results else 1.0
    each = costs.work * worked + costs.transfer * (1 + region.selectivity)
    return region.selectivity / each


def speedup(region: Region, costs: Costs) -> float:
    """Give how many times as fast a region is as its operators one after the other."""
    return simulate(region, costs).rate / sequential_rate(region, costs)


def _source(region: Region) -> Iterator[Item]:
    """Give the tuples, and after every epoch, and at the end, a pulse."""
    every = region.epoch * region.channels
    for number in range(region.tuples):
        yield Item(number)
        if region.strategy.pulsed and (number + 1) % every == 0:
            yield pulse_after(number)
    if region.strategy.pulsed and region.tuples % every:
        yield pulse_after(region.tuples - 1)


class _Made:
    """The processes of a region."""

    def __init__(self, region: Region, costs: Costs, leave: Callable[[Item], None]) -> None:
        self._region = region
        self._costs = costs
        self._leave = leave
        random = np.random.default_rng(region.seed)
        channels = region.channels
        self._first = (
            random.integers(0, channels, region.tuples)
            if region.keyed
            else np.arange(region.tuples) % channels
        ).tolist()
        self._second = random.integers(0, channels, region.tuples).tolist()
        share = min(region.selectivity, 1.0)
        sums = np.floor(np.arange(region.tuples + 1) * share)
        self._kept = (np.diff(sums) > 0).tolist()  # evenly, so that a rate needs few results
        self._parts = max(1, int(region.selectivity))
        self._heap = costs.heap * log2(channels) if region.strategy.numbered else 0.0
        strategy = region.strategy
        self._end = merger_of(strategy, channels)
        self.merger = Process("merger", self._merge, pinned=True)
        self._inner = [
            merger_of(strategy, channels, keep_pulses=True)
            for _ in range(channels if region.shuffle else 0)
        ]
        self.right = [
            Process("channels", self._in_second(i)) for i in range(len(self._inner))
        ]
        self.left = [
            Process("channels", self._in_first(i), bounded=region.room) for i in range(channels)
        ]
        self.splitter = Process("splitter", self._split, pinned=True)

    def _split(self, _: int, item: Item) -> Served:
        costs = self._costs
        if item.pulse:
            pulses = [(channel, 0, item) for channel in self.left]
            return costs.pulse * len(pulses), pulses
        seconds = costs.split + costs.transfer
        if self._region.strategy.numbered:
            seconds += costs.seqno
        return seconds, [(self.left[self._first[item.number]], 0, item)]

    def _in_first(self, channel: int) -> Callable[[int, Item], Served]:
        """Give what a channel of the first region does."""
        costs, shuffle = self._costs, self._region.shuffle

        def serve(_: int, item: Item) -> Served:
            if item.pulse:
                targets = self.right if shuffle else [self.merger]
                return costs.pulse * (1 + len(targets)), [(t, channel, item) for t in targets]
            seconds = costs.transfer + self._work(item)
            if shuffle:  # only the second region drops or adds
                target = self.right[self._second[item.number]]
                return seconds + costs.split + costs.transfer, [(target, channel, item)]
            outputs = self._results(item, channel)
            return seconds + costs.transfer * len(outputs), outputs

        return serve

    def _work(self, item: Item) -> float:
        idle = self._region.only_results and not self._kept[item.number]
        return 0.0 if idle else self._costs.work

    def _results(self, item: Item, channel: int) -> list[Output]:
        if not self._kept[item.number]:
            return []
        return [
            (self.merger, channel, Item(item.number, part)) for part in range(self._parts)
        ]

    def _in_second(self, channel: int) -> Callable[[int, Item], Served]:
        """Give what a channel of the second region does: merge, then work."""
        costs, merger = self._costs, self._inner[channel]

        def serve(source: int, item: Item) -> Served:
            seconds = costs.pulse if item.pulse else costs.transfer + costs.merge + self._heap
            outputs: list[Output] = []
            for found in merger.take(source, item):
                if found.pulse:
                    seconds += costs.pulse
                    outputs.append((self.merger, channel, found))
                else:
                    made = self._results(found, channel)
                    seconds += self._work(found) + costs.transfer * len(made)
                    outputs += made
            return seconds, outputs

        return serve

    def _merge(self, channel: int, item: Item) -> Served:
        """Take an item of the last region; what may leave does so as the merger begins with it."""
        costs = self._costs
        for found in self._end.take(channel, item):
            self._leave(found)
        return (costs.pulse if item.pulse else costs.transfer + costs.merge + self._heap), []
