"""What can be done to a file or a folder, and which part of a checkpoint it is.

Takes a home and a path below it, changes it. Knows nothing of what a run makes of it.
"""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

#: In names of kinds: Hadoop's checksum beside the file goes too, as on stores that have none.
NO_CRC = ", no .crc"


class NotHereError(Exception):
    """This damage cannot be done to this path; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Site:
    """A path that is damaged, and what is at hand for it."""

    home: Path  # checkpoint and output are below it
    path: str  # below the home
    older: tuple[Path, ...]  # what the home was at earlier moments
    drawn: random.Random

    @property
    def target(self) -> Path:
        """The path itself."""
        return self.home / self.path


#: Each gives the paths it has touched, below the home.
Damage = Callable[[Site], Sequence[str]]


def _rewritten(site: Site, data: bytes) -> Sequence[str]:
    if data == site.target.read_bytes():
        raise NotHereError
    site.target.write_bytes(data)
    return [site.path]


def _flip(site: Site) -> Sequence[str]:
    """Change one bit at a random place."""
    data = bytearray(site.target.read_bytes())
    if not data:
        raise NotHereError
    data[site.drawn.randrange(len(data))] ^= 1 << site.drawn.randrange(8)
    return _rewritten(site, bytes(data))


def _digit(site: Site) -> Sequence[str]:
    """Make one digit another, so that the text is still well formed."""
    data = bytearray(site.target.read_bytes())
    places = [at for at, byte in enumerate(data) if chr(byte).isdigit()]
    if not places or b"\0" in data:
        raise NotHereError
    at = site.drawn.choice(places)
    data[at] = ord(site.drawn.choice([d for d in "123456789" if ord(d) != data[at]]))
    return _rewritten(site, bytes(data))


def _half(site: Site) -> Sequence[str]:
    data = site.target.read_bytes()
    return _rewritten(site, data[: len(data) // 2])


def _zero(site: Site) -> Sequence[str]:
    return _rewritten(site, b"")


def _double(site: Site) -> Sequence[str]:
    """Append the file to itself."""
    return _rewritten(site, site.target.read_bytes() * 2)


def _delete(site: Site) -> Sequence[str]:
    if site.target.is_dir():
        shutil.rmtree(site.target)
    else:
        site.target.unlink()
    return [site.path]


def _next(site: Site) -> Sequence[str]:
    """Put a copy of the file under the next number."""
    found = list(re.finditer(r"\d+", site.target.name))
    if not found:
        raise NotHereError
    digits = found[0].group()
    name = site.target.name.replace(digits, f"{int(digits) + 1:0{len(digits)}d}", 1)
    copy = site.target.with_name(name)
    if copy.exists():
        raise NotHereError
    shutil.copy2(site.target, copy)
    touched = [str(copy.relative_to(site.home))]
    if (crc := crc_of(site.target)).exists():
        shutil.copy2(crc, crc_of(copy))
        touched.append(str(crc_of(copy).relative_to(site.home)))
    return touched


def _older(site: Site) -> Sequence[str]:
    """Put what lay at the same path at an earlier moment."""
    choices = [home / site.path for home in site.older if (home / site.path).exists()]
    choices = [path for path in choices if path.is_dir() or not _same(path, site.target)]
    if not choices:
        raise NotHereError
    chosen = site.drawn.choice(choices)
    if chosen.is_dir():
        shutil.rmtree(site.target)
        shutil.copytree(chosen, site.target)
    else:
        shutil.copy2(chosen, site.target)
    return [site.path]


def _sibling(site: Site) -> Sequence[str]:
    """Exchange with another one of the same folder, and their checksums too."""
    beside = [
        path for path in sorted(site.target.parent.iterdir())
        if path != site.target and path.is_dir() == site.target.is_dir()
        and path.name.startswith(".") == site.target.name.startswith(".")
        and (path.is_dir() or not _same(path, site.target))
    ]
    if not beside:
        raise NotHereError
    other = site.drawn.choice(beside)
    touched = []
    for one, two in ((site.target, other), (crc_of(site.target), crc_of(other))):
        if one.exists() and two.exists():
            aside = one.with_name(one.name + "-aside")
            one.rename(aside)
            two.rename(one)
            aside.rename(two)
            touched += [str(one.relative_to(site.home)), str(two.relative_to(site.home))]
    return touched


def _cut_back(site: Site) -> Sequence[str]:
    """Take the newest entry out of each log of Spark's below a folder."""
    touched = []
    for folder in ("offsets", "commits", "sources/0"):
        numbers = [int(p.name) for p in (site.target / folder).iterdir() if p.name.isdigit()]
        for path in (site.target / folder / str(max(numbers)),):
            for gone in (path, crc_of(path)):
                gone.unlink(missing_ok=True)
                touched.append(str(gone.relative_to(site.home)))
    return touched


def _without_crc(damage: Damage) -> Damage:
    def both(site: Site) -> Sequence[str]:
        crc = crc_of(site.target)
        if not crc.exists():
            raise NotHereError
        touched = [*damage(site), str(crc.relative_to(site.home))]
        crc.unlink(missing_ok=True)
        return touched

    return both


def crc_of(path: Path) -> Path:
    """Give the file in which Hadoop keeps the checksum of a file."""
    return path.with_name(f".{path.name}.crc")


def _same(one: Path, other: Path) -> bool:
    return one.read_bytes() == other.read_bytes()


#: What is done to a file.
FILE_KINDS: dict[str, Damage] = {
    "bit flipped": _flip,
    "digit changed": _digit,
    "cut to half": _half,
    "cut to zero": _zero,
    "deleted": _delete,
    "doubled": _double,
    "copied to next number": _next,
    "older version": _older,
    "swapped with sibling": _sibling,
}
FILE_KINDS |= {
    kind + NO_CRC: _without_crc(FILE_KINDS[kind])
    for kind in ("bit flipped", "digit changed", "cut to half", "cut to zero", "deleted", "doubled",
                 "older version")
}
#: What is done to a whole folder.
FOLDER_KINDS: dict[str, Damage] = {
    "deleted": _delete, "older version": _older, "swapped with sibling": _sibling,
}
LOG_KINDS: dict[str, Damage] = {**FOLDER_KINDS, "newest entries removed": _cut_back}

_SPARK = re.compile(
    r"checkpoint/spark/\d+/(metadata$|(offsets|commits|sources(?=/0))(?:/0(?=/))?/\d+$)"
)


def part_of(home: Path, path: str) -> str:
    """Say which part of a checkpoint or an output a path is."""
    place = Path(path)
    if place.name.startswith(".") and place.name.endswith(".crc"):
        of = place.with_name(place.name[1:-4])
        return f"{part_of(home, str(of))} .crc"
    if (home / path).is_dir():
        return re.sub(r"output/\w+|=\d+", _plain, re.sub(r"/\d+$|/\d+(?=/)", "/N", path)) + "/"
    if found := _SPARK.match(path):
        return f"spark {found[2]}, {_age(home, path)}" if found[2] else "spark metadata"
    if place.parts[0] == "output":
        if "_headrace" not in path:
            return "output, rows of an epoch"
        return "output, mark of the note" if place.name == "_SUCCESS" else "output, note"
    folder = place.parts[1]
    if folder in ("manifests", "incarnations"):
        return f"{folder}, {_age(home, path)}"
    if folder == "state":
        return f"state, {_needed(home, path)}"
    return folder


def _plain(found: re.Match[str]) -> str:
    return "output/SINK" if found[0].startswith("output") else "=N"


def _age(home: Path, path: str) -> str:
    names = [p.name for p in (home / path).parent.iterdir() if not p.name.startswith(".")]
    numbers = sorted(int(name.split(".")[0]) for name in names)
    return "newest" if int(Path(path).name.split(".")[0]) == numbers[-1] else "older"


def _needed(home: Path, path: str) -> str:
    newest = max((home / "checkpoint/manifests").iterdir())
    named = path.removeprefix("checkpoint/")
    return "needed" if named in newest.read_text() else "not needed any more"
