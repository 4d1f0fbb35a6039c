"""The outcomes as a table: for the terminal, and as a page of the documentation."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from headrace.lab.experiments.faults.damage_judge import Damaged, Fate

_HEADER = ("part", "cases", *(outcome.value for outcome in Fate), "flagged by verify")


def rows(found: Iterable[Damaged], by: str = "part") -> list[tuple[str, ...]]:
    """Give a line for each part or kind, and one for all."""
    groups: dict[str, list[Damaged]] = defaultdict(list)
    whole = list(found)
    for verdict in whole:
        groups[getattr(verdict.case, by)].append(verdict)
    lines = [_line(name, group) for name, group in sorted(groups.items())]
    return [*lines, _line("all", whole)]


def _line(name: str, group: Sequence[Damaged]) -> tuple[str, ...]:
    counted = Counter(verdict.outcome for verdict in group)
    harmful = [v for v in group if v.outcome not in (Fate.HARMLESS, Fate.OWN)]
    flagged = f"{sum(v.flagged for v in harmful)} of {len(harmful)}" if harmful else "-"
    return (name, str(len(group)), *(str(counted[outcome] or "-") for outcome in Fate), flagged)


def summary(found: Sequence[Damaged]) -> str:
    """Give the tables and the cases that are not as they should be, as plain text."""
    text = [_table(rows(found)), "", _table(rows(found, "kind")), ""]
    for outcome in _BAD:
        cases = [verdict for verdict in found if verdict.outcome is outcome]
        if cases:
            text.append(f"{outcome.value}: {len(cases)}")
            text += [f"  {v.case.name}{' [flagged]' * v.flagged}: {v.told!r}" for v in cases]
    text.append("restored and not right:")
    text += [
        f"  {v.case.name}: {v.restored!r}" for v in found if v.restored not in ("", "right")
    ]
    return "\n".join(text)


def _table(lines: Sequence[tuple[str, ...]]) -> str:
    whole = [_HEADER, *lines]
    widths = [max(len(line[column]) for line in whole) for column in range(len(_HEADER))]
    return "\n".join(
        "  ".join(f"{cell:<{w}}" for cell, w in zip(line, widths, strict=True)).rstrip()
        for line in whole
    )


def page(found: Sequence[Damaged], seed: int) -> str:
    """Give the page of the documentation."""
    counted = Counter(verdict.outcome for verdict in found)
    tried = [verdict for verdict in found if verdict.restored]
    right = sum(verdict.restored == "right" for verdict in tried)
    meaning = "\n".join(f"* **{outcome.value}**: {_MEANING[outcome]}" for outcome in Fate)
    bad = [verdict for verdict in found if verdict.outcome in _BAD]
    listed = "\n".join(f"* {v.outcome.value}: `{v.case.name}`: {v.told[:200]}" for v in bad)
    return _PAGE.format(
        cases=len(found), seed=seed, meaning=meaning,
        named=counted[Fate.NAMED], harmless=counted[Fate.HARMLESS],
        wrong=counted[Fate.WRONG] or "none", hung=counted[Fate.HUNG] or "none",
        parts=_markdown(rows(found)), kinds=_markdown(rows(found, "kind"), "damage"),
        tried=len(tried), right=right,
        rest=f"\n## Not as it should be\n\n{listed}\n" if bad else "",
    )


def _markdown(lines: Sequence[tuple[str, ...]], first: str = _HEADER[0]) -> str:
    whole = [(first, *_HEADER[1:]), ("---", *["---:"] * (len(_HEADER) - 1)), *lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in whole)


_BAD = (Fate.WRONG, Fate.HUNG, Fate.FOREIGN)
_MEANING = {
    Fate.NAMED: "the restart is refused by an error that names the file or folder and says what "
    "can be done",
    Fate.HARMLESS: "the restart runs, and the rows are exactly the right ones",
    Fate.OWN: "a file of finished rows was damaged, which no restart reads: at most its own "
    "rows are not there, all others are right",
    Fate.FOREIGN: "the restart is refused, but by an error that does not say where or what to "
    "do",
    Fate.WRONG: "rows are lost or doubled",
    Fate.HUNG: "the restart neither ends nor fails",
}
_PAGE = """\
# Damage

What becomes of a pipeline when a file of its checkpoint is damaged. This page is written by a
command, which runs a pipeline, damages its checkpoint, starts it again, and compares its rows with
those worked out from the input in plain Python:

```sh
headrace lab run damage --cases {cases} --seed {seed} \\
  --save results/damage.json --page docs/damage.md
```

The pipeline reads two streaming DataFrames of files, keeps state and timers, sums in windows over a
side input, and writes two folders of rows. It has run over the first part of its input, in several
starts; in some cases it ended in the middle of an epoch's commit. Then one file or folder of its
checkpoint or its output is damaged, the local copies of the state are wiped, the rest of the input
comes, and the pipeline is started again and drained.

Of {cases} damages {named} were refused by name and {harmless} did no harm; wrong rows: {wrong};
hung: {hung}. Of the refused ones {tried} were tried once more with the damage undone: {right} of
them went on and ended with the right rows. All cases: `results/damage.json`.

{meaning}

The last column counts, among the damages that stop a restart or harm it, those that
`headrace state verify` tells of beforehand.

## By what is damaged

{parts}

`.crc` files are the checksums that Hadoop keeps beside its files on a local disk.

## By kind of damage

{kinds}

`no .crc`: the checksum beside the file was removed too, as it is not there on an object store.
{rest}"""
