from __future__ import annotations

import json

import pytest

from headrace.errors import CheckpointError
from headrace.state.chain import BETWEEN, PAST_VERSIONS, AppliedVersion, Chain, Link, mark_of


def link(name: str, until: int, tier: int = 0) -> Link:
    return Link(name=name, size=10, crc=7, rows=1, until=until, tier=tier)


def chain_of(*links: Link, base: tuple[Link, ...] = (), version: int = 0) -> Chain:
    """Give a chain whose past is the marks of the names `log1`, `log2`, ..."""
    version = version or links[-1].until
    past = tuple(mark_of(f"log{number}") for number in range(1, version + 1))
    return Chain(base=base, logs=links, version=version, past=past)


def at(version: int) -> AppliedVersion:
    name = f"log{version}"
    return AppliedVersion(link=name, version=version, mark=mark_of(name))


PLAIN = chain_of(link("log1", 1), link("log2", 2), link("log3", 3))


def names(owed: tuple[Link, ...] | None) -> list[str] | None:
    return None if owed is None else [each.name for each in owed]


def test_an_empty_copy_lacks_every_file_base_first() -> None:
    chain = chain_of(link("log3", 3), base=(link("base0", 2), link("base1", 2)))
    assert names(chain.owed(None)) == ["base0", "base1", "log3"]


def test_a_copy_lacks_the_logs_after_the_one_it_applied_last() -> None:
    assert names(PLAIN.owed(at(1))) == ["log2", "log3"]


def test_a_copy_at_the_chains_version_lacks_nothing() -> None:
    assert names(PLAIN.owed(at(3))) == []


def test_a_copy_newer_than_the_chain_cannot_be_used() -> None:
    assert PLAIN.owed(at(4)) is None


def test_a_copy_of_another_past_cannot_be_used_though_its_version_number_fits() -> None:
    merged = chain_of(link("merged", 8, tier=1), link("log9", 9))
    other = AppliedVersion(link="other3", version=3, mark=mark_of("other3"))
    assert merged.owed(other) is None


def test_a_merged_log_serves_a_copy_that_stands_inside_its_span() -> None:
    merged = chain_of(link("older", 4, tier=1), link("merged", 8, tier=1), link("log9", 9))
    assert names(merged.owed(at(6))) == ["merged", "log9"]


def test_a_copy_at_the_end_of_a_merged_log_does_not_need_it() -> None:
    merged = chain_of(link("merged", 8, tier=1), link("log9", 9))
    assert names(merged.owed(at(8))) == ["log9"]


def test_a_snapshot_does_not_serve_a_copy_that_already_has_rows() -> None:
    chain = chain_of(link("log9", 9), base=(link("base0", 8),))
    assert chain.owed(at(7)) is None
    assert names(chain.owed(at(8))) == ["log9"]


def test_a_copy_that_holds_some_parts_of_the_snapshot_goes_on_with_the_rest() -> None:
    chain = chain_of(link("log9", 9), base=(link("base0", 8), link("base1", 8)))
    applied = chain.applied(chain.base[0])
    assert applied.version == BETWEEN
    assert names(chain.owed(applied)) == ["base1", "log9"]
    assert chain.applied(chain.base[1]).version == 8


def test_a_copy_that_stands_between_versions_serves_no_other_chain() -> None:
    chain = chain_of(link("log9", 9), base=(link("base0", 8), link("base1", 8)))
    assert chain_of(link("log9", 9)).owed(chain.applied(chain.base[0])) is None


def test_the_past_is_bounded_and_older_copies_are_built_anew() -> None:
    chain = Chain()
    for number in range(1, PAST_VERSIONS + 3):
        chain = chain.extended(link(f"log{number}", number))
    assert len(chain.past) == PAST_VERSIONS
    whole = link("merged", chain.version, tier=1)
    merged = Chain(logs=(whole,), version=chain.version, past=chain.past)
    assert merged.owed(at(2)) is None
    assert names(merged.owed(at(3))) == ["merged"]


def test_an_applied_version_survives_its_encoding_though_the_name_has_blanks() -> None:
    applied = AppliedVersion(link="state/a b/1.log", version=BETWEEN, mark=5)
    assert AppliedVersion.decode(applied.encode()) == applied


def test_a_chain_survives_the_manifest() -> None:
    chain = chain_of(link("log9", 9, tier=2), base=(link("base0", 8),))
    assert Chain.from_json(json.loads(json.dumps(chain.to_json()))) == chain


def test_a_chain_names_all_its_files() -> None:
    chain = chain_of(link("log9", 9), base=(link("base0", 8),))
    assert chain.names() == ("base0", "log9")
    assert (chain.base_bytes(), chain.log_bytes()) == (10, 10)


@pytest.mark.parametrize(
    "data", [{}, {"version": 1, "base": [{}], "logs": [], "past": ""}, {"version": None}]
)
def test_a_malformed_chain_is_a_checkpoint_error(data: dict[str, object]) -> None:
    with pytest.raises(CheckpointError, match="cannot read"):
        Chain.from_json(data)
