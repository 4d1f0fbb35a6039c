from __future__ import annotations

import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.errors import OptionError
from headrace.lab.environments import make
from headrace.lab.experiments.beam_suites.results import Ended
from headrace.lab.experiments.beam_suites.run import run
from headrace.lab.experiments.user_suites import command
from headrace.lab.experiments.user_suites.package_environments import PackageEnvironment, unpack
from headrace.lab.experiments.user_suites.packages import PACKAGES, Package

TEST = '''
import apache_beam as beam
from apache_beam.testing.test_pipeline import TestPipeline
from apache_beam.testing.util import assert_that, equal_to


def test_a_pipeline():
    with TestPipeline() as p:
        assert_that(p | beam.Create([1, 2]) | beam.Map(lambda x: x + 1), equal_to([2, 3]))


def test_a_failure():
    assert open("tests/test_a.py").read() == ""
'''


def test_a_source_distribution_is_unpacked_without_its_outer_folder(tmp_path: Path) -> None:
    inner = tmp_path / "theirs-1.2" / "tests"
    inner.mkdir(parents=True)
    (inner / "test_a.py").write_text(TEST, encoding="utf-8")
    archive = tmp_path / "theirs-1.2.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        file.add(tmp_path / "theirs-1.2", "theirs-1.2")
    unpack(archive, tmp_path / "source")
    assert (tmp_path / "source" / "tests" / "test_a.py").read_text(encoding="utf-8") == TEST
    package = Package(name="theirs", version="1.2", does="", tests=("tests/test_*.py",))
    assert package.modules(tmp_path / "source") == ["tests.test_a"]


def test_tests_of_a_package_run_in_their_own_tree_on_the_runner_that_is_named(
    tmp_path: Path,
) -> None:
    environment = PackageEnvironment(tmp_path)
    tests = environment.source / "tests"
    tests.mkdir(parents=True)
    (tests / "test_a.py").write_text(TEST, encoding="utf-8")
    package = Package(name="theirs", version="1.2", does="", tests=("tests/test_*.py",))
    suite = replace(command.suite_of(package, environment), python=sys.executable)
    found = run(suite, ["tests.test_a"], "inline", tmp_path / "results", 1, lambda _: None)
    assert {(each.test, each.outcome, each.pipelines) for each in found} == {
        ("test_a_pipeline", Ended.PASSED, 1),
        ("test_a_failure", Ended.FAILED, 0),
        ("", Ended.PASSED, 0),
    }


def test_an_environment_that_could_not_be_filled_leaves_nothing(tmp_path: Path) -> None:
    def fill(making: Path) -> None:
        assert subprocess.run([making / "bin" / "python", "-c", ""], check=False).returncode == 0
        msg = "pip failed"
        raise OptionError(msg)

    with pytest.raises(OptionError, match="pip failed"):
        make(tmp_path / "env", fill)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_package_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["no-such-package"]) == 2
    said = capsys.readouterr().err
    assert "no such package: no-such-package; there are" in said
    assert all(each.name in said for each in PACKAGES)
