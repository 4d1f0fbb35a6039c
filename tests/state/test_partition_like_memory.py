"""Random epochs, crashes and moves between machines: a state partition is what the model is."""

from __future__ import annotations

import shutil
import tempfile
from itertools import count
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import headrace.state.chain as chain_module
import headrace.state.compaction as compaction
from headrace.state.chain import Chain
from headrace.state.files import Files
from headrace.state.lmdb_store import StatePartition, forget_local, open_partition
from headrace.state.snapshot import read_chain, verify_chain
from headrace.state.store import MemoryStore

NAMES = st.integers(0, 30).map(lambda number: b"n%02d" % number)
VALUES = st.binary(max_size=40)
#: Small, so that a short run meets merges of two tiers, snapshots in parts and forgotten pasts.
SMALL = {
    (compaction, "MERGED_LOGS"): 3,
    (compaction, "SNAPSHOT_FROM_BYTES"): 9000,
    (compaction, "PART_BYTES"): 300,
    (compaction, "_BATCH_ROWS"): 5,
    (chain_module, "PAST_VERSIONS"): 5,
}


class Epochs(RuleBasedStateMachine):
    """A state partition on two machines, beside the store in memory."""

    @initialize()
    def begin(self) -> None:
        self.before = {(module, what): getattr(module, what) for module, what in SMALL}
        for (module, what), value in SMALL.items():
            setattr(module, what, value)
        self.root = Path(tempfile.mkdtemp())
        self.files = Files(str(self.root / "checkpoint"))
        self.machine = 0
        self.stems = count()
        self.history: list[tuple[Chain, dict[bytes, bytes]]] = [(Chain(), {})]
        self.open()

    def teardown(self) -> None:
        forget_local()
        shutil.rmtree(self.root)
        for (module, what), value in self.before.items():
            setattr(module, what, value)

    def open(self) -> None:
        """Begin an epoch at the last version that counts."""
        chain, rows = self.history[-1]
        local = self.root / f"local{self.machine}"
        self.partition: StatePartition = open_partition(
            local, self.files, "u", chain, map_bytes=1 << 16
        )
        self.model = MemoryStore()
        self.model.rows = dict(rows)

    @rule(name=NAMES, value=VALUES)
    def put(self, name: bytes, value: bytes) -> None:
        self.partition.put(name, value)
        self.model.put(name, value)

    @rule(names=st.lists(NAMES, max_size=20), value=VALUES)
    def put_many(self, names: list[bytes], value: bytes) -> None:
        for name in names:
            self.put(name, value)

    @rule(name=NAMES)
    def delete(self, name: bytes) -> None:
        self.partition.delete(name)
        self.model.delete(name)

    @rule(name=NAMES)
    def get(self, name: bytes) -> None:
        assert self.partition.get(name) == self.model.get(name)

    @rule(start=NAMES, end=NAMES)
    def scan(self, start: bytes, end: bytes) -> None:
        assert list(self.partition.scan(start, end)) == list(self.model.scan(start, end))

    @rule(start=NAMES, end=NAMES, most=st.integers(1, 5))
    def take_first_rows(self, start: bytes, end: bytes, most: int) -> None:
        """Use the range like a queue."""
        for _ in range(most):
            first = next(self.partition.scan(start, end), None)
            assert first == next(self.model.scan(start, end), None)
            if first is not None:
                self.delete(first[0])

    @rule(counts=st.booleans())
    def seal(self, counts: bool) -> None:
        """Seal; the driver may die before it writes the manifest."""
        chain = self.partition.seal(f"e{next(self.stems)}")
        rows = dict(self.model.rows)
        assert dict(read_chain(self.files, chain, lambda _: True)) == rows
        assert verify_chain(self.files, chain) == []
        if counts:
            self.history.append((chain, rows))
        self.open()

    @rule(rounds=st.integers(1, 8), name=NAMES)
    def several_epochs(self, rounds: int, name: bytes) -> None:
        for number in range(rounds):
            self.put(name, b"%d" % number)
            self.put(b"n%02d" % number, b"round")
            self.seal(counts=True)

    @rule()
    def close(self) -> None:
        self.partition.close()
        self.open()

    @rule()
    def fail_in_mid_epoch(self) -> None:
        self.open()

    @rule()
    def next_epoch_in_another_process(self) -> None:
        forget_local()
        self.open()

    @rule()
    def next_epoch_on_the_other_machine(self) -> None:
        forget_local()
        self.machine = 1 - self.machine
        self.open()

    @rule()
    def lose_the_local_folder(self) -> None:
        shutil.rmtree(self.root / f"local{self.machine}")
        self.open()

    @rule(back=st.integers(1, 6))
    def return_to_an_older_checkpoint(self, back: int) -> None:
        del self.history[max(1, len(self.history) - back) :]
        self.open()

    @invariant()
    def everything_is_as_in_memory(self) -> None:
        if hasattr(self, "partition"):
            rows = dict(self.model.rows)
            assert dict(self.partition.scan(b"", b"\xff")) == rows


TestEpochs = Epochs.TestCase
TestEpochs.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
