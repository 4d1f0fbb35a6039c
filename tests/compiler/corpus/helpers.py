"""Helpers in other modules, decorators, partials, caches, context managers."""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import threading
import time

import apache_beam as beam

from tests.compiler.corpus import deep_middle
from tests.compiler.corpus.deep_middle import Tools, positives, shifted, singles
from tests.compiler.corpus.table import case

LOG = logging.getLogger(__name__)
CALLS: list = []
TOOLS = Tools(1)
LOCK = threading.Lock()


def logged(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        LOG.debug("calls %s", fn.__name__)
        result = fn(*args, **kwargs)
        LOG.debug("done")
        return result

    return wrapper


def counting(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        CALLS.append(fn.__name__)
        return fn(*args, **kwargs)

    return wrapper


def timed(fn):
    @functools.wraps(fn)
    def wrapper(element):
        started = time.perf_counter()
        result = fn(element)
        LOG.debug("took %s", time.perf_counter() - started)
        return result

    return wrapper


def swapping(fn):
    @functools.wraps(fn)
    def wrapper(kv):
        return fn((kv[1], kv[0]))

    return wrapper


def retried(times):
    def decorate(fn):
        @functools.wraps(fn)
        def wrapper(*args):
            for _ in range(times):
                try:
                    return fn(*args)
                except ValueError:
                    LOG.warning("again")
            raise RuntimeError

        return wrapper

    return decorate


def listed(fn):
    @functools.wraps(fn)
    def wrapper(self, element):
        return list(fn(self, element))

    return wrapper


@logged
def logged_pair(kv):
    return kv[0], kv[1] + 1


@counting
def counted_pair(kv):
    return kv[0], kv[1] + 1


@timed
def timed_pair(kv):
    return kv[0], kv[1] + 1


@swapping
def swapped_pair(kv):
    return kv[0], kv[1]


@retried(3)
def retried_pair(kv):
    return kv[0], kv[1] + 1


@logged
@retried(2)
def twice_decorated(kv):
    return kv[0], kv[1]


@functools.lru_cache(maxsize=16)
def cached_pair(kv):
    return kv[0], kv[1] * kv[1]


@functools.cache
def bucket(_key):
    return []


def into_cached_bucket(kv):
    held = bucket(kv[0])
    held.append(kv[1])
    return kv[0], len(held)


def with_offset(offset, kv):
    return kv[0], kv[1] + offset


def scaled_by(kv, factor):
    return kv[0], kv[1] * factor


@contextlib.contextmanager
def measured(name):
    LOG.debug("begins %s", name)
    try:
        yield name
    finally:
        LOG.debug("ends")


@contextlib.contextmanager
def remembered(name):
    CALLS.append(name)
    yield name


@contextlib.contextmanager
def swallowing():
    try:
        yield
    except ValueError:
        LOG.warning("bad")


class Scope:
    def __enter__(self):
        return self

    def __exit__(self, *raised):
        LOG.debug("left")


class CountingScope:
    entered = 0

    def __enter__(self):
        CountingScope.entered += 1
        return self

    def __exit__(self, *raised):
        return None


class Tally:
    total = 0

    def count(self):
        Tally.total += 1
        return Tally.total


def in_measured(kv):
    with measured(kv[0]) as key:
        yield key, 1


def in_remembered(kv):
    with remembered("x"):
        yield kv


def in_swallowing(kv):
    with swallowing():
        yield kv[0], int(kv[1])


def in_suppress(kv):
    with contextlib.suppress(ValueError):
        yield kv[0], int(kv[1])


def in_scope(kv):
    with Scope():
        yield kv


def in_counting_scope(kv):
    with CountingScope():
        yield kv


def in_lock(kv):
    with LOCK:
        yield kv[0], kv[1]


def in_buffer(kv):
    with io.StringIO() as out:
        out.write(str(kv[1]))
        yield kv[0], out.getvalue()


def in_null(kv):
    with contextlib.nullcontext(kv) as pair:
        return pair[0], pair[1]


def tallied(kv):
    return kv[0], Tally().count()


def tallied_by_name(kv):
    tally = Tally()
    return kv[0], tally.count()


class ThroughTools(beam.DoFn):
    def __init__(self):
        self.tools = Tools(2)

    def process(self, element):
        yield self.tools.scaled(element)


class ListedDoFn(beam.DoFn):
    @listed
    def process(self, element):
        key, values = element
        for v in values:
            yield key, v


class LoggedDoFn(beam.DoFn):
    @logged
    def process(self, element):
        return [(element[0], 1)]


class WithMethodHelpers(beam.DoFn):
    def process(self, element):
        key, value = element
        if self._wanted(value):
            yield self._pair(key, value)

    def _wanted(self, value):
        return value > 0

    def _pair(self, key, value):
        return shifted(key, self._value(value))

    @staticmethod
    def _value(value):
        return value + 1


class BaseParser(beam.DoFn):
    def parse(self, element):
        raise NotImplementedError

    def process(self, element):
        yield element[0], self.parse(element[1])


class IntParser(BaseParser):
    def parse(self, element):
        return int(element)


class CallsSuper(IntParser):
    def process(self, element):
        yield from super().process(element)


PAIRS = (("a", 1), ("b", 2), ("a", 0))

CASES = [
    case("logged pair", beam.Map(logged_pair), "none one fwd same", *PAIRS),
    case("counted pair", beam.Map(counted_pair), "keeps one fwd varies"),
    case("timed pair", beam.Map(timed_pair), "none one fwd varies", *PAIRS),
    case("swapped pair", beam.Map(swapped_pair), "none one other same", *PAIRS),
    case("retried pair", beam.Map(retried_pair), "none one fwd same", *PAIRS),
    case("twice decorated", beam.Map(twice_decorated), "none one fwd same", *PAIRS),
    case("cached pair", beam.Map(cached_pair), "none one fwd same", *PAIRS),
    case("into cached bucket", beam.Map(into_cached_bucket), "keeps one fwd varies", *PAIRS),
    case("partial first", beam.Map(functools.partial(with_offset, 3)), "none one fwd same", *PAIRS),
    case("partial by name", beam.Map(functools.partial(scaled_by, factor=3)), "none one fwd same", *PAIRS),
    case("partial of partial", beam.Map(functools.partial(functools.partial(with_offset), 3)), "none one fwd same", *PAIRS),
    case("partial in lambda", beam.Map(lambda kv: functools.partial(with_offset, 3)(kv)), "none one fwd same", *PAIRS),
    case("in measured", beam.FlatMap(in_measured), "none one fwd same", *PAIRS),
    case("in remembered", beam.FlatMap(in_remembered), "keeps one fwd varies"),
    case("in swallowing", beam.FlatMap(in_swallowing), "none atmost fwd same", *PAIRS, ("a", "x")),
    case("in suppress", beam.FlatMap(in_suppress), "none atmost fwd same", *PAIRS, ("a", "x")),
    case("in scope", beam.FlatMap(in_scope), "none one fwd same", *PAIRS),
    case("in counting scope", beam.FlatMap(in_counting_scope), "keeps one fwd varies"),
    case("in lock", beam.FlatMap(in_lock), "none one fwd same"),
    case("in buffer", beam.FlatMap(in_buffer), "none one fwd same", *PAIRS),
    case("in null", beam.Map(in_null), "none one fwd same", *PAIRS),
    case("tallied", beam.Map(tallied), "keeps one fwd varies", *PAIRS),
    case("tallied by name", beam.Map(tallied_by_name), "keeps one fwd varies", *PAIRS),
    case("through tools", beam.ParDo(ThroughTools()), "none one fwd same", *PAIRS),
    case("tools method", beam.Map(TOOLS.scaled), "none one fwd same", *PAIRS),
    case("tools static", beam.Map(Tools.of), "none one fwd same", *PAIRS),
    case("tools class", beam.Map(Tools.made), "none one fwd same", *PAIRS),
    case("global tools", beam.Map(lambda kv: TOOLS.scaled(kv)), "none one fwd same", *PAIRS),
    case("listed", beam.ParDo(ListedDoFn()), "none many fwd same", ("a", [1, 2])),
    case("logged dofn", beam.ParDo(LoggedDoFn()), "none one fwd same", *PAIRS),
    case("with method helpers", beam.ParDo(WithMethodHelpers()), "none atmost fwd same", *PAIRS),
    case("int parser", beam.ParDo(IntParser()), "none one fwd same", *PAIRS),
    case("calls super", beam.ParDo(CallsSuper()), "none one fwd same", *PAIRS),
    case("shifted", beam.MapTuple(shifted), "none one fwd same", *PAIRS),
    case("spread into helper", beam.Map(lambda kv: shifted(*kv)), "none one fwd same", *PAIRS),
    case("by name into helper", beam.Map(lambda kv: shifted(**{"key": kv[0], "value": 1})), "none one fwd same", *PAIRS),
    case("turned", beam.MapTuple(deep_middle.turned), "none one other same", *PAIRS),
    case("remembered far away", beam.Map(deep_middle.remembered), "keeps one fwd same"),
    case("rolled far away", beam.Map(deep_middle.rolled), "none one other varies", 1),
    case("positives", beam.FlatMap(positives), "none atmost fwd same", 1, -1),
    case("singles", beam.FlatMap(singles), "none one fwd same", 1, -1),
    case("each of positives", beam.FlatMap(lambda xs: [y for x in xs for y in positives(x)]), "none many other same", [1, -1]),
]
