"""The packages whose tests are run: versions, what their tests need, where these lie.

Frozen data, kept by hand. A package belongs here if its source distribution has tests that build
pipelines and if they need no cloud. Makes and runs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A package of the index."""

    name: str
    version: str
    does: str  # a few words
    extras: str = ""  # as pip takes them, between brackets
    needs: tuple[str, ...] = ()  # requirements of its tests; and what its age asks for
    tests: tuple[str, ...]  # patterns below the source distribution's folder
    plugins: tuple[str, ...] = ()  # of pytest's
    on_spark: tuple[str, ...] = ()  # tests that Spark runs, the rest LocalRunner; none: Spark all
    without: tuple[str, ...] = ()  # tests of these modules that are not run
    left_out: str = ""  # what is not run, for people
    mended: tuple[str, ...] = ()  # what its tests showed to be wrong in headrace, and is no more

    @property
    def requirement(self) -> str:
        """The source distribution, as pip names it."""
        return f"{self.name}=={self.version}"

    def modules(self, root: Path) -> list[str]:
        """Give the modules with tests, dotted, below the unpacked source distribution."""
        found = {path for pattern in self.tests for path in root.glob(pattern)}
        return sorted(".".join(path.relative_to(root).with_suffix("").parts) for path in found)


#: Lets tests read absl's flags, as the package's own runs do; not in its source distribution.
ABSL = "headrace.lab.experiments.user_suites.absl_flags"

PACKAGES = (
    Package(
        name="xarray-beam",
        version="0.11.5",
        does="labelled arrays in chunks, Zarr",
        needs=("absl-py", "h5netcdf", "hypothesis", "zarr>=3"),
        tests=("xarray_beam/**/*_test.py",),
        plugins=(ABSL,),
        mended=(
            "two tests of `integration_test` did not end within 600 s: the analysis of code read "
            "every way through xarray's functions; how much it reads is bounded now",
            "groups left a shard in the reverse of the order in which their keys came",
        ),
    ),
    Package(
        name="gfw-common",
        version="0.9.0",
        does="transforms for JSON, Avro, groups, windows; BigQuery with fakes",
        extras="beam,bq",
        needs=("avro", "pytest-mock"),
        tests=("tests/beam/**/test_*.py",),
        plugins=("pytest_mock",),
        mended=(
            "a `--setup_file` that is not there was refused under a local master too; there it is "
            "a warning, and the run goes on",
        ),
    ),
    Package(
        name="beam-nuggets",
        version="0.18.1",
        does="tables of databases by SQLAlchemy",
        needs=("nose", "testing.postgresql", "testing.mysqld"),
        tests=("beam_nuggets/**/test_*.py",),
    ),
    Package(
        name="beamx",
        version="0.0.1",
        does="a source for ORC files, nested dicts",
        tests=("beamx/**/*_test.py",),
    ),
    Package(
        name="pangeo-forge-recipes",
        version="0.10.8",
        does="scientific archives into Zarr stores, by recipes",
        # Of its extra `test`, and as old as its release: pytest-lazy-fixture wants pytest 7.
        needs=("click", "pytest<8", "pytest-lazy-fixture", "pytest-timeout", "s3fs", "gcsfs",
               "scipy", "dask<2024.9", "kerchunk<0.2.7", "xarray<2024.10", "zarr<3"),
        tests=tuple(
            f"tests/test_{name}.py"
            for name in ("combiners", "end_to_end", "serialization", "transforms", "writers")
        ),
        plugins=("pytest_lazyfixture",),
        without=("tests.test_transforms::test_Open*",),
        on_spark=("tests.test_combiners::*", "tests.test_end_to_end::test_xarray_zarr_*"),
        left_out="modules that build no pipeline, `test_integration`, which skips itself, and 152 "
        "tests of openers in `test_transforms`, which differ by the file that is opened",
    ),
)


def package_of(name: str) -> Package | None:
    """Give the package of this name; None if there is none."""
    return next((each for each in PACKAGES if each.name == name), None)
