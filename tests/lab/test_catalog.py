"""Finding workloads by name, on a suite that is checked by hand."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from headrace.errors import OptionError
from headrace.lab.catalog import CATALOG, Catalog, native_of
from headrace.lab.workload import Refusal, find
from tests.lab import toy


def test_a_workload_is_found_by_suite_and_name() -> None:
    assert toy.CATALOG.workload("toy", "forgetful") is toy.WORKLOADS[1]
    assert toy.CATALOG.of_suite("toy") == toy.WORKLOADS


@pytest.mark.parametrize(
    ("suite", "name", "told"),
    [
        ("toy", "count", "there is no workload of toy 'count'; did you mean counts? "
                         "There are counts, forgetful, batch-only"),
        ("toy", "zzz", "there is no workload of toy 'zzz'. There are counts, forgetful, "
                       "batch-only"),
        ("TOY", "counts", "there is no suite 'TOY'; did you mean toy? There is toy"),
    ],
    ids=["near", "far", "case"],
)
def test_an_unknown_name_gives_the_nearest_one_and_all_there_are(
    suite: str, name: str, told: str
) -> None:
    with pytest.raises(OptionError) as caught:
        toy.CATALOG.workload(suite, name)
    assert str(caught.value) == told


def test_a_suite_is_not_loaded_before_it_is_asked_for() -> None:
    catalog = Catalog({"toy": "tests.lab.toy", "broken": "no.such.module"})
    assert catalog.suites == ("toy", "broken")
    assert catalog.workload("toy", "counts").name == "counts"
    with pytest.raises(ModuleNotFoundError):
        catalog.of_suite("broken")


def test_asking_for_the_names_of_suites_does_not_load_beam() -> None:
    code = (
        "import sys; from headrace.lab.catalog import CATALOG; assert CATALOG.suites; "
        "sys.exit('apache_beam' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("suite", CATALOG.suites)
def test_the_workloads_of_a_suite_say_its_name_and_have_names_of_their_own(suite: str) -> None:
    found = CATALOG.of_suite(suite)
    assert found
    assert {workload.suite for workload in found} == {suite}
    names = [workload.name for workload in found]
    assert len(set(names)) == len(names)


def test_a_refusal_may_stand_in_the_workload_or_behind_its_name() -> None:
    (counts, _, batch_only) = toy.WORKLOADS
    assert native_of(counts) is toy.native_counts
    assert native_of(batch_only) is batch_only.native
    named = replace(counts, native="tests.lab.toy:NO_TOYS")
    assert native_of(named) is toy.NO_TOYS


@pytest.mark.parametrize("suite", CATALOG.suites)
def test_the_oracles_and_native_versions_that_workloads_name_are_there(suite: str) -> None:
    pytest.importorskip("duckdb")
    for workload in CATALOG.of_suite(suite):
        assert callable(find(workload.oracle)), workload.full_name
        native = native_of(workload)
        if isinstance(native, Refusal):
            assert native.reason, workload.full_name
        else:
            assert callable(native), workload.full_name
