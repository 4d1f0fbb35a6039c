"""DoFns that check, call by call, what the plan takes them for: `--verify_traits`.

Takes a DoFn and what is claimed of it, gives one that does the same and raises `FalseTraitError` on
the first call that shows a claim to be false. It looks at the number of outputs and at their keys,
at the DoFn's own fields, and runs deterministic code a second time. Slow, and there to find false
declarations and false readings. What code writes elsewhere than into its DoFn is not seen.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import logging
import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MethodType

import apache_beam as beam
from apache_beam.internal import pickler
from apache_beam.portability import python_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.worker import statesampler
from apache_beam.transforms import core
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.windowed_value import WindowedValue

from headrace.errors import FalseTraitError
from headrace.plan.claims import Claims
from headrace.worker.beam_operations import DoFn
from headrace.worker.beam_types import Proto, UserFunction, Value

#: What Beam gives a call that may not be given twice.
#: Those of one call, by place and by name.
_Arguments = tuple[tuple[Value, ...], dict[str, Value]]
_ONCE = (core._StateDoFnParam, core._TimerDoFnParam, core._BundleFinalizerParam)  # noqa: SLF001


def arm(descriptor: Proto, claims: Iterable[tuple[str, Claims]]) -> None:
    """Let the DoFns of a stage check what is claimed of them.

    Args:
        descriptor: the stage's transforms; is changed.
        claims: what is claimed, by the ids of transforms.
    """
    for transform_id, claimed in claims:
        transform = descriptor.transforms[transform_id]
        payload = beam_runner_api_pb2.ParDoPayload.FromString(transform.spec.payload)
        if payload.do_fn.urn != python_urns.PICKLED_DOFN_INFO:
            continue
        fn, *more = pickler.loads(payload.do_fn.payload)
        if hasattr(fn, "__dict__") and not getattr(fn, "_process_batch_defined", False):
            payload.do_fn.payload = pickler.dumps((_Armed(fn, claimed), *more))
            transform.spec.payload = payload.SerializeToString()


class _Armed:
    """Pickles as the DoFn that checks."""

    def __init__(self, fn: DoFn, claims: Claims) -> None:
        self._fn = fn
        self._claims = claims

    def __reduce__(self) -> tuple[Callable[..., DoFn], tuple[DoFn, Claims]]:
        return armed, (self._fn, self._claims)


def armed(fn: DoFn, claims: Claims) -> DoFn:
    """Let a DoFn check its claims from now on."""
    original = fn.process
    is_callable = isinstance(fn, core.CallableWrapperDoFn)
    parameters = list(inspect.signature(original).parameters.values())
    marked = [n for n, p in enumerate(parameters) if p.default is beam.DoFn.ElementParam]
    position = marked[0] if marked else 0
    once = any(
        isinstance(p.default, _ONCE) or any(p.default is kind for kind in _ONCE) for p in parameters
    )

    def begun(args: tuple[Value, ...], kwargs: dict[str, Value]) -> _Call:
        copied = None if once or not claims.deterministic else _copied(args, kwargs)
        again = None if copied is None else functools.partial(original, *copied[0], **copied[1])
        return _Call(claims, fn, args[position] if len(args) > position else None, again)

    def whole(*args: Value, **kwargs: Value) -> Value:
        call = begun(args, kwargs)
        result = original(*args, **kwargs)
        if hasattr(result, "__next__"):
            return call.passed(result)
        if not is_callable and isinstance(result, str | bytes | Mapping):
            return result  # Beam says what is wrong with it
        for _ in call.passed([] if result is None else result):
            pass
        return result

    def stream(*args: Value, **kwargs: Value) -> Iterator[Value]:
        call = begun(args, kwargs)
        yield from call.passed(original(*args, **kwargs))

    # What is yielded may change afterwards: it must go on before the next is asked for.
    process = functools.wraps(original)(stream if inspect.isgeneratorfunction(original) else whole)
    if is_callable:
        fn._fn = fn.process = process  # noqa: SLF001 (Beam asks it for the signature)
    else:
        fn.process = MethodType(_method(process, original), fn)
    return fn


def _method(process: UserFunction, original: UserFunction) -> UserFunction:
    """Give a function as a method: Beam looks for state in methods alone."""

    def whole(_self: DoFn, *args: Value, **kwargs: Value) -> Value:
        return process(*args, **kwargs)

    def stream(_self: DoFn, *args: Value, **kwargs: Value) -> Iterator[Value]:
        yield from process(*args, **kwargs)

    made = stream if inspect.isgeneratorfunction(process) else whole
    return functools.wraps(getattr(original, "__func__", original))(made)


class _Call:
    """One call of a DoFn, and what it has put out so far."""

    def __init__(
        self, claims: Claims, fn: DoFn, element: Value, again: Callable[[], Value] | None
    ) -> None:
        self._claims = claims
        self._fn = fn
        self._element = element
        self._again = again
        self._before = _fields(fn) if claims.keeps_nothing else {}
        self._number = 0
        self._made: list[bytes | None] = []  # as they were put out; None: cannot be pickled

    def passed(self, outputs: Iterable[Value]) -> Iterator[Value]:
        """Give outputs on, and look at each, and at the end at all."""
        for output in outputs:
            self._number += 1
            _check_key(self._claims, self._element, _plain(output))
            if self._again is not None:
                self._made.append(_pickled(_plain(output)))
            yield output
        _check_number(self._claims, self._element, self._number)
        _check_fields(self._claims, self._before, self._fn)
        if self._again is not None:
            _check_again(self._claims, self._element, self._made, self._again)


def _check_number(claims: Claims, element: Value, number: int) -> None:
    if number < claims.least or (claims.most is not None and number > claims.most):
        wanted = "exactly one output" if claims.least else "at most one output"
        _raise(claims, f"to give {wanted}", claims.selectivity_reason, f"gave {number}", element)


def _check_key(claims: Claims, element: Value, value: Value) -> None:
    if not claims.keeps_key or not _is_pair(element):
        return  # it is claimed of pairs
    if not _is_pair(value):
        what = f"gave one of type {type(value).__name__}, which is no pair,"
        _raise(claims, "to hand keys on", claims.keeps_key, what, element)
    if not _same(element[0], value[0]):
        what = "gave a pair with another key"
        _raise(claims, "to hand keys on", claims.keeps_key, what, element)


def _is_pair(value: Value) -> bool:
    return isinstance(value, tuple) and len(value) == 2


def _check_fields(claims: Claims, before: Mapping[str, object], fn: DoFn) -> None:
    if not claims.keeps_nothing or type(fn).__module__.startswith("headrace."):
        return  # ours count to spread elements, which no answer depends on
    after = _fields(fn)
    changed = sorted(n for n in before.keys() | after.keys() if before.get(n) != after.get(n))
    if changed:
        what = f"changed its {', '.join(changed)}"
        _raise(claims, "to keep nothing", claims.keeps_nothing, what, None)


def _check_again(
    claims: Claims, element: Value, made: list[bytes | None], call: Callable[[], Value]
) -> None:
    with _unheard():
        result = call()
        second = [_pickled(_plain(output)) for output in (() if result is None else result)]
    if len(made) == len(second) and all(map(_alike, made, second)):
        return
    what = "gave other outputs when it was called again"
    _raise(claims, "to be deterministic", claims.deterministic, what, element)


def _pickled(value: Value) -> bytes | None:
    try:
        return pickle.dumps(value)
    except Exception:  # noqa: BLE001 (whatever a user's class does)
        return None


def _alike(a: bytes | None, b: bytes | None) -> bool:
    if a is None or b is None or a == b:
        return True
    try:
        return _same(pickle.loads(a), pickle.loads(b))  # made in this process, a moment ago
    except Exception:  # noqa: BLE001 (whatever a user's class does)
        return True


def _raise(claims: Claims, taken: str, reason: str, did: str, element: Value) -> None:
    of = "" if element is None else f" for an element of type {type(element).__name__}"
    msg = (
        f"{claims.step}: is taken {taken} ({reason}), and {did}{of}. If that was declared, correct "
        "the declaration in @headrace.traits; else headrace has read the code wrongly: declare "
        "what is true, and report it"
    )
    raise FalseTraitError(msg)


def _plain(output: Value) -> Value:
    """What an output carries."""
    while True:
        match output:
            case beam.pvalue.TaggedOutput() | TimestampedValue() | WindowedValue():
                output = output.value
            case _:
                return output


def _fields(fn: DoFn) -> dict[str, object]:
    """What a DoFn remembers, in a form that can be compared; what cannot be pickled is left out."""
    found: dict[str, object] = {}
    for name, value in vars(fn).items():
        kind = inspect.getattr_static(type(fn), name, None)
        if name in ("process", "_fn") or isinstance(kind, functools.cached_property):
            continue
        with contextlib.suppress(Exception):
            found[name] = pickle.dumps(value)
    return found


def _copied(args: tuple[Value, ...], kwargs: dict[str, Value]) -> _Arguments | None:
    try:
        return copy.deepcopy((args, kwargs))
    except Exception:  # noqa: BLE001 (whatever a user's class does; then there is no second run)
        return None


def _same(a: Value, b: Value) -> bool:
    """Whether two values are alike; what cannot be compared is taken for it."""
    if type(a) is not type(b):
        return False
    try:
        if pickle.dumps(a) == pickle.dumps(b):
            return True
    except Exception:  # noqa: BLE001 (whatever a user's class does)
        return True
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if getattr(type(a), "__eq__", None) is object.__eq__:  # two that are alike are not equal
        return all(_same(getattr(a, n, None), v) for n, v in getattr(b, "__dict__", {}).items())
    try:
        return bool(a == b)
    except Exception:  # noqa: BLE001 (arrays have no one answer)
        return True


@contextlib.contextmanager
def _unheard() -> Iterator[None]:
    """Let nobody hear of a second run: not the metrics, not the log, not the terminal."""
    tracker, level = statesampler.get_current_tracker(), logging.root.manager.disable
    statesampler.set_current_tracker(None)
    logging.disable(logging.CRITICAL)
    try:
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
            yield
    finally:
        logging.disable(level)
        statesampler.set_current_tracker(tracker)
