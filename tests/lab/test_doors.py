"""The list of experiments: complete, opened by name, and loaded by nobody before."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli.main import main
from headrace.errors import OptionError
from headrace.lab.doors import BY_SPEC, DOORS, Door, door_of, listing
from headrace.lab.spec import EXPERIMENTS

ROOT = Path(__file__).parents[2]
HOME = ROOT / "headrace" / "lab" / "experiments"


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)
def test_every_experiment_says_what_it_can_be_told(
    door: Door, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["lab", "run", door.name, "--help"])
    assert ended.value.code == 0
    assert f"usage: headrace lab run {door.name}" in capsys.readouterr().out


def test_whatever_has_a_main_that_takes_arguments_has_a_door() -> None:
    takes = re.compile(r"^def main\(arguments: Sequence\[str\] \| None = None\) -> int:", re.M)
    found = {
        ".".join(path.relative_to(HOME).with_suffix("").parts)
        for path in HOME.rglob("*.py")
        if takes.search(path.read_text(encoding="utf-8"))
    }
    assert found == {door.module for door in DOORS}


def test_the_list_names_the_experiments_of_a_spec_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(BY_SPEC) == set(EXPERIMENTS)
    assert main(["lab", "list"]) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines() == listing()
    for name in (*BY_SPEC, *(door.name for door in DOORS)):
        assert f"\n  {name} " in printed


def test_a_name_that_nobody_knows_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "run", "sustainble"]) == 1
    assert "there is no experiment sustainble" in capsys.readouterr().err
    assert door_of("sustainble") is None


def test_options_of_a_spec_may_stand_before_it_and_after_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = tmp_path / "s.toml"
    spec.write_text("[systems.fake]\n[latency]\nrate = 100\nseconds = 5\nrepeats = 1\n")
    before, after = tmp_path / "before", tmp_path / "after"
    assert main(["lab", "run", "--progress", "off", "--results", str(before), str(spec)]) == 0
    assert main(["lab", "run", str(spec), "--results", str(after), "--progress", "off"]) == 0
    assert len(list(before.iterdir())) == len(list(after.iterdir())) == 1
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["lab", "run", str(spec), "--faults", "3"])
    assert "unrecognized arguments: --faults 3" in capsys.readouterr().err


def test_an_experiment_of_a_spec_is_made_by_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--system", "fake,capacity=5000", "--set", "seconds=5", "--set", "repeats=2"]
    assert main(["lab", "run", "latency", *words, "--results", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "fake count sustainable rate: " in printed
    assert "fake count latency p99: 0.05" in printed
    (folder,) = tmp_path.iterdir()
    assert (folder / "spec.toml").read_text() == (
        'name = "latency"\n[systems.fake]\ncapacity = 5000\n[sustainable]\n'
        "[latency]\nseconds = 5\nrepeats = 2\n"
    )
    assert main(["lab", "run", "spike", "--system", "fake", "--set", "rat=5"]) == 1
    assert "spike has no setting 'rat'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["lab", "run", "growth"])
    assert "--system" in capsys.readouterr().err


def test_a_package_that_is_missing_is_named_with_what_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = door_of("soak")
    assert found is not None
    monkeypatch.setitem(sys.modules, "rich.console", None)
    monkeypatch.delitem(sys.modules, "headrace.lab.experiments.soak.command", raising=False)
    with pytest.raises(OptionError, match=r"soak needs rich.*pip install 'headrace\[lab\]'"):
        found.open()


def test_every_target_that_measures_is_a_door() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = ("bench", "bench-streaming", "bench-workloads", "lab", "soak", "chaos", "simulate",
               "chaos-night", "verify", "beam-suites")
    for target in targets:
        recipe = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", makefile, re.M)
        assert recipe is not None, target
        opened = re.findall(r"headrace lab run (\S+)", recipe[1])
        assert opened, target
        assert all(name.endswith(".toml") or door_of(name) for name in opened), target


def test_neither_headrace_nor_the_help_of_its_command_loads_an_experiment() -> None:
    program = (
        "import sys\nimport headrace\n"
        "assert not [name for name in sys.modules if name.startswith('headrace.lab')]\n"
        "from headrace.cli.main import main\n"
        "main(['lab', 'list'])\n"
        "print(*sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], cwd=ROOT, capture_output=True, text=True,
        timeout=120, check=False,
    )
    assert done.returncode == 0, done.stderr
    loaded = set(done.stderr.split())
    assert not {door.module for door in DOORS} & {
        name.removeprefix("headrace.lab.experiments.") for name in loaded
    }
    assert not {"apache_beam", "pyspark", "psutil", "duckdb", "pytest"} & loaded
