"""Decides whether a pipeline may run at all: its transforms, environments, timers, requirements.

Takes Beam's pipeline proto, raises one error that lists everything that is refused, with full
transform names and URNs. Changes nothing: a transform that is not known here never passes.
"""

from __future__ import annotations

from collections.abc import Iterator

from apache_beam.portability import common_urns, python_urns
from apache_beam.portability.api import beam_runner_api_pb2 as beam_pb
from apache_beam.transforms.core import StatelessDoFnInfo

from headrace.errors import UnsupportedTransformError
from headrace.plan.names import READ_FROM_SPARK_URN, WRITE_TO_SPARK_URN

PAR_DO = common_urns.primitives.PAR_DO.urn
GROUP_BY_KEY = common_urns.primitives.GROUP_BY_KEY.urn
FLATTEN = common_urns.primitives.FLATTEN.urn
IMPULSE = common_urns.primitives.IMPULSE.urn
ASSIGN_WINDOWS = common_urns.primitives.ASSIGN_WINDOWS.urn
MAP_WINDOWS = common_urns.primitives.MAP_WINDOWS.urn
MERGE_WINDOWS = common_urns.primitives.MERGE_WINDOWS.urn
TO_STRING = common_urns.primitives.TO_STRING.urn
TEST_STREAM = common_urns.primitives.TEST_STREAM.urn
READ = common_urns.deprecated_primitives.READ.urn
CREATE_VIEW = common_urns.deprecated_primitives.CREATE_VIEW.urn
COMBINE_PER_KEY = common_urns.composites.COMBINE_PER_KEY.urn
#: What a combine becomes where a part of it comes before the exchange.
COMBINE_PARTS = frozenset(
    {
        common_urns.combine_components.COMBINE_PER_KEY_PRECOMBINE.urn,
        common_urns.combine_components.COMBINE_PER_KEY_MERGE_ACCUMULATORS.urn,
        common_urns.combine_components.COMBINE_PER_KEY_EXTRACT_OUTPUTS.urn,
    }
)
RESHUFFLE = common_urns.composites.RESHUFFLE.urn
REDISTRIBUTE_BY_KEY = common_urns.composites.REDISTRIBUTE_BY_KEY.urn
REDISTRIBUTE_ARBITRARILY = common_urns.composites.REDISTRIBUTE_ARBITRARILY.urn
READ_FROM_SPARK = READ_FROM_SPARK_URN
WRITE_TO_SPARK = WRITE_TO_SPARK_URN
TIME_SORTED_INPUT = common_urns.requirements.REQUIRES_TIME_SORTED_INPUT.urn

COMBINE_COMPONENTS = frozenset(
    {
        common_urns.combine_components.COMBINE_GROUPED_VALUES.urn,
        common_urns.combine_components.COMBINE_PER_KEY_PRECOMBINE.urn,
        common_urns.combine_components.COMBINE_PER_KEY_MERGE_ACCUMULATORS.urn,
        common_urns.combine_components.COMBINE_PER_KEY_EXTRACT_OUTPUTS.urn,
        common_urns.combine_components.COMBINE_PER_KEY_CONVERT_TO_ACCUMULATORS.urn,
    }
)
SDF_COMPONENTS = frozenset(
    {
        common_urns.sdf_components.PAIR_WITH_RESTRICTION.urn,
        common_urns.sdf_components.SPLIT_AND_SIZE_RESTRICTIONS.urn,
        common_urns.sdf_components.PROCESS_SIZED_ELEMENTS_AND_RESTRICTIONS.urn,
        common_urns.sdf_components.TRUNCATE_SIZED_RESTRICTION.urn,
    }
)
PAR_DO_LIKE = SDF_COMPONENTS | {PAR_DO}
REDISTRIBUTIONS = frozenset({RESHUFFLE, REDISTRIBUTE_BY_KEY, REDISTRIBUTE_ARBITRARILY})

ATOMIC = (
    frozenset({PAR_DO, GROUP_BY_KEY, COMBINE_PER_KEY, RESHUFFLE, READ_FROM_SPARK, WRITE_TO_SPARK})
    | SDF_COMPONENTS
)
"""One operator each, even where Beam shows what lies below."""

LEAVES = (
    frozenset({FLATTEN, IMPULSE, ASSIGN_WINDOWS, MAP_WINDOWS, MERGE_WINDOWS, TO_STRING})
    | frozenset({READ, CREATE_VIEW, TEST_STREAM})
    | COMBINE_COMPONENTS
    | REDISTRIBUTIONS
)
"""Accepted where nothing lies below them; with parts below, the parts count."""

SUPPORTED_REQUIREMENTS = frozenset(
    {
        common_urns.requirements.REQUIRES_STATEFUL_PROCESSING.urn,
        common_urns.requirements.REQUIRES_SPLITTABLE_DOFN.urn,
        common_urns.requirements.REQUIRES_BUNDLE_FINALIZATION.urn,
        TIME_SORTED_INPUT,
    }
)

_PYTHON_ENVIRONMENTS = frozenset(
    {
        "",  # left to the runner: ours is Python
        common_urns.environments.DEFAULT.urn,
        python_urns.EMBEDDED_PYTHON,
        python_urns.EMBEDDED_PYTHON_GRPC,
        python_urns.EMBEDDED_PYTHON_LOOPBACK,
        python_urns.SUBPROCESS_SDK,
    }
)
_PYTHON_SDK_MARK = "sdk_base:apache/beam_python"

_TIME_DOMAINS = frozenset({beam_pb.TimeDomain.EVENT_TIME, beam_pb.TimeDomain.PROCESSING_TIME})


def check_pipeline(pipeline: beam_pb.Pipeline, *, streaming: bool = False) -> None:
    """Refuse a pipeline that holds anything headrace cannot run.

    Raises:
        UnsupportedTransformError: lists every problem found, one per line.
    """
    problems = list(dict.fromkeys(_problems(pipeline, streaming)))
    if problems:
        lines = "\n".join(f"  - {p}" for p in problems)
        msg = f"headrace cannot run this pipeline:\n{lines}"
        raise UnsupportedTransformError(msg)


def operator_transforms(
    pipeline: beam_pb.Pipeline,
) -> Iterator[tuple[str, beam_pb.PTransform, tuple[str, ...]]]:
    """The transforms that become operators: proto id, proto, and URNs of all composites around.

    Composites are descended into, atomic transforms are not. A leaf that hands its input on as it
    is (Beam's `MaybeReshuffle` does when it has nothing to do) makes no operator, nor does a
    composite that made nothing: its `expand` applied no step, or failed and was caught.
    """
    transforms = pipeline.components.transforms

    def below(
        ids: list[str], scopes: tuple[str, ...]
    ) -> Iterator[tuple[str, beam_pb.PTransform, tuple[str, ...]]]:
        for transform_id in ids:
            transform = transforms[transform_id]
            if transform.spec.urn in ATOMIC:
                yield transform_id, transform, scopes
            elif transform.subtransforms:
                yield from below(list(transform.subtransforms), (*scopes, transform.spec.urn))
            elif not _makes_nothing(transform):
                yield transform_id, transform, scopes

    yield from below(list(pipeline.root_transform_ids), ())


def par_do_payload(transform: beam_pb.PTransform) -> beam_pb.ParDoPayload:
    """The payload of a ParDo or of a component of a splittable one."""
    return beam_pb.ParDoPayload.FromString(transform.spec.payload)


def _makes_nothing(transform: beam_pb.PTransform) -> bool:
    if not transform.spec.urn and not transform.inputs and not transform.outputs:
        return True  # the root of an empty pipeline
    outputs = set(transform.outputs.values())
    if not outputs:
        # Beam pickles composites without parts; anything else may be a sink, and is not left out.
        return bool(transform.spec.urn == python_urns.PICKLED_TRANSFORM)
    return outputs <= set(transform.inputs.values())


def _problems(pipeline: beam_pb.Pipeline, streaming: bool) -> Iterator[str]:
    needs: dict[str, list[str]] = {urn: [] for urn in pipeline.requirements}
    for _, transform, _ in operator_transforms(pipeline):
        name, urn = transform.unique_name, transform.spec.urn
        foreign = _foreign_environment(pipeline, transform)
        if urn == TEST_STREAM:
            yield from _script_problems(name, transform, streaming)
        elif urn not in ATOMIC and urn not in LEAVES:
            yield f"{name} ({urn or 'no URN'}): not a transform that headrace knows"
        elif foreign:
            yield f"{name} ({urn}): {foreign}"
        elif urn in PAR_DO_LIKE:
            payload = par_do_payload(transform)
            yield from _par_do_problems(name, urn, payload)
            for requirement in _requirements_of(payload):
                needs.setdefault(requirement, []).append(name)
    for requirement, names in needs.items():
        if requirement not in SUPPORTED_REQUIREMENTS:
            who = ", ".join(names) or "the pipeline, no single transform named"
            yield f"requirement {requirement} is not supported; asked for by {who}"


def _script_problems(
    name: str, transform: beam_pb.PTransform, streaming: bool
) -> Iterator[str]:
    if not streaming:
        yield f"{name} ({TEST_STREAM}): a test stream needs a streaming pipeline: add --streaming"
    payload = beam_pb.TestStreamPayload.FromString(transform.spec.payload)
    if payload.endpoint.url:
        yield (
            f"{name} ({TEST_STREAM}): its events come from {payload.endpoint.url}; only a test "
            "stream that holds its events can run"
        )


def _foreign_environment(pipeline: beam_pb.Pipeline, transform: beam_pb.PTransform) -> str:
    """Why the transform's code cannot run in a Python worker; empty if it can."""
    environment = pipeline.components.environments.get(transform.environment_id)
    if environment is None or environment.urn in _PYTHON_ENVIRONMENTS:
        return ""
    if any(_PYTHON_SDK_MARK in capability for capability in environment.capabilities):
        return ""
    return (
        f"its code lives in environment {environment.urn}, which is not Python; "
        "cross-language transforms are not supported"
    )


def _par_do_problems(name: str, urn: str, payload: beam_pb.ParDoPayload) -> Iterator[str]:
    fn = payload.do_fn.urn
    if fn != python_urns.PICKLED_DOFN_INFO and fn not in StatelessDoFnInfo.REGISTERED_DOFNS:
        yield f"{name} ({urn}): its function {fn or 'without URN'} is not a Python DoFn"
    for family, spec in sorted(payload.timer_family_specs.items()):
        if spec.time_domain not in _TIME_DOMAINS:
            yield f"{name} ({urn}): timer {family!r} has unknown time domain {spec.time_domain}"


def _requirements_of(payload: beam_pb.ParDoPayload) -> Iterator[str]:
    wanted = common_urns.requirements
    if payload.state_specs or payload.timer_family_specs:
        yield wanted.REQUIRES_STATEFUL_PROCESSING.urn
    if payload.restriction_coder_id:
        yield wanted.REQUIRES_SPLITTABLE_DOFN.urn
    if payload.requests_finalization:
        yield wanted.REQUIRES_BUNDLE_FINALIZATION.urn
    if payload.requires_stable_input:
        yield wanted.REQUIRES_STABLE_INPUT.urn
    if payload.requires_time_sorted_input:
        yield TIME_SORTED_INPUT
    if payload.on_window_expiration_timer_family_spec:
        yield wanted.REQUIRES_ON_WINDOW_EXPIRATION.urn
