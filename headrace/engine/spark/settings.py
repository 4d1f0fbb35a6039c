"""Decides which settings a session of ours starts with: who gave them, and who comes first.

What a pipeline's options ask for comes before what was submitted with the program, that before
`spark-defaults.conf`, and that before our own. Reads that one file, and knows nothing of a session.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headrace.errors import OptionError

JARS, PACKAGES = "spark.jars", "spark.jars.packages"
MASTER, APP_NAME = "spark.master", "spark.app.name"

_MASTER = re.compile(
    r"local|local\[(\d+|\*)\s*(,\s*\d+)?\]|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]"
    r"|spark://[^\s/]+:\d+|yarn|k8s://\S+|sc://[^\s/]+\S*"
)
_NAME = re.compile(r"spark\.[A-Za-z0-9_.\-]+")
#: A line of a Java properties file: the name ends at the first blank, `=` or `:`.
_PROPERTY = re.compile(r"\s*([^\s=:]+)(?:\s*[=:]\s*|\s+|$)(.*)")
#: Arguments of spark-submit that are settings under another name.
_SUBMIT = {
    "--master": MASTER, "--name": APP_NAME, "--jars": JARS, "--packages": PACKAGES,
    "--driver-memory": "spark.driver.memory", "--executor-memory": "spark.executor.memory",
    "--driver-java-options": "spark.driver.extraJavaOptions",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a pipeline's options say of the session, should one have to be started."""

    master: str | None = None
    app_name: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    jars: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.master is not None and not _MASTER.fullmatch(self.master):
            msg = (
                f"--spark_master={self.master}: this is no master of Spark's. It is local[N] or "
                "local[*] (this machine), spark://HOST:PORT (a standalone cluster), yarn, "
                "k8s://https://HOST:PORT, or sc://HOST:PORT (a server of Spark Connect)"
            )
            raise OptionError(msg)

    def settings(self) -> dict[str, str]:
        """Give all of it as settings of Spark."""
        merged = dict(self.conf)
        for name, value in ((MASTER, self.master), (APP_NAME, self.app_name)):
            if value:
                merged[name] = value
        for name, values in ((JARS, self.jars), (PACKAGES, self.packages)):
            if values:
                merged[name] = ",".join(part for part in (merged.get(name), *values) if part)
        return merged


def read_conf(given: Iterable[str]) -> dict[str, str]:
    """Read `key=value` texts.

    >>> read_conf(["spark.ui.enabled=true", "spark.driver.extraJavaOptions=-Da=b -Dc"])
    {'spark.ui.enabled': 'true', 'spark.driver.extraJavaOptions': '-Da=b -Dc'}
    """
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not _NAME.fullmatch(name.strip()):
            msg = (
                f"--spark_conf={text}: this is no setting of Spark's; write it as "
                "--spark_conf=spark.ui.enabled=true, once for each setting"
            )
            raise OptionError(msg)
        found[name.strip()] = value.strip()
    return found


def listed(texts: Iterable[str]) -> tuple[str, ...]:
    """Split what was given with commas, or several times.

    >>> listed(["a.jar,b.jar", "c.jar"])
    ('a.jar', 'b.jar', 'c.jar')
    """
    return tuple(part.strip() for text in texts for part in text.split(",") if part.strip())


def is_met(name: str, value: str, running: str | None) -> bool:
    """Whether a running session has a setting, or more of what can be added to.

    >>> is_met("spark.jars", "mine.jar", "file:///home/a/mine.jar,file:///home/a/more.jar")
    True
    """
    if name not in (JARS, PACKAGES):
        return running == value
    there = {part.rpartition("/")[2] for part in listed([running or ""])}
    return {part.rpartition("/")[2] for part in listed([value])} <= there


def given_before(environ: Mapping[str, str], spark_home: str) -> dict[str, str]:
    """Give the settings that Spark would start with if nobody asked for anything.

    Args:
        environ: of this process: SPARK_CONF_DIR and PYSPARK_SUBMIT_ARGS are looked at.
        spark_home: the folder of Spark's own files.
    """
    folder = environ.get("SPARK_CONF_DIR") or os.path.join(spark_home, "conf")
    try:
        text = Path(folder, "spark-defaults.conf").read_text(encoding="utf-8")
    except OSError:  # there mostly is none
        text = ""
    return {**read_properties(text), **dict(_submit_args(environ.get("PYSPARK_SUBMIT_ARGS", "")))}


def read_properties(text: str) -> dict[str, str]:
    r"""Read `spark-defaults.conf`, which Spark reads as Java properties.

    >>> read_properties("# mine\nspark.ui.enabled  true\nspark.jars=a,\\\n b")
    {'spark.ui.enabled': 'true', 'spark.jars': 'a,b'}
    """
    found = {}
    for line in re.sub(r"\\\r?\n\s*", "", text).splitlines():
        if line.lstrip().startswith(("#", "!")):
            continue
        if match := _PROPERTY.match(line):
            found[match.group(1)] = match.group(2).strip()
    return {name: value for name, value in found.items() if name.startswith("spark.")}


def _submit_args(text: str) -> Iterator[tuple[str, str]]:
    try:
        words = iter(shlex.split(text))
    except ValueError:  # Spark will say so
        return
    for word in words:
        name, equals, value = word.partition("=")
        if name in ("--conf", "-c"):
            setting = value if equals else next(words, "")
            key, _, value = setting.partition("=")
            yield key, value
        elif name in _SUBMIT:
            yield _SUBMIT[name], value if equals else next(words, "")
