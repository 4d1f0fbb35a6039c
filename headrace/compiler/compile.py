"""The compiler's front door: Beam proto in, sealed plan out. Never starts Spark.

check -> ingest -> analyse -> cut regions, elide -> fuse -> schedule -> seal.
"""

from __future__ import annotations

import hashlib
from typing import Any

from apache_beam.portability.api import beam_fn_api_pb2

from headrace.compiler.analyse import analyse
from headrace.compiler.cut_regions import cut_regions
from headrace.compiler.elide import elidable_groupings
from headrace.compiler.fuse import fuse
from headrace.compiler.ingest import ingest
from headrace.compiler.schedule import schedule
from headrace.compiler.urns import check_pipeline
from headrace.plan.supersteps import Plan


def compile_pipeline(
    pipeline_proto: Any, *, shards: int, name: str = "pipeline", drain: bool = False
) -> Plan:
    """Compile a portable pipeline for a number of shards."""
    check_pipeline(pipeline_proto)
    graph = analyse(ingest(pipeline_proto))
    at_home = elidable_groupings(graph)
    context, stages = fuse(pipeline_proto, at_home=at_home, drain=drain)
    laid_out = schedule(stages, context, at_home=at_home)
    components = beam_fn_api_pb2.ProcessBundleDescriptor(
        pcollections=dict(context.components.pcollections.items()),
        coders=dict(context.components.coders.items()),
        windowing_strategies=dict(context.components.windowing_strategies.items()),
        environments=dict(context.components.environments.items()),
    ).SerializeToString(deterministic=True)
    seal = hashlib.sha256(components)
    for superstep in laid_out.supersteps:
        for stage in superstep.stages:
            seal.update(stage.stage_id.encode())
            seal.update(stage.transforms)
    return Plan(
        name=name,
        shards=shards,
        supersteps=laid_out.supersteps,
        channels=laid_out.channels,
        operators=graph.operators,
        regions=cut_regions(graph),
        components=components,
        fingerprint=seal.hexdigest()[:16],
    )
