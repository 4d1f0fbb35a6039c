"""Merges the monitoring infos that tasks report.

Takes serialised reports, gives Beam's monitoring infos summed over shards. Beam's own `consolidate`
merges integer sums and distributions only; gauges, string sets and tries need their combiners.
"""

from __future__ import annotations

import base64
import functools
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from apache_beam.metrics import monitoring_infos
from apache_beam.metrics.monitoring_infos import (
    BOUNDED_TRIE_TYPE,
    DISTRIBUTION_INT64_TYPE,
    ELEMENT_COUNT_URN,
    HISTOGRAM_TYPE,
    LATEST_INT64_TYPE,
    PROCESS_BUNDLE_MSECS_URN,
    STRING_SET_TYPE,
    SUM_INT64_TYPE,
)
from apache_beam.portability.api import beam_fn_api_pb2


def parse(report: bytes) -> list[Any]:
    """Read one task's report on one stage."""
    return list(beam_fn_api_pb2.ProcessBundleResponse.FromString(report).monitoring_infos)


def dump(infos_by_stage: Mapping[str, Iterable[Any]]) -> bytes:
    """Give what all stages did as bytes, for a manifest."""
    response = beam_fn_api_pb2.ProcessBundleResponse
    return json.dumps(
        {
            name: base64.b64encode(
                response(monitoring_infos=infos).SerializeToString(deterministic=True)
            ).decode()
            for name, infos in infos_by_stage.items()
        }
    ).encode()


def load(data: bytes) -> dict[str, list[Any]]:
    """Read what `dump` gave."""
    if not data:
        return {}
    return {name: parse(base64.b64decode(part)) for name, part in json.loads(data).items()}


def of_steps(
    stages: tuple[bytes, ...], infos_by_stage: Mapping[str, Iterable[Any]]
) -> dict[str, tuple[int, float]]:
    """Give for each step that the user has named its elements and the seconds its code has run.

    A step's elements are those of the largest collection that it gives, or a part of it does.

    Args:
        stages: the transforms of each stage, as the plan has them.
        infos_by_stage: Beam's monitoring infos.
    """
    makers = _makers(stages)
    elements: dict[str, int] = {}
    busy: dict[str, float] = {}
    for infos in infos_by_stage.values():
        for info in infos:
            if info.urn == ELEMENT_COUNT_URN:
                step = makers.get(info.labels.get("PCOLLECTION", ""), "")
                count = monitoring_infos.extract_counter_value(info)
                elements[step] = max(elements.get(step, 0), count)
            elif info.urn == PROCESS_BUNDLE_MSECS_URN:
                step = makers.get(info.labels.get("PTRANSFORM", ""), "")
                spent = monitoring_infos.extract_counter_value(info) / 1e3
                busy[step] = busy.get(step, 0.0) + spent
    return {
        step: (elements.get(step, 0), busy.get(step, 0.0)) for step in {*elements, *busy} - {""}
    }


class StepFigures(NamedTuple):
    """What a step has done, in all epochs so far."""

    into: int  # elements that came to it
    out: int  # elements of the largest collection that it gave
    busy: float  # seconds that its code has run


def flows_of_steps(
    stages: tuple[bytes, ...], infos_by_stage: Mapping[str, Iterable[Any]]
) -> dict[str, StepFigures]:
    """Give for each step that the user has named what came, what left and how long its code ran.

    What came is the elements of all collections that other steps made and this one takes; where
    they were grouped on the way, the groups.

    Args:
        stages: the transforms of each stage, as the plan has them.
        infos_by_stage: Beam's monitoring infos.
    """
    counts: dict[str, int] = {}
    for infos in infos_by_stage.values():
        for info in infos:
            if info.urn == ELEMENT_COUNT_URN:
                collection = info.labels.get("PCOLLECTION", "")
                count = monitoring_infos.extract_counter_value(info)
                counts[collection] = max(counts.get(collection, 0), count)
    busy = busy_of_labels(infos_by_stage)
    return {
        step: StepFigures(
            sum(counts.get(collection, 0) for collection in taken),
            max((counts.get(collection, 0) for collection in made), default=0),
            busy.get(step, 0.0),
        )
        for step, (taken, made) in _ends(stages).items()
    }


def busy_of_labels(infos_by_stage: Mapping[str, Iterable[Any]]) -> dict[str, float]:
    """Give the seconds that the code of each step has run, by the names that the infos have."""
    found: dict[str, float] = {}
    for infos in infos_by_stage.values():
        for info in infos:
            if info.urn == PROCESS_BUNDLE_MSECS_URN:
                step = info.labels.get("PTRANSFORM", "").partition("/")[0]
                spent = monitoring_infos.extract_counter_value(info) / 1e3
                found[step] = found.get(step, 0.0) + spent
    return found


@functools.lru_cache(maxsize=4)
def _ends(stages: tuple[bytes, ...]) -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    """Give for each step the collections that come to it, and those that leave it.

    What a part of a step makes for another part of it does neither.
    """
    taken: dict[str, set[str]] = {}
    made: dict[str, set[str]] = {}
    for stage in stages:
        known = beam_fn_api_pb2.ProcessBundleDescriptor.FromString(stage)
        for name, transform in known.transforms.items():
            step = (transform.unique_name or name).partition("/")[0]
            taken.setdefault(step, set()).update(transform.inputs.values())
            made.setdefault(step, set()).update(transform.outputs.values())
    return {
        step: (frozenset(found - made[step]), frozenset(made[step] - found))
        for step, found in taken.items()
        if step
    }


#: Parts of a grouping that give something else than the whole does.
_INNER = ("Precombine", "Merge", "Read", "Write")


@functools.lru_cache(maxsize=4)
def _makers(stages: tuple[bytes, ...]) -> dict[str, str]:
    """Give for each collection, and each transform, the first part of its transform's name."""
    found: dict[str, str] = {}
    for stage in stages:
        known = beam_fn_api_pb2.ProcessBundleDescriptor.FromString(stage)
        for name, transform in known.transforms.items():
            step, _, part = (transform.unique_name or name).partition("/")
            found[name] = step
            if part.rpartition("/")[2] not in _INNER:
                found.update(dict.fromkeys(transform.outputs.values(), step))
    return found


def merge(infos: Iterable[Any]) -> list[Any]:
    """Merge infos with the same urn and labels."""
    merged: dict[Any, Any] = {}
    for info in infos:
        key = monitoring_infos.to_key(info)
        known = merged.get(key)
        if known is None:
            merged[key] = info
        else:
            combined = type(info)()
            combined.CopyFrom(known)
            combined.payload = _COMBINERS.get(info.type, _last)(known, info)
            merged[key] = combined
    return list(merged.values())


def _sum(a: Any, b: Any) -> bytes:
    return bytes(monitoring_infos.sum_payload_combiner(a.payload, b.payload))


def _distribution(a: Any, b: Any) -> bytes:
    for one, other in ((a, b), (b, a)):
        if monitoring_infos.extract_distribution(one)[0] == 0:
            return bytes(other.payload)  # an empty one has no true minimum or maximum
    return bytes(monitoring_infos.distribution_payload_combiner(a.payload, b.payload))


def _gauge(a: Any, b: Any) -> bytes:
    later = max(a, b, key=lambda info: monitoring_infos.extract_gauge_value(info)[0])
    return bytes(later.payload)


def _string_set(a: Any, b: Any) -> bytes:
    both = monitoring_infos.extract_string_set_value(a) | (
        monitoring_infos.extract_string_set_value(b)
    )
    return bytes(monitoring_infos.user_set_string("", "", sorted(both)).payload)


def _bounded_trie(a: Any, b: Any) -> bytes:
    both = monitoring_infos.extract_bounded_trie_value(a).combine(
        monitoring_infos.extract_bounded_trie_value(b)
    )
    return bytes(both.to_proto().SerializeToString())


def _histogram(a: Any, b: Any) -> bytes:
    both = monitoring_infos.extract_histogram_value(a).combine(
        monitoring_infos.extract_histogram_value(b)
    )
    return bytes(both.to_proto().SerializeToString())


def _last(a: Any, b: Any) -> bytes:
    """For progress and the like, where only the latest word counts."""
    del a
    return bytes(b.payload)


_COMBINERS: dict[str, Callable[[Any, Any], bytes]] = {
    SUM_INT64_TYPE: _sum,
    DISTRIBUTION_INT64_TYPE: _distribution,
    LATEST_INT64_TYPE: _gauge,
    STRING_SET_TYPE: _string_set,
    BOUNDED_TRIE_TYPE: _bounded_trie,
    HISTOGRAM_TYPE: _histogram,
}
