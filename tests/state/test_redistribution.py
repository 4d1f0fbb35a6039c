from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import StateError
from headrace.state import layout
from headrace.state.chain import Chain
from headrace.state.files import Files
from headrace.state.layout import EVERYWHERE, MIXED, OWN, TIMED, Kind
from headrace.state.lmdb_store import StatePartition, forget_local, open_partition
from headrace.state.snapshot import read_chain, redistribute


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    forget_local()
    yield
    forget_local()


def name(kind: Kind, place: int, rest: bytes = b"") -> bytes:
    return layout.name(kind, 3, place, rest, time=place * 7 if kind in TIMED else None)


def written(root: Path, shards: int) -> tuple[list[Chain], dict[bytes, bytes], dict[bytes, bytes]]:
    """Write rows of every kind over two epochs and a deletion on so many shards.

    Gives the chains, the rows that keys own, and those that are the same everywhere.
    """
    files = Files(str(root / "checkpoint"))
    keyed: dict[bytes, bytes] = {}
    common: dict[bytes, bytes] = {}
    chains = []
    for shard in range(shards):
        first = open_partition(root / "local", files, f"1-{shard}", None)
        second: dict[bytes, bytes] = {}
        for kind in set(Kind) - MIXED:
            for number in range(24):
                row = name(kind, number, b"x")
                value = f"{kind.name} {number}".encode()
                if kind in EVERYWHERE:
                    common[row] = value
                elif kind in OWN:
                    value += f" of {shard}".encode()
                elif number % shards == shard:
                    keyed[row] = value
                else:
                    continue
                if number % 2:
                    second[row] = value
                else:
                    first.put(row, value)
        gone = name(Kind.CELL, shard, b"gone")
        first.put(gone, b"gone")
        again = open_partition(root / "local", files, f"1-{shard}", first.seal("e1"))
        again.delete(gone)
        for row, value in second.items():
            again.put(row, value)
        chains.append(again.seal("e2"))
    return chains, keyed, common


def dealt(root: Path, chains: list[Chain], shard: int, shards: int) -> StatePartition:
    return open_partition(
        root / "new", Files(str(root / "checkpoint")), f"2-{shard}", None,
        from_chains=chains, shard=shard, shards=shards,
    )


def everything(partition: StatePartition) -> dict[bytes, bytes]:
    return dict(partition.scan(b"", b"\xff"))


@pytest.mark.parametrize(("old", "new"), [(1, 3), (3, 2), (4, 1), (2, 5), (3, 3)])
def test_every_row_of_a_key_is_on_one_new_shard_and_common_rows_on_all(
    tmp_path: Path, old: int, new: int
) -> None:
    chains, keyed, common = written(tmp_path, old)
    seen: dict[bytes, bytes] = {}
    for shard in range(new):
        partition = dealt(tmp_path, chains, shard, new)
        assert partition.restored
        rows = everything(partition)
        partition.close()
        assert {row: rows.pop(row) for row in common} == common
        assert {layout.key_group_of(row) % new for row in rows} <= {shard}
        assert not seen.keys() & rows.keys()
        seen.update(rows)
    assert seen == keyed


def test_rows_are_given_once_and_in_order_common_ones_too(tmp_path: Path) -> None:
    chains, keyed, common = written(tmp_path, 3)
    rows = list(redistribute(Files(str(tmp_path / "checkpoint")), chains, 0, 1))
    assert rows == sorted({**keyed, **common}.items())


def test_the_first_seal_makes_a_chain_that_stands_alone(tmp_path: Path) -> None:
    chains, keyed, common = written(tmp_path, 2)
    files = Files(str(tmp_path / "checkpoint"))
    partition = dealt(tmp_path, chains, 0, 1)
    new = name(Kind.CELL, 99)
    partition.put(new, b"new")
    chain = partition.seal("e3")
    files.delete([row for each in chains for row in each.names()])
    forget_local()
    shutil.rmtree(tmp_path / "new")
    again = open_partition(tmp_path / "new", files, "2-0", chain)
    assert everything(again) == {**keyed, **common, new: b"new"}
    assert dict(read_chain(files, chain, lambda _: True)) == {**keyed, **common, new: b"new"}


def test_the_first_seal_writes_the_snapshot_even_if_the_epoch_changed_nothing(
    tmp_path: Path,
) -> None:
    chains, keyed, common = written(tmp_path, 2)
    chain = dealt(tmp_path, chains, 0, 1).seal("e3")
    assert (len(chain.base), chain.logs) == (1, ())
    files = Files(str(tmp_path / "checkpoint"))
    partition = open_partition(tmp_path / "new", files, "2-0", chain)
    assert (partition.fetched, partition.restored) == (0, False)
    assert everything(partition) == {**keyed, **common}


def test_the_epoch_after_reads_no_file(tmp_path: Path) -> None:
    chains, _, _ = written(tmp_path, 2)
    partition = dealt(tmp_path, chains, 0, 3)
    partition.put(name(Kind.CELL, 0), b"new")
    chain = partition.seal("e3")
    files = Files(str(tmp_path / "checkpoint"))
    following = open_partition(tmp_path / "new", files, "2-0", chain)
    assert (following.fetched, following.restored) == (0, False)
    assert following.get(name(Kind.CELL, 0)) == b"new"


def test_an_epoch_that_is_redone_finds_the_dealt_rows_and_none_of_the_failed_try(
    tmp_path: Path,
) -> None:
    chains, keyed, common = written(tmp_path, 2)
    failed = dealt(tmp_path, chains, 0, 1)
    failed.put(name(Kind.CELL, 99), b"lost")
    failed.seal("e3-lost")
    again = dealt(tmp_path, chains, 0, 1)
    assert (again.fetched, again.restored) == (0, False)
    assert everything(again) == {**keyed, **common}


def test_rows_dealt_from_other_chains_are_not_taken_for_these(tmp_path: Path) -> None:
    chains, _, common = written(tmp_path, 2)
    dealt(tmp_path, chains, 0, 1).close()
    assert everything(dealt(tmp_path, chains[:1], 0, 1)).keys() > common.keys()
    assert not everything(dealt(tmp_path, [Chain()], 0, 1))


def test_a_deal_that_was_cut_off_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.state.lmdb_store._DEALT_ROWS", 5)
    chains, keyed, common = written(tmp_path, 1)
    files = Files(str(tmp_path / "checkpoint"))

    def cut(*_: object) -> Iterator[tuple[bytes, bytes]]:
        rows = redistribute(files, chains, 0, 1)
        for _n in range(12):
            yield next(rows)
        msg = "cut off"
        raise StateError(msg)

    with monkeypatch.context() as patch:
        patch.setattr("headrace.state.lmdb_store.redistribute", cut)
        with pytest.raises(StateError, match="cut off"):
            dealt(tmp_path, chains, 0, 1)
    assert everything(dealt(tmp_path, chains, 0, 1)) == {**keyed, **common}


def test_shards_that_have_no_rows_get_an_empty_chain(tmp_path: Path) -> None:
    chain = dealt(tmp_path, [Chain(), Chain()], 0, 3).seal("e1")
    assert chain.names() == ()
    partition = open_partition(tmp_path / "new", Files(str(tmp_path / "checkpoint")), "2-0", chain)
    assert everything(partition) == {}


def test_a_row_of_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    files = Files(str(tmp_path / "checkpoint"))
    partition = open_partition(tmp_path / "local", files, "1-0", None)
    partition.put(b"?unknown", b"1")
    chain = partition.seal("e1")
    with pytest.raises(StateError, match="no kind this release knows"):
        list(redistribute(files, [chain], 0, 1))


EPOCHS = st.lists(
    st.dictionaries(st.integers(0, 12), st.none() | st.binary(max_size=3), min_size=1),
    max_size=12,
)


@settings(max_examples=40, deadline=None)
@given(EPOCHS)
def test_reading_a_chain_gives_the_last_value_of_each_row_in_order(
    tmp_path_factory: pytest.TempPathFactory, epochs: list[dict[int, bytes | None]]
) -> None:
    root = tmp_path_factory.mktemp("chain")
    files = Files(str(root / "checkpoint"))
    model: dict[int, bytes] = {}
    chain = Chain()
    for number, changes in enumerate(epochs):
        partition = open_partition(root / "local", files, "u", chain)
        for place, value in changes.items():
            row = name(Kind.CELL, place)
            if value is None:
                partition.delete(row)
                model.pop(place, None)
            else:
                partition.put(row, value)
                model[place] = value
        chain = partition.seal(f"e{number}")
    expected = [(name(Kind.CELL, place), model[place]) for place in sorted(model)]
    assert list(read_chain(files, chain, lambda _: True)) == expected
    odd = [pair for pair in expected if layout.key_group_of(pair[0]) % 2]
    assert list(read_chain(files, chain, lambda row: layout.key_group_of(row) % 2 == 1)) == odd
    forget_local()
