"""Reads Beam's pipeline proto into the logical graph.

Takes a checked proto, gives a `Graph` of operators. Names come from the transforms' full names, so
that the same pipeline gives the same graph, whatever ids Beam handed out. Analyses nothing.
"""

from __future__ import annotations

import hashlib

from apache_beam.coders import coders as beam_coders
from apache_beam.portability import common_urns, python_urns
from apache_beam.portability.api import beam_runner_api_pb2 as beam_pb
from apache_beam.portability.api import schema_pb2
from google.protobuf import wrappers_pb2  # type: ignore[import-untyped]

from headrace.compiler.graph import Collection, Graph, Node, topological
from headrace.compiler.proto.row_types import schemas_within
from headrace.compiler.proto.urns import PAR_DO_LIKE, operator_transforms, par_do_payload
from headrace.plan.ids import CollectionId, OperatorId
from headrace.plan.step_names import plain_step

_KV = common_urns.coders.KV.urn
_MAIN_TAGS = frozenset({"None", "out", "output"})


def ingest(pipeline: beam_pb.Pipeline) -> Graph:
    """The graph of a pipeline's operators.

    Raises:
        ValueError: two operators share a name, or one reads what nobody makes.
    """
    coders = CoderFingerprints(pipeline.components)
    collections: dict[CollectionId, Collection] = {}
    by_proto: dict[str, CollectionId] = {}
    found = list(operator_transforms(pipeline))

    names: set[str] = set()
    for _, transform, _ in found:
        if transform.unique_name in names:
            msg = f"two operators have the name {transform.unique_name!r}"
            raise ValueError(msg)
        names.add(transform.unique_name)
        for tag, proto_id in sorted(transform.outputs.items()):
            coder_id = pipeline.components.pcollections[proto_id].coder_id
            suffix = "" if len(transform.outputs) == 1 or tag in _MAIN_TAGS else f"[{tag}]"
            collection_id = CollectionId(f"{transform.unique_name}{suffix}")
            by_proto[proto_id] = collection_id
            collections[collection_id] = Collection(
                collection_id=collection_id,
                producer=OperatorId(transform.unique_name),
                coder=coders.whole(coder_id),
                key_coder=coders.key(coder_id),
            )

    nodes = [_node(tid, transform, scopes, by_proto) for tid, transform, scopes in found]
    producers = {c.collection_id: c.producer for c in collections.values()}
    return Graph(tuple(topological(nodes, producers)), collections)


def _node(
    transform_id: str,
    transform: beam_pb.PTransform,
    scopes: tuple[str, ...],
    by_proto: dict[str, CollectionId],
) -> Node:
    name = transform.unique_name
    side_tags = (
        frozenset(par_do_payload(transform).side_inputs)
        if transform.spec.urn in PAR_DO_LIKE
        else frozenset()
    )
    main: list[CollectionId] = []
    side: list[CollectionId] = []
    for tag, proto_id in sorted(transform.inputs.items()):
        if proto_id not in by_proto:
            msg = f"{name} reads {proto_id}, which no operator makes"
            raise ValueError(msg)
        (side if tag in side_tags else main).append(by_proto[proto_id])
    return Node(
        operator_id=OperatorId(name),
        transform_id=transform_id,
        urn=transform.spec.urn,
        transform=transform,
        scopes=scopes,
        inputs=tuple(main),
        side_inputs=tuple(side),
        outputs=tuple(by_proto[p] for _, p in sorted(transform.outputs.items())),
    )


class CoderFingerprints:
    """Fingerprints of coders by value: equal fingerprints, equal encodings.

    A print is readable as far as it can be, `kv<varint,iterable<bytes>>`; payloads that are opaque
    (pickled Python coders) are digested.
    """

    def __init__(self, components: beam_pb.Components) -> None:
        self._coders = components.coders
        self._known: dict[str, str] = {}

    def whole(self, coder_id: str) -> str:
        """The print of a coder with all its components."""
        known = self._known.get(coder_id)
        if known is None:
            coder = self._coders[coder_id]
            parts = [self.whole(c) for c in coder.component_coder_ids]
            known = _short(coder.spec.urn)
            if coder.spec.payload:
                known += f"#{hashlib.sha256(_payload(coder.spec)).hexdigest()[:8]}"
            if parts:
                known += f"<{','.join(parts)}>"
            self._known[coder_id] = known
        return known

    def key(self, coder_id: str) -> str:
        """The print of the key's coder, empty when the coder is not that of pairs."""
        coder = self._coders[coder_id]
        return self.whole(coder.component_coder_ids[0]) if coder.spec.urn == _KV else ""


#: Beam's coders of untyped keys, which carry the name of their step for the sake of messages.
_NAMES_ITS_STEP = b"DeterministicFastPrimitivesCoder"


def _payload(spec: beam_pb.FunctionSpec) -> bytes:
    """Give a coder's payload without what changes from start to start: ids, numbers of cells."""
    if spec.urn == common_urns.coders.ROW.urn:
        schema = schema_pb2.Schema.FromString(spec.payload)
        for each in schemas_within(schema):
            each.ClearField("id")  # Beam draws it, and no encoding depends on it
        return bytes(schema.SerializeToString(deterministic=True))
    if spec.urn != python_urns.PICKLED_CODER:
        return bytes(spec.payload)
    pickled = wrappers_pb2.BytesValue.FromString(spec.payload).value
    if not pickled.startswith(_NAMES_ITS_STEP):
        return bytes(spec.payload)
    coder = beam_coders.deserialize_coder(pickled)
    label = getattr(coder, "_step_label", None)
    if not isinstance(label, str) or plain_step(label) == label:
        return bytes(spec.payload)
    coder._step_label = plain_step(label)  # noqa: SLF001 (Beam offers no other way)
    return bytes(beam_coders.serialize_coder(coder))


def _short(urn: str) -> str:
    """`beam:coder:varint:v1` reads as `varint`; anything else stays whole."""
    parts = urn.split(":")
    beams_own = len(parts) == 4 and parts[:2] == ["beam", "coder"] and parts[3] == "v1"
    return parts[2] if beams_own else urn
