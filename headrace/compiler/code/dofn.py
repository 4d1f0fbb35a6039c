"""Reads the traits of a DoFn from its Python code.

Takes a DoFn instance, gives `Traits` with a reason for each. Joins the readers of effects, paths
and keys over the user's callable and the DoFn's other methods; what the author declared wins.
Never raises on odd code and never runs the user's: what cannot be read is UNKNOWN.
"""

from __future__ import annotations

import ast
import inspect
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import FunctionType

import apache_beam as beam
from apache_beam.transforms.core import _BundleContextParam, _SetupContextParam

from headrace.compiler.code import bytecode as code_bytes
from headrace.compiler.code.calls import Callee
from headrace.compiler.code.effects import effects_of
from headrace.compiler.code.keys import forwards_key
from headrace.compiler.code.names import MISSING, Names, is_immutable
from headrace.compiler.code.paths import count_outputs
from headrace.compiler.code.reader import Effects
from headrace.compiler.code.source import is_generator, nodes_of, own_nodes
from headrace.compiler.code.subject import (
    Emits,
    Subject,
    Takes,
    lifecycle,
    subject_of,
    wrapped_callable,
)
from headrace.compiler.code.values import Is, Named, Value, tuple_fields
from headrace.plan.traits import (
    Declaration,
    Determinism,
    KeyForwarding,
    Selectivity,
    State,
    Traits,
    declaration_of,
)

_LOGGER = logging.getLogger(__name__)

_CONTEXTS = (_SetupContextParam, _BundleContextParam)

_OPENNESS = (
    Selectivity.EXACTLY_ONE,
    Selectivity.AT_MOST_ONE,
    Selectivity.MANY,
    Selectivity.UNKNOWN,
)


def dofn_traits(
    dofn: object, args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None
) -> Traits:
    """What the code of a DoFn shows, overruled by what its author declared.

    Args:
        dofn: an instance.
        args: what it is given beside the element, as in `beam.Map(f, 3)`; placeholders for side
            inputs.
        kwargs: the same by name.
    """
    declared: Declaration | None = None
    try:
        declared = _declaration(dofn)
        found = _read(dofn, args, kwargs or {})
    except Exception as e:  # odd code must cost precision, never the pipeline
        _LOGGER.debug("the analysis gave up on a DoFn", exc_info=True)
        reason = f"the analysis gave up on its code ({type(e).__name__})"
        found = Traits(
            state_reason=reason,
            selectivity_reason=reason,
            forwarding_reason=reason,
            determinism_reason=reason,
        )
    return found if declared is None else found.declared(declared)


def _declaration(dofn: object) -> Declaration | None:
    inner = wrapped_callable(dofn)
    if inner is None:
        return declaration_of(dofn)
    found = declaration_of(inner)
    if found is None or found.selectivity is None:
        return found
    # A Map's function is called once and answered once, whatever it was declared to be.
    exact = subject_of(dofn).emits is Emits.RESULT
    return replace(found, selectivity=Selectivity.EXACTLY_ONE) if exact else found


def _read(dofn: object, args: Sequence[object], kwargs: Mapping[str, object]) -> Traits:
    subject = subject_of(dofn)
    lent = _lent(subject, args, kwargs)
    effects = Effects()
    if not _is_beams_tool(subject):
        effects = effects_of(subject.function, subject.owner, lent)
    selectivity, selectivity_reason = _selectivity(subject)
    forwarding, forwarding_reason = _forwarding(subject)
    for context in _contexts(subject.function):
        effects.dice.append(f"is given what the context {context} has made")
    for name, method in lifecycle(dofn):
        inside = effects_of(method, dofn)
        effects.dice += inside.dice
        if name not in ("setup", "teardown"):
            # What setup writes is there before the first element: it is not a memory of elements.
            plain = _plain_assignments(method) if name == "start_bundle" else frozenset[str]()
            effects.writes += [w for w in inside.writes if w not in plain]
            effects.doubts += inside.doubts
        if name == "process_batch":
            selectivity, selectivity_reason = Selectivity.MANY, "works on batches"
            forwarding, forwarding_reason = KeyForwarding.UNKNOWN, "works on batches"
        elif name == "on_timer":
            selectivity, selectivity_reason = _more_open(
                (selectivity, selectivity_reason),
                (Selectivity.MANY, "a timer may emit"),
            )
            timed = _forwarding(Subject(method, dofn, Takes.ELEMENT, Emits.ITEMS), timer=True)
            if forwarding is KeyForwarding.FORWARDED:
                forwarding, forwarding_reason = timed
        elif name == "finish_bundle" and _emits(method):
            selectivity = Selectivity.UNKNOWN
            selectivity_reason = "finish_bundle emits what no single element caused"
            if forwarding is KeyForwarding.FORWARDED:
                forwarding, forwarding_reason = KeyForwarding.UNKNOWN, selectivity_reason
    state, state_reason = _state(effects)
    determinism, determinism_reason = _determinism(effects)
    return Traits(
        state=state,
        state_reason=state_reason,
        selectivity=selectivity,
        selectivity_reason=selectivity_reason,
        forwarding=forwarding,
        forwarding_reason=forwarding_reason,
        determinism=determinism,
        determinism_reason=determinism_reason,
    )


def _is_beams_tool(subject: Subject) -> bool:
    """Whether the callable is a method of one of Beam's coders: they cache, at the most.

    Others of Beam's objects do more: a matcher of its tests crosses off what it has seen.
    """
    return type(subject.owner).__module__.startswith("apache_beam.coders.")


def _state(effects: Effects) -> tuple[State, str]:
    for reason in (*effects.writes, *effects.doubts):
        return State.UNKNOWN, reason
    return State.NONE, "writes nothing that outlives an element"


def _determinism(effects: Effects) -> tuple[Determinism, str]:
    for reason in (*effects.dice, *effects.doubts):
        return Determinism.UNKNOWN, reason
    for reason in effects.writes:
        return Determinism.UNKNOWN, f"may depend on earlier elements: {reason}"
    return Determinism.DETERMINISTIC, "asks no clock, no dice and no outside world"


def _selectivity(subject: Subject) -> tuple[Selectivity, str]:
    if subject.emits is Emits.RESULT:
        return Selectivity.EXACTLY_ONE, "a map gives one output for each element"
    if subject.emits is Emits.PREDICATE:
        return Selectivity.AT_MOST_ONE, "a filter keeps or drops"
    function = subject.function
    if isinstance(function, FunctionType):
        nodes = nodes_of(function.__code__)
        if not nodes:
            return code_bytes.selectivity(function)
        names = Names(function, subject.owner)
        verdict = count_outputs(nodes[0], names)
        for node in nodes[1:]:
            verdict = _more_open(verdict, count_outputs(node, names))
        return verdict
    if callable(function):
        return Selectivity.MANY, "returns an iterable of open length"
    return Selectivity.UNKNOWN, "its code was not found"


def _more_open(a: tuple[Selectivity, str], b: tuple[Selectivity, str]) -> tuple[Selectivity, str]:
    return a if _OPENNESS.index(a[0]) >= _OPENNESS.index(b[0]) else b


def _forwarding(subject: Subject, *, timer: bool = False) -> tuple[KeyForwarding, str]:
    if subject.emits is Emits.PREDICATE:
        return KeyForwarding.FORWARDED, "a filter hands elements on as they are"
    function = subject.function
    if not isinstance(function, FunctionType):
        return KeyForwarding.UNKNOWN, "its code is not Python, or was not found"
    nodes = nodes_of(function.__code__)
    if not nodes:
        return KeyForwarding.UNKNOWN, "no source at hand"
    names = Names(function, subject.owner)
    roles = {} if timer else _roles(function, subject, names)
    roles |= dict.fromkeys(_parameters_bound_to(function, beam.DoFn.KeyParam), Is.KEY)
    verdicts = [forwards_key(node, roles, subject.emits, names) for node in nodes]
    for verdict in verdicts:
        if verdict[0] is not KeyForwarding.FORWARDED:
            return verdict
    return verdicts[0]


def _roles(function: FunctionType, subject: Subject, names: Names) -> dict[str, Value]:
    """What Beam binds the parameters to: the element, or its items when it is spread."""
    marked = _parameters_bound_to(function, beam.DoFn.ElementParam)
    if marked:
        return {marked[0]: Is.ELEMENT}
    taken = int(subject.owner is not None) + subject.bound_positional
    found = Callee(function, subject.owner, taken, subject.bound_names)
    if subject.takes is Takes.SPREAD:
        return found.bound((Is.KEY, Is.UNCLEAR), {}, more=True)
    bound = found.bound((Is.ELEMENT,), {}, more=True)
    for name, value in bound.items():
        fields = tuple_fields(_annotated(function, name, names)) if value is Is.ELEMENT else ()
        if len(fields) == 2:
            bound[name] = Named(fields)
    return bound


def _lent(
    subject: Subject, args: Sequence[object], kwargs: Mapping[str, object]
) -> frozenset[str]:
    """The parameters that get the same object for every element, one that can be changed."""
    function = subject.function
    if not isinstance(function, FunctionType):
        return frozenset()
    code = function.__code__
    taken = int(subject.owner is not None) + subject.bound_positional
    params = list(code.co_varnames[taken : code.co_argcount])
    given = [p for p in params if not _is_from_beam(function, p)]
    first = len(given) - len(args) if args and len(args) < len(given) else 1
    first = max(first, 2) if subject.takes is Takes.SPREAD and not args else first
    known = dict(zip(given[first:], args, strict=False)) | dict(kwargs)
    return frozenset(
        p for p in [*given[first:], *kwargs] if not is_immutable(known.get(p, MISSING))
    )


def _is_from_beam(function: FunctionType, name: str) -> bool:
    """Whether Beam gives the parameter something of its own for each element."""
    try:
        default = inspect.signature(function).parameters[name].default
    except (TypeError, ValueError, KeyError):
        return False
    beams = type(default).__module__.startswith("apache_beam.")
    return beams and not isinstance(default, _CONTEXTS)


def _contexts(function: object) -> list[str]:
    """The parameters that a context manager of the user's gives, once for many elements."""
    if not isinstance(function, FunctionType):
        return []
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if isinstance(p.default, _CONTEXTS)]


def _annotated(function: FunctionType, name: str, names: Names) -> object:
    """The class that a parameter is annotated with; MISSING if it is not a plain name."""
    annotation = function.__annotations__.get(name, MISSING)
    if not isinstance(annotation, str):
        return annotation
    try:
        return names.value(ast.parse(annotation, mode="eval").body)
    except (SyntaxError, ValueError):
        return MISSING


def _parameters_bound_to(function: FunctionType, what: object) -> list[str]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    # Compared by type first: a default may be an object whose == does anything, or fails.
    return [p.name for p in parameters if type(p.default) is type(what) and p.default == what]


def _emits(method: FunctionType) -> bool:
    """Whether a method yields or returns anything."""
    nodes = nodes_of(method.__code__)
    if not nodes:
        return True
    return any(
        is_generator(node)
        or any(isinstance(n, ast.Return) and n.value is not None for n in own_nodes(node))
        for node in nodes
    )


def _plain_assignments(method: FunctionType) -> frozenset[str]:
    """The writes of start_bundle that set a field anew without reading any of the DoFn's fields."""
    found: set[str] = set()
    for node in nodes_of(method.__code__):
        self_name = method.__code__.co_varnames[0] if method.__code__.co_argcount else ""
        for n in own_nodes(node):
            if not isinstance(n, ast.Assign):
                continue
            reads_self = any(
                isinstance(x, ast.Name) and x.id == self_name for x in ast.walk(n.value)
            )
            for target in n.targets:
                if isinstance(target, ast.Attribute) and not reads_self:
                    text = f"writes {ast.unparse(target)} in line {target.lineno}"
                    found.add(text)
    return frozenset(found)
