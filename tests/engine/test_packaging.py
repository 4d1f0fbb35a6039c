"""What is sent to the executors, from projects, wheels and requirements made on the spot.

Nothing here asks an index: requirements are found in a folder of wheels made by hand.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions, SetupOptions

import headrace
from headrace.engine.spark import archives, packaging
from headrace.engine.spark.archives import own_package, ship, top_modules, write_zip
from headrace.engine.spark.packaging import (
    Needs,
    build_archive,
    check_files,
    provide,
    requirements_of,
    thin_requirements,
)
from headrace.errors import PackagingError
from tests.spark_session import shared_session


def make_wheel(
    folder: Path,
    name: str,
    files: dict[str, str],
    needs: tuple[str, ...] = (),
    version: str = "1.0",
) -> Path:
    """Write a wheel by hand: a zip with a few lines about itself."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    facts = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {n}" for n in needs)]
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        for member, text in files.items():
            wheel.writestr(member, text)
        wheel.writestr(f"{info}/METADATA", "\n".join(["Metadata-Version: 2.1", *facts, "", ""]))
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip takes for all there is."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def requirements(tmp_path: Path, *lines: str) -> Needs:
    file = tmp_path / "requirements.txt"
    file.write_text("\n".join(lines) + "\n")
    return Needs(requirements_file=str(file))


def modules(archive: Path | None) -> set[str]:
    assert archive is not None
    with zipfile.ZipFile(archive) as opened:
        return set(top_modules(n for n in opened.namelist() if not n.endswith("/")))


def imported_from(archive: Path, code: str) -> str:
    """What a fresh Python prints with the archive on its path and nothing of ours."""
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(archive)!r}); {code}"],
        capture_output=True, text=True, check=True, cwd="/",
    )  # fmt: skip
    return done.stdout.strip()


def test_what_a_requirement_requires_comes_too_and_what_is_present_stays_out(
    tmp_path: Path, index: Path
) -> None:
    needs = ("penstock>=1", "apache-beam", "runner", "never; python_version < '3'")
    make_wheel(index, "sluice", {"sluice.py": "GATE = 7\n"}, needs)
    files = {"penstock/__init__.py": "import sluice\n"}
    make_wheel(index, "penstock", files, ("weir; extra == 'x'",))
    make_wheel(index, "runner", {"runner.py": ""}, ("sluice",))
    archive = build_archive(
        requirements(tmp_path, "sluice==1.0  # the gate", "", "numpy"),
        {"apache-beam": "2.77.0", "numpy": "2.0"}, tmp_path,
    )
    assert modules(archive) == {"sluice", "penstock", "runner"}
    assert archive is not None
    assert imported_from(archive, "import penstock; print(penstock.sluice.GATE)") == "7"
    code = "import importlib.metadata as m; print(m.version('sluice'))"
    assert imported_from(archive, code) == "1.0"


def test_an_extra_brings_what_it_names(tmp_path: Path, index: Path) -> None:
    needs = ("weir; extra == 'dam'", "lock; extra == 'ship'")
    make_wheel(index, "sluice", {"sluice.py": ""}, needs)
    make_wheel(index, "weir", {"weir.py": ""})
    assert modules(build_archive(requirements(tmp_path, "sluice[dam]"), {}, tmp_path)) == {
        "sluice", "weir",
    }  # fmt: skip


def test_requirements_that_cannot_both_hold_are_refused_in_pips_words(
    tmp_path: Path, index: Path
) -> None:
    make_wheel(index, "sluice", {"sluice.py": ""}, ("weir<2",))
    make_wheel(index, "weir", {"weir.py": ""}, version="1.0")
    make_wheel(index, "weir", {"weir.py": ""}, version="2.0")
    with pytest.raises(PackagingError, match=r"(?s)pip said:.*weir"):
        build_archive(requirements(tmp_path, "sluice", "weir==2.0"), {}, tmp_path)


def test_a_package_with_compiled_code_is_refused_by_name_with_the_remedy(
    tmp_path: Path, index: Path
) -> None:
    make_wheel(index, "turbine", {"turbine/__init__.py": "", "turbine/fast.so": "x"})
    with pytest.raises(PackagingError, match=r"turbine has compiled code.*PYSPARK_PYTHON"):
        build_archive(requirements(tmp_path, "turbine"), {}, tmp_path)
    assert build_archive(requirements(tmp_path, "turbine"), {"turbine": "1.0"}, tmp_path) is None


def test_a_requirement_that_is_nowhere_is_named(tmp_path: Path, index: Path) -> None:
    del index
    with pytest.raises(PackagingError, match="no-such-mill"):
        build_archive(requirements(tmp_path, "no-such-mill==9"), {}, tmp_path)


def test_an_extra_package_is_sent_as_it_is(tmp_path: Path, index: Path) -> None:
    del index
    wheel = make_wheel(
        tmp_path / "built", "sluice",
        {"sluice/deep/gate.py": "G = 3\n", "sluice-1.0.data/purelib/extra.py": "E = 4\n",
         "sluice-1.0.data/scripts/tool": ""},
    )  # fmt: skip
    archive = build_archive(Needs(extra_packages=(str(wheel),)), {}, tmp_path)
    assert modules(archive) == {"sluice", "extra"}
    assert archive is not None
    told = imported_from(archive, "import extra, sluice.deep.gate as g; print(extra.E, g.G)")
    assert told == "4 3", "a folder without __init__.py is a package in a zip too"


def test_requirements_are_thinned_and_included_files_keep_their_place(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text(
        "--no-index\n-r more.txt\nApache_Beam[gcp]==2.70.0 ; python_version > '3'\n"
        "numpy>=1\nsluice \\\n  ==1.0\n./local/weir-1.0.whl\n# nothing\n"
    )
    present = {"apache-beam": "2.77.0", "numpy": "2.0", "weir": "1"}
    with caplog.at_level(logging.WARNING):
        lines = thin_requirements(file, present)
    assert [" ".join(line.split()) for line in lines] == [
        "--no-index", f"-r {tmp_path}/more.txt", "sluice ==1.0", "./local/weir-1.0.whl",
    ]  # fmt: skip
    assert ["2.77.0" in record.getMessage() for record in caplog.records] == [True]


@pytest.mark.parametrize(
    ("line", "warned"),
    [
        ("numpy", False), ("numpy>=1,<3", False), ("numpy==2.*", False), ("numpy===2.0.1", False),
        ("NumPy==2.0.1 --hash=sha256:00", False), ("numpy==2.0", True), ("numpy>=3", True),
        ("numpy!=2.0.1 ; python_version > '3'", True),
    ],
)
def test_a_version_that_is_not_what_was_asked_for_is_told(
    line: str, warned: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text(line + "\n")
    with caplog.at_level(logging.WARNING):
        assert thin_requirements(file, {"numpy": "2.0.1"}) == []
    assert bool(caplog.records) == warned


def test_a_url_is_kept_even_if_a_package_of_that_name_is_present(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text("numpy @ file:///wheels/numpy.whl\n")
    assert thin_requirements(file, {"numpy": "2.0"}) == ["numpy @ file:///wheels/numpy.whl"]


def test_markers_of_a_wheel_decide_what_it_requires(tmp_path: Path) -> None:
    wheel = tmp_path / "weir-1.0-py3-none-any.whl"
    needs = [
        "sluice>=1; python_version < '3'", "gate[iron]>=2; python_version > '3'", "numpy",
        "lock; extra == 'Tide_Gate'", "boat; extra == 'boats' and python_version > '3'",
    ]  # fmt: skip
    lines = ["Metadata-Version: 2.1", "Name: weir", *(f"Requires-Dist: {n}" for n in needs)]
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("weir-1.0.dist-info/METADATA", "\n".join(lines) + "\n")

    def required(*asked: str) -> list[str]:
        return list(requirements_of(wheel, asked, {"numpy": "2.0"}))

    assert required("weir") == ["gate[iron]>=2"]
    assert required("weir[tide-gate]") == ["gate[iron]>=2", "lock"]
    assert required("other[boats]", "weir[boats]") == ["gate[iron]>=2", "boat"]


def test_a_file_whose_every_line_is_present_runs_no_pip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packaging, "run_pip", lambda *_: pytest.fail("pip was run"))
    needs = requirements(tmp_path, "--extra-index-url x", "NumPy")
    assert build_archive(needs, {"numpy": "1"}, tmp_path) is None


@pytest.mark.parametrize(
    ("needs", "words"),
    [
        (Needs(setup_file="no/setup.py"), r"--setup_file=no/setup.py: there is no such file"),
        (Needs(requirements_file="no.txt"), r"--requirements_file=no.txt: there is no such file"),
        (Needs(extra_packages=("no.whl",)), r"--extra_package=no.whl: there is no such file"),
        (Needs(setup_file=__file__), r"must be named setup.py or pyproject.toml"),
    ],
    ids=["setup", "requirements", "extra", "name"],
)
def test_an_option_that_names_no_usable_file_is_refused(needs: Needs, words: str) -> None:
    with pytest.raises(PackagingError, match=words):
        check_files(needs)


def test_a_setup_file_that_is_missing_is_warned_of_where_workers_are_this_python(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    door: Any = SimpleNamespace(
        is_local=True, distributions=dict, send=lambda _: pytest.fail("something was sent")
    )
    with caplog.at_level(logging.WARNING):
        provide(Needs(setup_file="no/setup.py"), door)
    (said,) = caplog.messages
    assert "--setup_file=no/setup.py: there is no such file" in said
    both = Needs(setup_file="no/setup.py", requirements_file="no.txt")
    with pytest.raises(PackagingError, match="--requirements_file"):
        provide(both, door)
    with pytest.raises(PackagingError, match="must be named"):
        provide(Needs(setup_file="no/other.py"), door)


def test_a_setup_file_that_is_missing_is_refused_on_a_cluster() -> None:
    door: Any = SimpleNamespace(is_local=False)
    with pytest.raises(PackagingError, match="--setup_file=no/setup.py: there is no such file"):
        provide(Needs(setup_file="no/setup.py"), door)
    options = PipelineOptions(["--setup_file=no/setup.py", "--spark_master=spark://nowhere:1"])
    pipeline = beam.Pipeline(runner=headrace.SparkRunner(), options=options)
    _ = pipeline | beam.Create([1])
    with pytest.raises(PackagingError, match="there is no such file"):  # before Spark starts
        pipeline.run()


def test_a_missing_pip_is_named_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packaging.importlib.util, "find_spec", lambda name: None)  # type: ignore[attr-defined]
    with pytest.raises(PackagingError, match="ensurepip"):
        build_archive(requirements(tmp_path, "sluice"), {}, tmp_path)


def test_the_same_files_have_the_same_name_and_others_another(tmp_path: Path) -> None:
    first = write_zip("x", {"a.py": b"1", "b/c.py": b"2"}, tmp_path)
    assert write_zip("x", {"b/c.py": b"2", "a.py": b"1"}, tmp_path) == first
    assert write_zip("x", {"b/c.py": b"2", "a.py": b"3"}, tmp_path) != first


def test_headrace_itself_can_be_imported_from_what_is_sent() -> None:
    code = "import headrace, headrace.worker.entry; print(headrace.__version__, headrace.__file__)"
    told = imported_from(own_package(), code)
    version, file = told.split(" ", 1)
    assert version == headrace.__version__
    assert file.startswith(str(own_package()))


class Sent:
    """Stands for Spark: remembers what was added."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.added: list[str] = []

    def add(self, path: str) -> None:
        self.added.append(path)


def test_an_archive_is_sent_once_and_a_changed_module_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "_shipped", {})
    one, two = Sent("one"), Sent("two")
    archive = write_zip("x", {"weir/__init__.py": b"A = 1"}, tmp_path)
    changed = write_zip("x", {"weir/__init__.py": b"A = 2", "new.py": b""}, tmp_path)
    ship(one.name, one.add, archive)
    ship(one.name, one.add, archive)
    ship(two.name, two.add, changed)
    assert (one.added, two.added) == ([str(archive)], [str(changed)])
    with pytest.raises(PackagingError, match="another version of weir"):
        ship(one.name, one.add, changed)


@pytest.mark.spark
def test_a_project_named_by_setup_file_is_importable_in_the_pipeline(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "build" / "lib" / "tailrace").mkdir(parents=True)
    (project / "build" / "lib" / "tailrace" / "stale.py").write_text("")
    (project / "tailrace").mkdir()
    (project / "tailrace" / "__init__.py").write_text("def fall(x):\n    return x * 3\n")
    (project / "setup.py").write_text(
        "from setuptools import setup\n"
        "setup(name='tailrace', version='1', packages=['tailrace'], install_requires=['numpy'])\n"
    )
    before = sorted(path.relative_to(project) for path in project.rglob("*"))

    def fall(x: int) -> int:
        import tailrace  # type: ignore[import-not-found]

        assert not hasattr(tailrace, "stale")
        return int(tailrace.fall(x))

    options = PipelineOptions([f"--setup_file={project / 'setup.py'}"])
    runner = headrace.SparkRunner(spark=shared_session())
    with beam.Pipeline(runner=runner, options=options) as pipeline:
        falls = pipeline | beam.Create([1, 2, 5]) | beam.Map(fall)
        falls | beam.io.WriteToText(str(tmp_path / "falls"))
    lines = [line for path in tmp_path.glob("falls*") for line in path.read_text().split()]
    assert sorted(lines, key=int) == ["3", "6", "15"]
    assert sorted(path.relative_to(project) for path in project.rglob("*")) == before


class Grain:
    def __init__(self, kind: str) -> None:
        self.kind = kind


class GrainCoder(beam.coders.Coder):  # type: ignore[misc]
    def encode(self, value: Grain) -> bytes:
        return value.kind.encode()

    def decode(self, encoded: bytes) -> Grain:
        return Grain(encoded.decode())

    def is_deterministic(self) -> bool:
        return True


def registered_for_grain(_: object) -> str:
    return type(beam.coders.registry.get_coder(Grain)).__name__


@pytest.mark.spark
def test_a_saved_main_session_brings_registered_coders_to_the_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = beam.coders.registry
    monkeypatch.setattr(registry, "_coders", dict(registry._coders))
    monkeypatch.setattr(registry, "custom_types", list(registry.custom_types))
    registry.register_coder(Grain, GrainCoder)
    found = {}
    for flag in ("--no_save_main_session", "--save_main_session"):
        out = tmp_path / flag
        with beam.Pipeline(
            runner=headrace.SparkRunner(spark=shared_session()), options=PipelineOptions([flag])
        ) as pipeline:
            names = pipeline | beam.Create([None]) | beam.Map(registered_for_grain)
            names | beam.io.WriteToText(str(out))
        found[flag] = "".join(p.read_text().strip() for p in tmp_path.glob(f"{flag}*"))
    assert found["--save_main_session"] == "GrainCoder"
    assert found["--no_save_main_session"] != "GrainCoder"


def test_dill_without_dill_is_refused_before_spark_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    from apache_beam.internal import pickler

    monkeypatch.setattr(pickler, "dill_pickler", None)
    pipeline = beam.Pipeline()
    pipeline | beam.Create([1])
    options = PipelineOptions()
    options.view_as(SetupOptions).pickle_library = "dill"
    runner = headrace.SparkRunner(spark=SimpleNamespace())
    with pytest.raises(PackagingError, match=r"--pickle_library=dill.*apache-beam\[dill\]"):
        runner.run_pipeline(pipeline, options)
