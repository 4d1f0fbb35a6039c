"""Lays judged results out as the page docs/beam-suites.md. Runs and judges nothing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from headrace.lab.experiments.beam_suites.exceptions import Kind, LeftOut
from headrace.lab.experiments.beam_suites.judge import Judged, Meaning

HEAD = """# Beam's own tests on headrace

The apache-beam wheel ships the tests of Beam's Python SDK. The modules whose tests build pipelines
run here as they are, by the rules of Beam's own pytest settings, with headrace in the place of
Beam's local runner: a pipeline that names no runner, or one of the local ones, runs on Spark,
`local[2]`, two shards. So does a list that is piped into a transform without a pipeline object.

```sh
make beam-suites                              # all of them; about half an hour on two idle cores
headrace lab run beam-suites io.text          # modules by the beginning of their names
headrace lab run beam-suites --page --save    # also this page and results/beam-suites.json
```

A test that cannot pass stands in `headrace/lab/experiments/beam_suites/exceptions.toml` with its
reason; a failure that is not there, or a row whose tests pass, ends the command with 1. A handful
of modules are among the project's own tests (`tests/conformance/test_beam_suites.py`).

"""

KINDS = {
    Kind.ONE_SHARD: "Passed with one shard",
    Kind.IN_PROCESS: "Impossible out of process",
    Kind.OTHER_RUNNER: "Ask for another runner",
    Kind.BEAM: "Fail on Beam's local runner too",
    Kind.OURS: "Ours to mend",
}
SAID = {
    Kind.ONE_SHARD: "The test asserts what Beam leaves open: that there is one bundle, the order "
    "of elements, which values a combiner sees first. It passes on headrace with `--shards=1`.",
    Kind.IN_PROCESS: "The test looks, in its own process, at what functions did in another one: a "
    "list they appended to, a mock they were to call, a lock they shared. They cannot pass on any "
    "runner whose functions run elsewhere.",
    Kind.OTHER_RUNNER: "The test asserts what one of Beam's own runners does beyond Beam's model.",
    Kind.BEAM: "Also without headrace, with the packages that are installed here.",
    Kind.OURS: "Defects of headrace.",
}


def page(
    judged: Sequence[Judged],
    left_out: Sequence[tuple[LeftOut, int]],
    when: str,
    missing: Sequence[str] = (),
) -> str:
    """Give the whole page; `missing` are the modules that the run did not come to the end of."""
    parts = [HEAD, when, "\n\n", totals(judged), packages(judged), skips(judged)]
    if missing:
        names = ", ".join(f"`{module}`" for module in missing)
        parts.insert(2, f" **{len(missing)} modules were not gone through to their end:** {names}.")
    parts += [exceptions(judged, kind) for kind in Kind]
    parts += ["\n## Modules that are not run\n\n| modules | how many | why |\n|---|--:|---|\n"]
    parts += [
        f"| {', '.join(f'`{name}`' for name in row.modules)} | {count} | {row.reason} |\n"
        for row, count in left_out
    ]
    return "".join(parts)


def totals(judged: Sequence[Judged]) -> str:
    """The first table."""
    counts = Counter(each.verdict for each in judged)
    kinds = Counter(each.row.kind for each in judged if _is_known(each) and each.row)
    modules = len({each.result.module for each in judged})
    piped = [each for each in judged if each.result.pipelines]
    ran = [each for each in piped if each.verdict is Meaning.PASSED]
    pipelines = sum(each.result.pipelines for each in judged)
    one = sum(1 for each in judged if each.verdict is Meaning.PASSED and _needs_one_shard(each))
    lines = [
        f"{len(judged):,} tests in {modules} modules. {len(piped):,} of them started "
        f"{pipelines:,} pipelines on headrace; {len(ran):,} of these passed. The other tests of "
        "these modules build none, or only look at the graph.\n",
        "\n| | tests |\n|---|--:|\n",
        f"| passed | {counts[Meaning.PASSED]:,} |\n",
        f"| of these, with one shard | {one:,} |\n",
        f"| skipped by Beam | {counts[Meaning.SKIPPED]:,} |\n",
    ]
    lines += [
        f"| {name.lower() if kind is not Kind.BEAM else name[0].lower() + name[1:]} "
        f"| {kinds[kind]:,} |\n"
        for kind, name in KINDS.items()
        if kind not in (Kind.OURS, Kind.ONE_SHARD)
    ]
    lines.append(f"| **ours to mend** | {counts[Meaning.OURS]:,} |\n")
    return "".join(lines)


def packages(judged: Sequence[Judged]) -> str:
    """The table of packages."""
    by_package: dict[str, list[Judged]] = defaultdict(list)
    for each in judged:
        by_package[package_of(each.result.module)].append(each)
    lines = [
        "\n## By package\n\n| package | tests | with pipelines | passed | skipped by Beam "
        "| impossible | ours |\n|---|--:|--:|--:|--:|--:|--:|\n"
    ]
    for name, group in sorted(by_package.items()):
        counts = Counter(each.verdict for each in group)
        piped = sum(1 for each in group if each.result.pipelines)
        lines.append(
            f"| `{name}` | {len(group)} | {piped} | {counts[Meaning.PASSED]} "
            f"| {counts[Meaning.SKIPPED]} | {counts[Meaning.IMPOSSIBLE]} "
            f"| {counts[Meaning.OURS]} |\n"
        )
    return "".join(lines)


def package_of(module: str) -> str:
    """The package under which a module is counted: the first folder, two for deep ones.

    >>> [package_of(m) for m in ("io.textio_test", "ml.rag.x_test", "pipeline_test")]
    ['io', 'ml.rag', 'apache_beam']
    """
    return ".".join(module.split(".")[:-1][:2]) or "apache_beam"


def skips(judged: Sequence[Judged]) -> str:
    """The table of Beam's reasons to skip, the frequent ones first."""
    reasons = Counter(
        shorten(each.result.text) for each in judged if each.verdict is Meaning.SKIPPED
    )
    lines = ["\n## Skipped by Beam\n\n| Beam says | tests |\n|---|--:|\n"]
    lines += [f"| {reason} | {count} |\n" for reason, count in reasons.most_common()]
    return "".join(lines)


def shorten(reason: str) -> str:
    """A skip's reason without pytest's words, fit for a table.

    >>> shorten("Skipped: GCP dependencies | are not installed")
    'GCP dependencies are not installed'
    """
    text = " ".join(reason.removeprefix("Skipped: ").replace("|", " ").split())
    return text if len(text) <= 120 else text[:117] + "..."


def exceptions(judged: Sequence[Judged], kind: Kind) -> str:
    """The list of one kind's tests, reason by reason."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    for each in judged:
        listed = _is_known(each) or _needs_one_shard(each)
        if listed and each.row is not None and each.row.kind is kind:
            by_reason[each.row.reason].append(each.name)
        elif kind is Kind.OURS and each.verdict is Meaning.OURS:
            by_reason["not explained yet"].append(each.name)
    lines = [f"\n## {KINDS[kind]}\n\n{SAID[kind]}\n\n"]
    if not by_reason:
        return "".join([*lines, "None.\n"])
    for reason, tests in sorted(by_reason.items()):
        lines.append(f"* {reason}:\n")
        lines += [f"  * `{test}`\n" for test in tests]
    return "".join(lines)


def _is_known(each: Judged) -> bool:
    return each.row is not None and each.verdict in (Meaning.IMPOSSIBLE, Meaning.OURS)


def _needs_one_shard(each: Judged) -> bool:
    return each.row is not None and each.row.kind is Kind.ONE_SHARD
