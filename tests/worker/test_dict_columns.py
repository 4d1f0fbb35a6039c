"""Rows that become dicts and lists stay columns, and come out as on objects, whoever takes them."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from headrace.io import ReadFromSpark, WriteToSpark
from headrace.testing import LocalRunner, LocalSession
from headrace.worker.columns.kernels import Outcome
from tests.worker.lowering import not_called, on_columns

BIDS = "auction long not null, price long, name string not null"
ROWS = [(i % 7, None if i % 50 == 0 else i * 1_000, f"n{i % 3}") for i in range(3_000)]
SEEN: list[Any] = []
MODES = ["--columns=on", "--verify_columns", "--columns=off"]


def note(value: Any) -> None:
    SEEN.append(value)


def run(steps: Any, mode: str, schema: str | None = None) -> list[Any]:
    SEEN.clear()
    session = LocalSession()
    found: list[Any] = []
    with beam.Pipeline(LocalRunner(session=session), PipelineOptions(["--shards=2", mode])) as p:
        out = p | ReadFromSpark(session.createDataFrame(ROWS, BIDS)) | steps
        if schema is None:
            out | beam.Map(note)
        else:
            out | WriteToSpark(
                function=lambda made: found.extend(map(tuple, made.collect())), schema=schema
            )
    return found if schema is not None else list(SEEN)


class Dicts(beam.PTransform):  # type: ignore[misc]
    """Makes dicts, looks into them, and makes others."""

    def expand(self, rows: Any) -> Any:
        made = rows | "Made" >> beam.Map(
            lambda bid: {"id": bid.auction, "price": bid.price, "more": [bid.name, bid.auction * 2]}
        )
        kept = made | "Kept" >> beam.Filter(lambda row: row["id"] != 3)
        return kept | "Priced" >> beam.Map(
            lambda row: {**row, "price": row["price"] or -1, "name": row["more"][0]}
        )


def priced(row: tuple[Any, ...]) -> dict[str, Any]:
    auction, price, name = row
    return {"id": auction, "price": price or -1, "more": [name, auction * 2], "name": name}


@pytest.mark.parametrize("mode", MODES)
def test_dicts_reach_a_function_of_the_users_as_it_would_have_made_them(mode: str) -> None:
    found = run(Dicts(), mode)
    assert sorted(found, key=repr) == sorted(
        (priced(row) for row in ROWS if row[0] != 3), key=repr
    )
    assert {(type(row), type(row["more"]), *row) for row in found} == {
        (dict, list, "id", "price", "more", "name")
    }


@pytest.mark.parametrize("mode", MODES)
def test_dicts_are_rows_of_a_sink(mode: str) -> None:
    class Rows(beam.PTransform):  # type: ignore[misc]
        def expand(self, rows: Any) -> Any:
            return rows | beam.Map(lambda bid: {"name": bid.name, "auction": bid.auction})

    found = run(Rows(), mode, "auction long, name string")
    assert sorted(found) == sorted((auction, name) for auction, _, name in ROWS)


@pytest.mark.parametrize("mode", MODES)
def test_dicts_are_values_of_a_group(mode: str) -> None:
    class Groups(beam.PTransform):  # type: ignore[misc]
        def expand(self, rows: Any) -> Any:
            pairs = rows | beam.Map(lambda bid: (bid.name, {"auction": bid.auction, "x": [1]}))
            return pairs | beam.GroupByKey() | "Sum" >> beam.MapTuple(
                lambda name, rows: (name, sum(row["auction"] for row in rows))
            )

    wanted = {name: sum(a for a, _, n in ROWS if n == name) for name in ("n0", "n1", "n2")}
    assert dict(run(Groups(), mode)) == wanted


@on_columns
@not_called
def test_a_dict_keeps_the_batch_in_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    right = Outcome.__init__

    def counting(self: Any, *args: Any, **kwargs: Any) -> None:
        right(self, *args, **kwargs)
        seen.append(0 if self.back is None else len(self.back))

    monkeypatch.setattr(Outcome, "__init__", counting)
    run(Dicts(), "--columns=on")
    assert seen and sum(seen) == 0
