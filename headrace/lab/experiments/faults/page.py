"""The results of a campaign as JSON, and as a page for the docs. Pure but for reading the JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from headrace.lab.ending import Ending
from headrace.lab.experiments.faults.campaign import WORDS, Result
from headrace.lab.experiments.faults.phases import Phase
from headrace.lab.experiments.faults.variants import VARIANTS, SinkKind, Source, Variant
from headrace.state.crash_points import Point

#: What a gap is called in the table: `headrace.engine.epoch_run` numbers the steps.
GAPS = {
    Point.BEFORE_TASKS: "after step 1: no task has begun",
    Point.BEFORE_SEAL: "in a task: its change log is not written",
    Point.AFTER_SEAL: "in a task: its change log is written, the driver does not know",
    Point.WORKER_LOST: "the driver has heard that a task died",
    Point.BEFORE_SINKS: "after step 2: no sink has rows",
    Point.BETWEEN_SINKS: "in step 3: one sink has rows, the next has none",
    Point.AFTER_SINKS: "after step 3: no manifest",
    Point.AFTER_MANIFEST: "after step 4: Spark does not know",
    Point.AFTER_RETURN: "after step 5: all is read",
}

_READS = {
    Source.FRAMES: "two streaming DataFrames", Source.SPLITTABLE: "unbounded splittable DoFns",
}
_WRITES = {
    SinkKind.FILES: "Parquet, by the workers",
    SinkKind.PARTITIONS: "Parquet with `partition_by`, by Spark",
    SinkKind.FUNCTION: "a function, into SQLite",
    SinkKind.BEAM_FILES: "Beam's `WriteToFiles`",
    SinkKind.BEAM_TEXT: "Beam's `WriteToText`",
}


def summary(results: Sequence[Result], date: str, machine: str) -> dict[str, Any]:
    """Add the results of rounds up."""
    hits: Counter[tuple[str, str]] = Counter()
    skipped: Counter[str] = Counter()
    by_variant: Counter[str] = Counter()
    for result in results:
        for kind, where, count in result.hits:
            hits[kind, where] += count
        skipped.update(dict(result.skipped))
        by_variant[result.variant] += result.faults
    verdicts = Counter(result.verdict for result in results)
    return {
        "date": date,
        "machine": machine,
        "rounds": len(results),
        "seeds": sorted(result.seed for result in results),
        "verdicts": {word: verdicts[ending] for ending, word in WORDS.items()},
        "faults": sum(hits.values()),
        "starts": sum(result.starts for result in results),
        "epochs": sum(result.epochs for result in results),
        "rows": sum(result.rows for result in results if result.verdict is Ending.RIGHT),
        "round_seconds": round(sum(result.seconds for result in results)),
        "faults_by_variant": dict(sorted(by_variant.items())),
        "hits": [[kind, where, count] for (kind, where), count in sorted(hits.items())],
        "skipped": dict(sorted(skipped.items())),
        "wrong": [
            {"seed": r.seed, "variant": r.variant, "verdict": WORDS[r.verdict],
             "told": list(r.told), "again": r.command}
            for r in results if r.verdict is not Ending.RIGHT
        ],
    }


def page(told: dict[str, Any]) -> str:
    """Lay a summary out."""
    hits = {(kind, where): count for kind, where, count in told["hits"]}
    by_kind: Counter[str] = Counter()
    for (kind, _), count in hits.items():
        by_kind[kind] += count
    right = told["verdicts"][WORDS[Ending.RIGHT]]
    lines = [
        "# A campaign of faults",
        "",
        "<!-- made by `headrace lab run faults page`, whose text stands in faults/page.py -->",
        "",
        f"{told['date']}, {told['machine']}: {told['faults']:,} faults in {told['rounds']} rounds "
        f"(seeds {_spans(told['seeds'])}), {told['starts']:,} starts of a driver, "
        f"{told['epochs']:,} epochs. Every round ends with all rows of its sinks held against an "
        f"answer worked out in plain Python: **{right} of {told['rounds']} rounds right"
        + (f", {told['rows']:,} rows, none lost, none doubled**." if right == told["rounds"] else
           "**; the others stand at the end."),
        "",
        *([told["remark"], ""] if told.get("remark") else []),
        "`make chaos-night` does it again; `headrace lab run faults round --seed N --variant NAME` "
        "repeats one round. The moments of faults depend on the machine, the faults themselves on "
        "the seed alone. All totals: `results/chaos-campaign.json`; round by round: "
        "`results/chaos-campaign.jsonl`.",
        "",
        "A round is one run from its first epoch to its end. Its plan is drawn from the seed: some "
        "six starts of a driver, and what each of them suffers. Nothing is mocked: drivers, JVMs "
        "and workers are processes that get signals, full disks are small file systems, and a "
        "driver that comes back is a real one that was stopped, on a checkpoint without locks. "
        "Slow disks and clocks that jump are put into the driver's process before Spark starts. "
        "After a kill the next start may have another number of shards, or no local stores.",
        "",
        "## What was done",
        "",
        "| fault | times |",
        "|---|---:|",
        *(f"| {kind} | {count} |" for kind, count in sorted(by_kind.items())),
        "",
        "## At which step of the commit",
        "",
        "Faults at random moments, by what the run had left on disk:",
        "",
        *_table([
            (phase.value, Counter({k: n for (k, w), n in hits.items() if w == phase.value}))
            for phase in Phase
        ]),
        "",
        "Processes that ended in a numbered gap:",
        "",
        "| gap | times |",
        "|---|---:|",
        *(f"| {GAPS[point]} | {hits.get(('ended in a gap', point.value), 0)} |" for point in Point),
        "",
        "## In which pipeline",
        "",
        "All of them keep windows, sessions, timers, state cells and a side input that comes late.",
        "",
        "| variant | reads | writes | faults |",
        "|---|---|---|---:|",
        *(
            f"| {name} | {_READS[VARIANTS[name].source]} | {_writes(VARIANTS[name])} | {count} |"
            for name, count in told["faults_by_variant"].items()
        ),
    ]
    if told["skipped"]:
        names = ", ".join(f"{kind} ({count})" for kind, count in told["skipped"].items())
        lines += ["", f"Left out, because this machine does not allow them: {names}."]
    for wrong in told["wrong"]:
        lines += ["", f"**{wrong['verdict']}**: seed {wrong['seed']}, {wrong['variant']}. "
                  f"Again: `{wrong['again']}`"]
        lines += [f"* {text.splitlines()[0]}" for text in wrong["told"]]
    return "\n".join(lines) + "\n"


def _writes(variant: Variant) -> str:
    return "; ".join(_WRITES[kind] for kind in dict.fromkeys(variant.sinks.values()))


def _table(rows: Sequence[tuple[str, Counter[str]]]) -> list[str]:
    lines = ["| the run was | times | of these |", "|---|---:|---|"]
    for name, counts in rows:
        kinds = ", ".join(f"{kind} {n}" for kind, n in sorted(counts.items()))
        lines.append(f"| {name} | {counts.total()} | {kinds} |")
    return lines


def _spans(seeds: Sequence[int]) -> str:
    """Give numbers as spans.

    >>> _spans([1, 2, 3, 7])
    '1-3, 7'
    """
    spans: list[list[int]] = []
    for seed in seeds:
        if spans and seed == spans[-1][1] + 1:
            spans[-1][1] = seed
        else:
            spans.append([seed, seed])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
