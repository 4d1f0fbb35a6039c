"""PageRank: how important is each page, by the links between pages?

Input: `Edge` (number, time, source, target), 0 <= source, target < `vertices`.
Output: one row per fixed window of `window_ms` that has an edge, and page, linked or not:

    start_ms  long    start of the window, milliseconds since 1970
    vertex    long
    rank      double  in [0, 1]; ranks of a window add up to 1, but for what rounding down takes
    settled   long    the round after which ranks had settled; 0: they had not after `rounds`

The edges of a window are one graph; an edge that comes twice counts twice. Ranks are whole numbers
of 10**-15 (`ONE`), so that every sum is exact and neither order nor partition can change a rank:

    before round 1      rank = ONE // vertices
    share of a page     rank // links that leave it
    lost                the ranks of all pages that no link leaves, added
    after a round       rank = ((100 - d) * (ONE // vertices)
                               + d * (shares that arrive + lost // vertices)) // 100

with d = `damping_percent`. Ranks have settled after the first round in which the changes of all
ranks, added without their signs, are no more than `tolerance`; that round's ranks are the answer.

Graph: the loop is unrolled into `rounds` + 1 equal steps, each one exchange. The pages are divided
into blocks; a block holds its pages' ranks and links, and travels from step to step. In a step it
adds what the blocks sent it (Add), makes its new ranks, and sends every block its shares (MulAdd),
with what it lost and by how much its ranks changed. So all blocks know in the next step whether
ranks had settled, and all stop there. The last step only looks.
"""

from __future__ import annotations

from typing import Any

import apache_beam as beam

from headrace.lab.workload import ByColumns, Column, Kind, Workload
from headrace.lab.workloads.kernels.blocks import Blocks, Round
from headrace.lab.workloads.kernels.generator import EdgeGenerator
from headrace.lab.workloads.kernels.settings import PageRankSettings
from headrace.lab.workloads.kernels.windows import fixed, start_ms


class PageRank(beam.PTransform):  # type: ignore[misc]
    """Edges -> rows."""

    def __init__(self, settings: PageRankSettings) -> None:
        super().__init__()
        self._settings = settings

    def expand(self, edges: Any) -> Any:
        """Build the graph."""
        settings = self._settings
        blocks = Blocks(
            vertices=settings.vertices,
            blocks=settings.blocks,
            damping_percent=settings.damping_percent,
        )
        parcels = tuple[int, Any]
        moving = (
            edges
            | "Windows" >> beam.WindowInto(fixed(settings.window_ms))
            | "Code" >> beam.Map(blocks.code).with_output_types(tuple[int, int])
            | "Links" >> beam.GroupByKey()
            | "Open" >> beam.FlatMap(blocks.open).with_output_types(parcels)
        )
        for number in range(1, settings.rounds + 2):
            step = Round(
                blocks=blocks, number=number, rounds=settings.rounds, tolerance=settings.tolerance
            )
            moving = (
                moving
                | f"Exchange {number}" >> beam.GroupByKey()
                | f"Round {number}" >> beam.FlatMap(step.run).with_output_types(parcels)
            )
        return (
            moving
            | "Ranks" >> beam.FlatMap(blocks.ranks)
            | "Row" >> beam.Map(_row).with_output_types(tuple[int, int, float, int])
        )


def _row(
    ranked: tuple[int, float, int], window: Any = beam.DoFn.WindowParam
) -> tuple[int, int, float, int]:
    vertex, rank, settled = ranked
    return start_ms(window), vertex, rank, settled


WORKLOAD = Workload(
    suite="kernels",
    name="pagerank",
    title="How important is each page, by the links between pages?",
    settings=PageRankSettings,
    generator=EdgeGenerator,
    columns=(
        Column("start_ms", Kind.LONG),
        Column("vertex", Kind.LONG),
        Column("rank", Kind.DOUBLE),
        Column("settled", Kind.LONG),
    ),
    build=PageRank,
    oracle="headrace.lab.oracle.kernels:pagerank",
    native="headrace.lab.native.kernels:pagerank",
    by_columns=ByColumns(columns=("source", "target"), build=PageRank),
)
