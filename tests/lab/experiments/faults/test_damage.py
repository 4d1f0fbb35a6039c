"""A damaged checkpoint is refused by name or does no harm: some cases of `headrace lab run damage`.

One pipeline is run and stopped; each case damages a copy of what it left and starts it again.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from headrace.lab.experiments.faults.damage_cases import Case, all_cases
from headrace.lab.experiments.faults.damage_judge import Damaged, Fate, judge
from headrace.lab.experiments.faults.damage_kinds import (
    FILE_KINDS,
    NO_CRC,
    NotHereError,
    Site,
    part_of,
)
from headrace.lab.experiments.faults.damage_page import page, rows
from headrace.lab.experiments.faults.damage_pipeline import Material, prepare

#: Fewer starts than in the long form, and no crash.
MOMENTS = ((3, 1), (5, 3))
#: Part of the checkpoint or output, what is done to it, what becomes of it, whether verify tells:
#: it reads a checkpoint alone, so it knows nothing of a sink that is newer or whose note is torn.
CASES = (
    ("lock", "bit flipped", Fate.HARMLESS, False),
    ("spark commits, older", "deleted" + NO_CRC, Fate.HARMLESS, False),
    ("manifests, newest", "bit flipped", Fate.NAMED, True),
    ("state, needed", "cut to half", Fate.NAMED, True),
    ("pipeline.json", "cut to zero", Fate.NAMED, True),
    ("checkpoint/manifests/", "older version", Fate.NAMED, True),
    ("checkpoint/", "older version", Fate.NAMED, False),
    ("checkpoint/spark/N/", "deleted", Fate.NAMED, True),
    ("checkpoint/spark/N/", "older version", Fate.NAMED, True),
    ("checkpoint/spark/N/", "newest entries removed", Fate.NAMED, True),
    ("spark metadata", "cut to zero" + NO_CRC, Fate.NAMED, True),
    ("spark offsets, newest", "swapped with sibling", Fate.NAMED, True),
    ("spark commits, newest", "cut to zero" + NO_CRC, Fate.NAMED, True),
    ("output, note", "cut to zero", Fate.NAMED, False),
)


@pytest.fixture(scope="module")
def material(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Material:
    return prepare(spark, tmp_path_factory.mktemp("damage"), MOMENTS, ("rest",))


@pytest.fixture(scope="module")
def cases(material: Material) -> dict[tuple[str, str], Case]:
    """One case of each part and kind."""
    bases = {"rest": material.base("rest").folder}
    return {(case.part, case.kind): case for case in all_cases(bases, 7, 1)}


@pytest.mark.spark
@pytest.mark.timeout(240)
@pytest.mark.parametrize(("part", "kind", "outcome", "flagged"), CASES)
def test_a_damage_is_refused_by_name_and_told_by_verify_or_does_no_harm(
    spark: Any, material: Material, cases: dict[tuple[str, str], Case], tmp_path: Path,
    part: str, kind: str, outcome: Fate, flagged: bool,
) -> None:
    found = judge(spark, material, cases[part, kind], tmp_path / "case", restore=False)
    assert found is not None
    assert (found.outcome, found.flagged) == (outcome, flagged), found


def touch(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """What a run leaves, in miniature; beside it the same folder as it was earlier."""
    made = tmp_path / "now"
    for number in (6, 7):
        named = f'{{"name":"state/1-0/0000000{number}-x.log"}}'
        touch(made / f"checkpoint/manifests/0000000{number}.json", named)
        touch(made / f"checkpoint/state/1-0/0000000{number}-x.log", f"state {number}")
        touch(made / f"checkpoint/spark/0/offsets/{number}", f"v1\n{number}")
        touch(made / f"checkpoint/spark/0/offsets/.{number}.crc", "sum")
    touch(made / "checkpoint/spark/0/metadata", "id")
    touch(made / "checkpoint/lock", "pid")
    touch(made / "output/joined/_headrace/0123456789abcdef/part-0.txt", "note")
    touch(made / "output/joined/epoch=00000007/part-0.parquet", "rows")
    touch(tmp_path / "then/checkpoint/spark/0/offsets/6", "v1\n5")
    return made


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("checkpoint/lock", "lock"),
        ("checkpoint/manifests/00000006.json", "manifests, older"),
        ("checkpoint/manifests/00000007.json", "manifests, newest"),
        ("checkpoint/state/1-0/00000006-x.log", "state, not needed any more"),
        ("checkpoint/state/1-0/00000007-x.log", "state, needed"),
        ("checkpoint/spark/0", "checkpoint/spark/N/"),
        ("checkpoint/spark/0/metadata", "spark metadata"),
        ("checkpoint/spark/0/offsets/7", "spark offsets, newest"),
        ("checkpoint/spark/0/offsets/.6.crc", "spark offsets, older .crc"),
        ("output/joined/_headrace/0123456789abcdef/part-0.txt", "output, note"),
        ("output/joined/epoch=00000007/part-0.parquet", "output, rows of an epoch"),
    ],
)
def test_every_path_is_known_as_a_part(home: Path, path: str, part: str) -> None:
    assert part_of(home, path) == part


@pytest.mark.parametrize(
    ("kind", "left"),
    [
        ("cut to half", b"v1"),
        ("cut to zero", b""),
        ("deleted", None),
        ("doubled", b"v1\n6v1\n6"),
        ("older version", b"v1\n5"),
        ("swapped with sibling", b"v1\n7"),
    ],
)
def test_a_damage_does_what_its_name_says(home: Path, kind: str, left: bytes | None) -> None:
    target = home / "checkpoint/spark/0/offsets/6"
    site = Site(home, "checkpoint/spark/0/offsets/6", (home.parent / "then",), random.Random(1))
    assert "checkpoint/spark/0/offsets/6" in FILE_KINDS[kind](site)
    assert (target.read_bytes() if target.exists() else None) == left
    assert (target.parent / ".6.crc").exists()


def test_a_flip_changes_one_bit_and_a_changed_digit_is_a_digit_still(home: Path) -> None:
    target = home / "checkpoint/spark/0/offsets/6"
    before = target.read_bytes()
    site = Site(home, "checkpoint/spark/0/offsets/6", (), random.Random(1))
    FILE_KINDS["bit flipped" + NO_CRC](site)
    changed = [one ^ other for one, other in zip(before, target.read_bytes(), strict=True)]
    assert sum(byte.bit_count() for byte in changed) == 1
    assert not (target.parent / ".6.crc").exists()
    target.write_bytes(before)
    FILE_KINDS["digit changed"](site)
    after = target.read_text()
    assert after != before.decode()
    assert after[0] + after[2] == "v\n"
    assert (after[1] + after[3]).isdigit()


def test_what_cannot_be_done_leaves_the_path_as_it_is(home: Path) -> None:
    site = Site(home, "checkpoint/lock", (home.parent / "then",), random.Random(1))
    for kind in ("older version", "digit changed", "copied to next number", "deleted" + NO_CRC):
        with pytest.raises(NotHereError):
            FILE_KINDS[kind](site)
    assert (home / "checkpoint/lock").read_text() == "pid"


def test_cases_are_drawn_from_the_seed_and_the_first_of_them_reach_every_part(home: Path) -> None:
    drawn = [list(all_cases({"rest": home}, seed, 2)) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len({case.name for case in drawn[0]}) == len(drawn[0])
    strata = {(case.part, case.kind) for case in drawn[0]}
    assert {(case.part, case.kind) for case in drawn[0][: len(strata)]} == strata


def test_the_table_counts_outcomes_and_what_verify_flagged_of_the_harmful() -> None:
    def verdict(part: str, outcome: Fate, *, flagged: bool) -> Damaged:
        case = Case(base="rest", part=part, path="checkpoint/x", kind="deleted", seed=1)
        return Damaged(case=case, outcome=outcome, flagged=flagged, told="why")

    found = [
        verdict("lock", Fate.HARMLESS, flagged=False),
        verdict("state", Fate.NAMED, flagged=True),
        verdict("state", Fate.WRONG, flagged=False),
    ]
    assert rows(found) == [
        ("lock", "1", "-", "1", "-", "-", "-", "-", "-"),
        ("state", "2", "1", "-", "-", "-", "1", "-", "1 of 2"),
        ("all", "3", "1", "1", "-", "-", "1", "-", "1 of 2"),
    ]
    assert Damaged.from_json(found[1].to_json()) == found[1]
    assert "| state | 2 | 1 | - | - | - | 1 | - | 1 of 2 |" in page(found, 1)
