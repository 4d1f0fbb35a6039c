"""The command itself: what it says of itself, at once and without foreign words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import headrace
from headrace.cli.main import main
from headrace.cli.run import is_file

ROOT = Path(__file__).parents[2]


def test_alone_it_says_what_it_can_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    said = capsys.readouterr().out
    assert len(said.splitlines()) < 25
    assert "headrace run my_pipeline.py" in said


def test_it_knows_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert left.value.code == 0
    assert capsys.readouterr().out == f"headrace {headrace.__version__}\n"


@pytest.mark.parametrize("command", [[], ["run"], ["explain"], ["state"], ["list"], ["generate"]])
def test_help_loads_neither_beam_nor_spark_and_no_foreign_word_is_said(command: list[str]) -> None:
    code = (
        "import sys\nfrom headrace.cli.main import main\n"
        f"try: main([*{command!r}, '--help'])\n"
        "except SystemExit: pass\n"
        "sys.exit(len({'apache_beam', 'pyspark', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: headrace")


def test_what_looks_like_a_file_is_one_and_all_else_a_suite(tmp_path: Path) -> None:
    (tmp_path / "pipeline").write_text("")
    assert is_file("absent.py")
    assert is_file(str(tmp_path / "pipeline"))
    assert not is_file("nexmark")
    assert not is_file(str(tmp_path))


def test_a_file_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "absent.py"]) == 2
    assert "there is no file absent.py" in capsys.readouterr().err


SCRIPT = """
import sys
import apache_beam as beam

class Halves(beam.DoFn):
    def process(self, number):
        yield self.half(number)

    def half(self, number):
        return 10 // number

with beam.Pipeline() as p:
    p | beam.Create([5, int(sys.argv[1])]) | "Halve" >> beam.ParDo(Halves())
print("done", type(p.result).__name__, p.result.plan.shards)
"""


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_file_runs_on_headrace_with_its_arguments_as_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(SCRIPT)
    assert main(["run", str(path), "2", "--shards=3", "--progress=off"]) == 0
    assert capsys.readouterr().out == "done HeadraceResult 3\n"


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_an_exception_of_a_file_is_told_from_its_own_frame_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(SCRIPT)
    assert main(["run", str(path), "0", "--shards=1", "--progress=off"]) == 1
    said = capsys.readouterr().err.splitlines()
    assert len(said) <= 40
    text = "\n".join(said)
    assert text.count("in half") == 2  # in the traceback, and where to look
    assert "ZeroDivisionError: integer division or modulo by zero [while running 'Halve']" in said
    assert "  step:    Halve" in said
    assert "  element: int" in said
    assert f"  look at: {path}, line 10, in half" in said
    assert "runpy" not in text and "py4j" not in text and "headrace-failure" not in text


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_with_debug_all_frames_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.py"
    path.write_text(SCRIPT)
    assert main(["run", str(path), "0", "--shards=1", "--progress=off", "--debug"]) == 1
    assert "headrace/worker/batched/chains.py" in capsys.readouterr().err
