"""Lays verdicts out as the page docs/user-suites.md. Runs and judges nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase

from headrace.lab.experiments.beam_suites.exceptions import Kind
from headrace.lab.experiments.beam_suites.judge import Judged, Meaning
from headrace.lab.experiments.beam_suites.page import exceptions, shorten
from headrace.lab.experiments.user_suites.packages import PACKAGES
from headrace.lab.experiments.user_suites.verdicts import PackageVerdict

HEAD = """# Packages that build on Beam, on headrace

Packages of the package index whose source distributions bring tests that build pipelines. Their
tests run here unmodified, with headrace in the place of Beam's local runner: Spark, `local[2]`, two
shards, unless a package's section says otherwise. Each package has an environment of its own, which
the command makes in the user's cache; Beam and Spark in it are those of headrace. The same tests
run on Beam's local runner first: what fails there too, with the packages of today, is not ours.

```sh
headrace lab run user-suites                    # all of them
headrace lab run user-suites xarray-beam        # one; --seconds limits each of its tests
headrace lab run user-suites --page --save      # also this page and results/user-suites.json
```

A test that passes on Beam's local runner and cannot pass on headrace stands in
`headrace/lab/experiments/user_suites/exceptions.toml` with its reason; a failure that is not there
ends the command with 1.

"""

SAID = {
    Kind.ONE_SHARD: "passed, with one shard",
    Kind.IN_PROCESS: "impossible out of process",
    Kind.OTHER_RUNNER: "asks for another runner",
    Kind.BEAM: "fails on Beam's local runner too",
    Kind.OURS: "ours to mend",
}


#: Begins the table: a line of names, and one that says how they stand.
COLUMNS = (
    "| package | version | what it does | tests | with pipelines | passed | skipped "
    "| fail on Beam's runner too | impossible | ours |\n"
    "|---|---|---|--:|--:|--:|--:|--:|--:|--:|\n"
)
#: Begins a package's section.
_TITLE = "\n## "


def page(verdicts: Sequence[PackageVerdict], when: str, before: str = "") -> str:
    """Give the whole page.

    Args:
        verdicts: of the packages whose tests were run.
        when: that was, and with what.
        before: the page as it is; what it says of packages that were not run now stays.
    """
    rows, sections = _kept(before)
    for each in verdicts:
        rows[each.package.name] = table([each]).removeprefix(COLUMNS)
        sections[each.package.name] = _section(each, when)
    names = [each.name for each in PACKAGES if each.name in rows]
    names += [name for name in rows if name not in names]
    return "".join([
        HEAD, COLUMNS, *(rows[name] for name in names), *(sections.get(name, "") for name in names)
    ])


def _kept(before: str) -> tuple[dict[str, str], dict[str, str]]:
    """Give the rows and the sections of a page, by the names of packages."""
    top, *rest = before.split(_TITLE)
    lines = top.partition(COLUMNS)[2].splitlines(keepends=True)
    rows = {line.split("|")[1].strip(): line for line in lines if line.startswith("| ")}
    return rows, {part.partition("\n")[0]: f"{_TITLE}{part}" for part in rest}


def table(verdicts: Sequence[PackageVerdict]) -> str:
    """A row for each package."""
    lines = [COLUMNS]
    for each in verdicts:
        meanings = Counter(one.verdict for one in each.judged)
        theirs = sum(1 for one in each.judged if _fails_for(one, Kind.BEAM))
        piped = sum(1 for one in each.judged if one.result.pipelines)
        lines.append(
            f"| {each.package.name} | {each.package.version} | {each.package.does} "
            f"| {len(each.judged)} | {piped} | {meanings[Meaning.PASSED]} "
            f"| {meanings[Meaning.SKIPPED]} | {theirs} "
            f"| {meanings[Meaning.IMPOSSIBLE] - theirs} | {meanings[Meaning.OURS]} |\n"
        )
    return "".join(lines)


def _fails_for(one: Judged, kind: Kind) -> bool:
    return one.verdict is Meaning.IMPOSSIBLE and one.row is not None and one.row.kind is kind


def _section(each: PackageVerdict, when: str) -> str:
    parts = [f"{_TITLE}{each.package.name}\n\n{when}{_choice(each)}\n"]
    if each.missing:
        parts.append(f"\n**Not gone through to the end:** {', '.join(each.missing)}.\n")
    skipped = Counter(
        shorten(one.result.text) for one in each.judged if one.verdict is Meaning.SKIPPED
    )
    if skipped:
        parts.append("\nSkipped by the package:\n\n")
        parts += [f"* {reason}: {count}\n" for reason, count in skipped.most_common()]
    for kind, said in SAID.items():
        told = exceptions(each.judged, kind)
        if not told.endswith("None.\n"):
            listed = told.partition("\n\n* ")[2]
            parts.append(f"\n{said[0].upper()}{said[1:]}:\n\n* {listed}")
    if len(parts) == 1:
        parts.append("\nAll passed.\n")
    if each.package.mended:
        parts.append("\nWhat its tests showed in headrace, mended since:\n\n")
        parts += [f"* {what}\n" for what in each.package.mended]
    return "".join(parts)


def _choice(each: PackageVerdict) -> str:
    """Say which tests were run, and where, if not all of them on Spark."""
    said = f" Left out: {each.package.left_out}." if each.package.left_out else ""
    if not each.package.on_spark:
        return said
    names = [one.name for one in each.judged]
    spark = sum(any(fnmatchcase(name, p) for p in each.package.on_spark) for name in names)
    return (
        f"{said} {spark} of the {len(names)} ran on Spark, the others on `LocalRunner`, "
        "headrace in one process."
    )
