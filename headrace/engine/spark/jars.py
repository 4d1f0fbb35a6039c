"""Knows which jars a session needs beyond Spark's own, fetches them once, and checks them.

Jars are code: each is pinned by its SHA-256, lies in a folder of this user alone, and is held
against its sum before a session gets it. They come by Maven, which knows where from, or straight
from a repository that the user names; no address stands here.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from headrace.engine.spark.class_archive import cache_folder
from headrace.engine.spark.settings import JARS, PACKAGES, Wish, listed
from headrace.errors import OptionError, SessionError
from headrace.state.private import private_folder

#: Names a Maven repository to fetch from, instead of asking Maven itself.
REPOSITORY = "HEADRACE_MAVEN_REPOSITORY"
_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Jar:
    """One file of a Maven repository."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def name(self) -> str:
        """The file's name."""
        return f"{self.artifact}-{self.version}.jar"

    @property
    def coordinates(self) -> str:
        """How Maven calls it."""
        return f"{self.group}:{self.artifact}:{self.version}"

    @property
    def path(self) -> str:
        """Where it is in a repository."""
        return f"{self.group.replace('.', '/')}/{self.artifact}/{self.version}/{self.name}"


#: What can be fetched. Spark 4.3 has no connector of its own number in the repositories; these
#: work together with it (docs/guide/kafka.md).
BUNDLES: Mapping[str, tuple[Jar, ...]] = {
    "kafka": (
        Jar("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0",
            "64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705"),
        Jar("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0",
            "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767"),
        Jar("org.apache.kafka", "kafka-clients", "3.9.2",
            "014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8"),
        Jar("org.apache.commons", "commons-pool2", "2.12.1",
            "5273c8bc8c0dca2211175c0d27efbd7228efae99689aac001a8e1ef8e872e9ef"),
    ),
}  # fmt: skip
#: By this a user's own jars are known that make the fetched ones needless.
_MARKS = {"kafka": "spark-sql-kafka"}


def folder_of(name: str) -> Path:
    """Give the folder of a bundle, there or not."""
    return cache_folder() / f"jars-{name}"


def missing(name: str) -> list[Jar]:
    """Give the jars of a bundle that are not there, or are not what they should be."""
    folder = folder_of(name)
    return [jar for jar in BUNDLES[name] if _sum_of(folder / jar.name) != jar.sha256]


def fetched(name: str) -> tuple[Path, ...]:
    """Give the files of a bundle; none if any of them is missing."""
    if not folder_of(name).is_dir() or missing(name):
        return ()
    private_folder(cache_folder())
    return tuple(folder_of(name) / jar.name for jar in BUNDLES[name])


def with_fetched(
    wish: Wish, needs: Iterable[str], submitted: Mapping[str, str] | None = None
) -> Wish:
    """Add the jars that DataFrames need to what is asked of a session, unless it brings its own.

    Args:
        wish: what the user asks for.
        needs: names of bundles.
        submitted: settings that a session would start with; those of this process if not given.
    """
    for name in sorted(set(needs)):
        if submitted is None:
            from headrace.engine.spark.session import submitted as asked

            submitted = asked()
        settings = {**submitted, **wish.settings()}
        own = [settings.get(JARS, ""), settings.get(PACKAGES, "")]
        own += [settings.get("spark.driver.extraClassPath", "")]
        if any(_MARKS[name] in text for text in own):
            continue
        if files := fetched(name):
            wish = replace(wish, jars=(*listed([own[0]]), *map(str, files)),
                           conf={k: v for k, v in wish.conf.items() if k != JARS})
    return wish


def fetch(name: str, repository: str = "", say: Callable[[str], None] = print) -> tuple[Path, ...]:
    """Fetch what is missing of a bundle; give its files.

    Args:
        name: of the bundle.
        repository: the address of a Maven repository; by `mvn` if empty.
        say: told of each jar.

    Raises:
        SessionError: a jar could not be had, or is another one.
    """
    if name not in BUNDLES:
        msg = f"there is no bundle {name!r} to fetch; there are {', '.join(BUNDLES)}"
        raise OptionError(msg)
    repository = repository or os.environ.get(REPOSITORY, "")
    private_folder(cache_folder())
    folder = folder_of(name)
    folder.mkdir(exist_ok=True, mode=0o700)
    for jar in missing(name):
        with tempfile.TemporaryDirectory(dir=folder) as aside:
            made = Path(aside, jar.name)
            if repository:
                _download(jar, repository, made)
            else:
                _by_maven(jar, made)
            found = _sum_of(made)
            if found != jar.sha256:
                msg = (
                    f"{jar.coordinates}: what came has the SHA-256 {found}, and {jar.sha256} is "
                    "the one that is pinned. It is not used; ask who keeps that repository"
                )
                raise SessionError(msg)
            os.replace(made, folder / jar.name)
        say(f"fetched {jar.coordinates}")
    return fetched(name)


def _download(jar: Jar, repository: str, target: Path) -> None:
    address = f"{repository.rstrip('/')}/{jar.path}"
    if not address.startswith(("http://", "https://", "file://")):
        msg = f"{repository}: a repository's address begins with https://, http:// or file://"
        raise OptionError(msg)
    try:
        with urllib.request.urlopen(address, timeout=_SECONDS) as answer, target.open("wb") as out:
            shutil.copyfileobj(answer, out)
    except OSError as error:
        msg = f"{jar.coordinates} could not be fetched from {repository}: {error}"
        raise SessionError(msg) from error


def _by_maven(jar: Jar, target: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        msg = (
            f"{jar.coordinates} could not be fetched: there is no Maven (mvn) on the path. Install "
            f"it, or name a Maven repository: --repository URL, or {REPOSITORY}"
        )
        raise SessionError(msg)
    done = subprocess.run(
        [maven, "-q", "-B", "dependency:copy", f"-Dartifact={jar.coordinates}",
         f"-DoutputDirectory={target.parent}"],
        capture_output=True, text=True, check=False, cwd=target.parent,
    )  # fmt: skip
    if done.returncode or not target.is_file():
        said = next((line for line in done.stdout.splitlines() if "ERROR" in line), done.stderr)
        msg = f"{jar.coordinates} could not be fetched by Maven: {said.strip()}"
        raise SessionError(msg)


def _sum_of(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""
