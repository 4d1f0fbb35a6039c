"""Knows the parts of Beam's portable job servers, fetches them once by Maven, and checks them.

Beam publishes its Spark and Flink job servers as jars of their own, but not to every repository; so
they are put together from the parts that they are built of. Maven finds what the parts need. Jars
are code: all that come must be those in the list beside this module, by name and SHA-256, when they
are fetched and each time before a JVM gets them. They lie in the cache folder of the user; the
folder is made beside its place and moved there when it is whole.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import OptionError
from headrace.lab.environments import NotInstalledError, cache

_BEAM = "2.70.0"
#: The newest that is published; later runners have theirs in their own jar.
_JOB_SERVICE = "2.65.0"
_SPARK, _FLINK = "3.5.0", "1.19.0"

_COMMON = (
    *(f"org.apache.beam:beam-{name}:{_BEAM}" for name in (
        "runners-core-java", "runners-java-fn-execution", "sdks-java-core", "sdks-java-harness",
        "sdks-java-expansion-service", "sdks-java-extensions-google-cloud-platform-core",
        "model-pipeline", "model-job-management", "model-fn-execution",
    )),
    f"org.apache.beam:beam-runners-java-job-service:{_JOB_SERVICE}",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class JobServer:
    """A job server that can be put together."""

    driver: str  # the class that a JVM starts
    parts: tuple[str, ...]  # as Maven calls them: group:artifact:version
    no_streaming: str = ""  # why its runner is not asked to stream; empty: it is


#: The systems that have one.
JOB_SERVERS: Mapping[str, JobServer] = {
    "beam-spark": JobServer(
        driver="org.apache.beam.runners.spark.SparkJobServerDriver",
        parts=(
            f"org.apache.beam:beam-runners-spark-3:{_BEAM}", *_COMMON,
            *(f"org.apache.spark:spark-{name}_2.12:{_SPARK}" for name in (
                "core", "sql", "streaming",
            )),
        ),
        no_streaming=(
            "Beam's portable Spark runner is asked in batch only: as a stream its state was "
            "silently wrong (5 keys of 40 events came out as 2 keys of 100, and the job said "
            "DONE), and a job does not end by itself"
        ),
    ),
    "beam-flink": JobServer(
        driver="org.apache.beam.runners.flink.FlinkJobServerDriver",
        parts=(
            f"org.apache.beam:beam-runners-flink-1.19:{_BEAM}", *_COMMON,
            f"org.apache.flink:flink-statebackend-rocksdb:{_FLINK}",
            # Flink's own parts bring nothing that writes what they log.
            "org.slf4j:slf4j-simple:2.0.16",
        ),
    ),
}  # fmt: skip

_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>headrace</groupId><artifactId>{system}</artifactId><version>1</version>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
_DEPENDENCY = (
    "    <dependency><groupId>{}</groupId><artifactId>{}</artifactId>"
    "<version>{}</version></dependency>"
)


def folder_of(system: str) -> Path:
    """Give where the jars of a system's job server lie, there or not."""
    return cache() / f"{system}-{_BEAM}"


def sums_of(system: str) -> dict[str, str]:
    """Give the SHA-256 of each jar of a job server, by the file's name."""
    text = Path(__file__).with_name(f"{system}.sha256").read_text(encoding="utf-8")
    pairs = (line.split() for line in text.splitlines())
    return {name: digest for digest, name in pairs}


def jars_of(system: str) -> Path:
    """Give the folder with the jars of a job server, each of them the one that it should be.

    Raises:
        NotInstalledError: they are not there.
        OptionError: there are others; says which.
    """
    folder = folder_of(system)
    if not folder.is_dir():
        msg = f"the job server of {system} is not installed: headrace lab install {system}"
        raise NotInstalledError(msg)
    if wrong := differing(folder, sums_of(system)):
        msg = f"{folder} is not used: {wrong}. Remove it, then: headrace lab install {system}"
        raise OptionError(msg)
    return folder


def differing(folder: Path, sums: Mapping[str, str]) -> str:
    """Say in what a folder differs from a list of sums; empty if in nothing."""
    found = {path.name for path in folder.iterdir()}
    if missing := sorted(set(sums) - found):
        return f"{missing[0]} is missing ({len(missing)} in all)"
    if unknown := sorted(found - set(sums)):
        return f"{unknown[0]} is not one of its jars ({len(unknown)} in all)"
    for name, digest in sums.items():
        with (folder / name).open("rb") as file:
            there = hashlib.file_digest(file, "sha256").hexdigest()
        if there != digest:
            return f"{name} has the SHA-256 {there}, and {digest} is the one that is pinned"
    return ""


def install(system: str, told: Callable[[str], None] = lambda _text: None) -> Path:
    """Fetch the jars of a job server, if they are not there; give their folder.

    Raises:
        OptionError: Maven is missing or has failed, or other jars came; says which.
    """
    folder = folder_of(system)
    if folder.is_dir():
        return jars_of(system).resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        told(f"Maven fetches {len(sums_of(system))} jars, some 300 MB; this takes minutes")
        copied(JOB_SERVERS[system].parts, making)
        told("checking the jars")
        if wrong := differing(making, sums_of(system)):
            msg = f"what Maven gave for {system} is not used: {wrong}"
            raise OptionError(msg)
        making.rename(folder)
    except BaseException:
        shutil.rmtree(making, ignore_errors=True)
        raise
    return folder


def copied(parts: tuple[str, ...], folder: Path) -> None:
    """Let Maven put parts, and all that they need, into a folder.

    Raises:
        OptionError: Maven is missing or has failed; says its last words.
    """
    maven = shutil.which("mvn")
    if maven is None:
        msg = "jars are fetched by Maven, and there is no mvn on the path: install Maven"
        raise OptionError(msg)
    with tempfile.TemporaryDirectory(prefix="headrace-lab-") as aside:
        pom = Path(aside) / "pom.xml"
        named = "\n".join(_DEPENDENCY.format(*part.split(":")) for part in parts)
        pom.write_text(_POM.format(system="job-server", dependencies=named), encoding="utf-8")
        done = subprocess.run(
            [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies",
             "-DincludeScope=runtime", f"-DoutputDirectory={folder}"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode:
        words = [line for line in done.stdout.splitlines() if "ERROR" in line]
        msg = f"Maven failed: {words[0] if words else done.stderr.strip() or done.returncode}"
        raise OptionError(msg)
