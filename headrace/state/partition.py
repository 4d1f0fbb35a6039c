"""One state partition during one epoch: the rows of one shard in one superstep.

Reads the local copy as it was opened, keeps the epoch's writes in memory, and seals them as
a change log. The local copy is not written then: the next epoch applies the log, once a manifest
names it. So a local copy never holds what did not come to count, and nothing is ever undone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, NoReturn

from headrace.errors import StateError
from headrace.state.chain import Chain, Link
from headrace.state.changelog import Draft, Rows
from headrace.state.compaction import merged, snapshot_due, write_snapshot
from headrace.state.environments import Environment
from headrace.state.files import Files
from headrace.state.kept import KEPT
from headrace.state.layout import MAX_NAME_BYTES
from headrace.state.memory_copies import MemoryCopy
from headrace.state.ordered import OrderedNames

_OVER = "the state partition is sealed or closed: what is written to it now would be lost"


class StatePartition:
    """A store (see `headrace.state.store.Store`) that an epoch reads and writes, then seals."""

    def __init__(
        self,
        environment: Environment | MemoryCopy,
        txn: Any,
        files: Files,
        folder: str,
        chain: Chain,
        *,
        founded: bool,
    ) -> None:
        self.fetched = 0  # files that had to be read to open it
        self.restored = False  # the local copy had to be built from the whole chain
        self._environment = environment
        self._files = files
        self._folder = folder
        self._chain = chain
        self._founded = founded  # False: the chain does not hold the rows yet
        self._txn = txn
        self._read = self._txn.get
        self._rows_held, self._bytes_held = environment.held(self._txn)
        # A name in `_rows` has that value; else one in `_dead` is gone; else the copy is right.
        self._rows: dict[bytes, bytes] = {}
        self._dead: set[bytes] = set()  # never shrinks: see `_passed`
        # The oldest names of `_rows`, sorted. The others are the youngest of the dictionary.
        self._names = OrderedNames()
        # By the start of a scan: the local copy has only dead rows from there up to here.
        self._passed: dict[bytes, bytes] = {}

    def get(self, name: bytes) -> bytes | None:
        """Give a row's value; None if there is no such row."""
        value = self._rows.get(name)
        if value is not None:
            return value
        if name in self._dead:
            return None
        return self._read(name)  # type: ignore[no-any-return]

    def put(self, name: bytes, value: bytes) -> None:
        """Write a row."""
        self._rows[name] = value

    def delete(self, name: bytes) -> None:
        """Take a row away, if there is one."""
        if self._rows.pop(name, None) is not None and len(self._names):
            self._names.discard(name)
        self._dead.add(name)

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Give the rows with start <= name < end in the order of their names."""
        new = len(self._rows) - len(self._names)
        if new:
            self._names.add(list(islice(reversed(self._rows), new)))
        if not self._rows_held:
            return self._written(start, end)
        return self._scanned(start, end)

    def rows_held(self) -> int:
        """Give the number of rows at the version that was opened."""
        return self._rows_held

    def bytes_held(self) -> int:
        """Give the bytes of the pages these rows take in the local copy."""
        return self._bytes_held

    def seal(self, stem: str) -> Chain:
        """End the epoch: write what changed as a log, and give the chain that holds it.

        If nothing changed the chain is as it was and no file is written. The state partition is
        closed afterwards, also when a file could not be written.

        Args:
            stem: names the files; never used before for this state partition.
        """
        try:
            chain, changed = self._chain, self._changes()
            names, _ = changed
            stem = f"{self._folder}/{stem}"
            if not self._founded or (names and snapshot_due(chain)):
                with self._txn.cursor() as cursor:
                    base = write_snapshot(
                        self._files, stem, cursor.iternext(), until=chain.version
                    )
                chain = replace(chain, base=base, logs=())
            elif names:
                chain = merged(self._files, stem, chain)
            if names:
                chain = chain.extended(self._log(stem, changed))
            return chain
        finally:
            self.close()

    def close(self) -> None:
        """End the epoch without sealing: forget what was written."""
        if isinstance(self._rows, _Closed):
            return
        self._environment.end_reading()
        self._rows = _Closed()
        self._names = OrderedNames()
        self._dead = set()
        self._passed = {}

    def _changes(self) -> Rows:
        rows = self._rows
        with self._txn.cursor() as cursor:
            # What came and went within the epoch leaves no trace.
            gone = [name for name in self._dead if name not in rows and cursor.set_key(name)]
        names = sorted([*rows, *gone])
        if names and (not names[0] or max(map(len, names)) > MAX_NAME_BYTES):
            longest = max(names, key=len) if names[0] else b""
            msg = (
                f"a row of {self._folder} has a name of {len(longest)} bytes "
                f"({longest[:16].hex()}...); a name has 1 to {MAX_NAME_BYTES}"
            )
            raise StateError(msg)
        return names, list(map(rows.get, names))

    def _log(self, stem: str, changed: Rows) -> Link:
        draft = Draft()
        draft.add(changed)
        name = f"{stem}.log"
        link = draft.write(self._files, name, until=self._chain.version + 1)
        KEPT.put(self._files, name, changed, draft.raw_bytes)
        return link

    def _written(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        for name in self._names.walk(start, end):
            value = self._rows.get(name)
            if value is not None:
                yield name, value

    def _scanned(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        rows, dead = self._rows, self._dead
        written = self._names.walk(start, end)
        ahead = next(written, None)
        passing = False  # dead rows, and nothing else yet
        reached = False
        cursor = self._txn.cursor()
        if cursor.set_range(self._passed.get(start, start)):
            for name, value in cursor.iternext():
                if name >= end:
                    break
                if name in dead and name not in rows:
                    passing = not reached
                    continue
                if not reached:
                    reached = True
                    if passing:
                        self._passed[start] = name
                while ahead is not None and ahead < name:
                    if (mine := rows.get(ahead)) is not None:
                        yield ahead, mine
                    ahead = next(written, None)
                if ahead == name:
                    ahead = next(written, None)
                mine = rows.get(name)
                if mine is not None:
                    yield name, mine
                elif name not in dead:
                    yield name, value
        if passing and not reached:
            self._passed[start] = end
        while ahead is not None:
            if (mine := rows.get(ahead)) is not None:
                yield ahead, mine
            ahead = next(written, None)


class _Closed(dict[bytes, bytes]):
    """Stands for the rows of a state partition whose epoch is over."""

    def __setitem__(self, name: bytes, value: bytes) -> NoReturn:
        raise StateError(_OVER)

    def get(self, _name: bytes, _default: Any = None) -> NoReturn:
        raise StateError(_OVER)

    def pop(self, _name: bytes, _default: Any = None) -> NoReturn:
        raise StateError(_OVER)

    def __len__(self) -> NoReturn:
        raise StateError(_OVER)
