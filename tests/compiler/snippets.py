"""Code of many shapes for the analysis to read: the DoFns and functions of the tables in the tests.

What is right for each is decided by reading it, in the test tables, not by running anything.
"""

# ruff: noqa: B006, B008, UP028 - the shapes that ruff would mend are the ones to be read
from __future__ import annotations

import datetime
import functools
import heapq
import itertools
import json
import logging
import os
import queue
import random
import time
import uuid
from collections import Counter, defaultdict
from typing import Any

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.metrics import Metrics
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec, TimerSpec, on_timer

LOG = logging.getLogger(__name__)
SEEN: dict[object, int] = {}
LIMIT = 10
TOTAL = 0


# State ------------------------------------------------------------------------------------------


class ReadsField(beam.DoFn):
    def __init__(self):
        self.factor = 3
        self.table = {"a": 1}

    def process(self, element):
        yield element * self.factor + self.table.get("a", 0)


class AddsToField(beam.DoFn):
    def __init__(self):
        self.total = 0

    def process(self, element):
        self.total += element
        yield self.total


class SetsField(beam.DoFn):
    def process(self, element):
        self.last = element
        yield element


class AnnotatesField(beam.DoFn):
    def process(self, element):
        self.last: int = element
        yield element


class DeletesField(beam.DoFn):
    def process(self, element):
        del self.last
        yield element


class UnpacksIntoField(beam.DoFn):
    def process(self, element):
        self.key, value = element
        yield value


class SetsItem(beam.DoFn):
    def __init__(self):
        self.seen = {}

    def process(self, element):
        self.seen[element] = True
        yield element


class Appends(beam.DoFn):
    def __init__(self):
        self.buffer = []

    def process(self, element):
        self.buffer.append(element)
        yield element


class AppendsThroughAlias(beam.DoFn):
    def __init__(self):
        self.buffer = []

    def process(self, element):
        kept = self.buffer
        kept.append(element)
        yield element


class AppendsDeepInside(beam.DoFn):
    def __init__(self):
        self.by_key = defaultdict(list)

    def process(self, element):
        for values in self.by_key.values():
            values.append(element)
        yield element


class PushesOntoHeap(beam.DoFn):
    def __init__(self):
        self.heap = []

    def process(self, element):
        heapq.heappush(self.heap, element)
        yield element


class AdvancesIterator(beam.DoFn):
    def __init__(self):
        self.numbers = iter([1, 2, 3])

    def process(self, element):
        yield element, next(self.numbers)


class WritesInHelper(beam.DoFn):
    def process(self, element):
        yield self._tag(element)

    def _tag(self, element):
        return self._count(element)

    def _count(self, element):
        self.n = getattr(self, "n", 0) + 1
        return element, self.n


class WritesInBase(beam.DoFn):
    def process(self, element):
        self.last = element
        yield element


class CallsSuper(WritesInBase):
    def process(self, element):
        yield from super().process(element)


class HelperReads(beam.DoFn):
    def __init__(self):
        self.factor = 2

    def process(self, element):
        yield self._scaled(element)

    def _scaled(self, element):
        return element * self.factor


class RecursiveHelper(beam.DoFn):
    def process(self, element):
        yield self._down(element)

    def _down(self, n):
        return 0 if n == 0 else self._down(n - 1)


class CopiesFirst(beam.DoFn):
    def __init__(self):
        self.defaults = {"a": 1}

    def process(self, element):
        merged = dict(self.defaults)
        merged[element] = 1
        yield merged


class LocalWorkOnly(beam.DoFn):
    def process(self, element):
        counts: Counter = Counter()
        for word in element.split():
            counts[word] += 1
        found = []
        found.append(counts)
        yield from found


class SetupMakesClient(beam.DoFn):
    def setup(self):
        self.table = {"a": 1}

    def process(self, element):
        yield self.table["a"], element


class CallsUnknownClient(beam.DoFn):
    def setup(self):
        self.client = object()

    def process(self, element):
        yield self.client.fetch(element)  # type: ignore[attr-defined]


class ResetsPerBundle(beam.DoFn):
    def start_bundle(self):
        self.window = 3

    def process(self, element):
        yield element + self.window


class CountsBundles(beam.DoFn):
    def __init__(self):
        self.bundles = 0

    def start_bundle(self):
        self.bundles += 1

    def process(self, element):
        yield element


class CountsByMetric(beam.DoFn):
    def __init__(self):
        self.count = Metrics.counter("snippets", "count")

    def process(self, element):
        self.count.inc()
        LOG.info("saw %s", element)
        yield element


class WritesGlobal(beam.DoFn):
    def process(self, element):
        global TOTAL
        TOTAL += element
        yield TOTAL


class ChangesGlobal(beam.DoFn):
    def process(self, element):
        SEEN[element] = 1
        yield element


class ReadsGlobal(beam.DoFn):
    def process(self, element):
        if element < LIMIT:
            yield element


class MutableDefault(beam.DoFn):
    def process(self, element, kept=[]):
        kept.append(element)
        yield len(kept)


class EvaluatesText(beam.DoFn):
    def process(self, element):
        yield eval(element)


class HeldHelper:
    def __init__(self):
        self.seen = set()
        self.prefix = "x"

    def remember(self, element):
        self.seen.add(element)
        return element

    def named(self, element):
        return self.prefix + element


class CallsHeldHelper(beam.DoFn):
    def __init__(self):
        self.helper = HeldHelper()

    def process(self, element):
        yield self.helper.remember(element)


class AsksHeldHelper(beam.DoFn):
    def __init__(self):
        self.helper = HeldHelper()

    def process(self, element):
        yield self.helper.named(element)


class WritesClassField(beam.DoFn):
    total = 0

    def process(self, element):
        self.__class__.total += 1
        yield element


class WritesClassThroughType(beam.DoFn):
    total = 0

    def process(self, element):
        type(self).total += 1
        yield element


class WritesClassThroughAlias(beam.DoFn):
    total = 0

    def process(self, element):
        cls = type(self)
        cls.total += 1
        yield element


class WritesNamedClass(beam.DoFn):
    total = 0

    def process(self, element):
        WritesNamedClass.total += 1
        yield element


class SetsAttributeTheLongWay(beam.DoFn):
    def process(self, element):
        object.__setattr__(self, "last", element)
        yield element


class TakesFromQueue(beam.DoFn):
    def __init__(self):
        self.waiting: queue.Queue = queue.Queue()

    def process(self, element):
        yield self.waiting.get(), element


class TakesFromQueueOfSetup(beam.DoFn):
    def setup(self):
        self.waiting: queue.Queue = queue.Queue()

    def process(self, element):
        yield self.waiting.get(), element


class LooksUpTableOfSetup(beam.DoFn):
    def setup(self):
        self.table = {"a": 1}

    def process(self, element):
        yield self.table.get(element, 0)


class DrawsFromOwnDice(beam.DoFn):
    def __init__(self):
        self.dice = random.Random(7)

    def process(self, element):
        yield element, self.dice.random()


class NumbersWords(beam.DoFn):
    def __init__(self):
        self.ids = defaultdict(itertools.count().__next__)

    def process(self, element):
        yield self.ids[element], element


class Pusher:
    def __init__(self, target):
        self.target = target

    def push(self, element):
        self.target.append(element)


class WrapsField(beam.DoFn):
    def __init__(self):
        self.buffer = []

    def process(self, element):
        writer = Pusher(self.buffer)
        writer.push(element)
        yield element


class PropertyCounts(beam.DoFn):
    def __init__(self):
        self.n = 0

    @property
    def next_number(self):
        self.n += 1
        return self.n

    def process(self, element):
        yield element, self.next_number


class PropertyReads(beam.DoFn):
    def __init__(self):
        self.n = 3

    @property
    def double(self):
        return self.n * 2

    def process(self, element):
        yield element, self.double


class ReplacedProcess(beam.DoFn):
    def __init__(self):
        self.process = [1].append


@functools.lru_cache(maxsize=8)
def cached_square(x):
    return x * x


class Stateful(beam.DoFn):
    COUNT = ReadModifyWriteStateSpec("count", VarIntCoder())
    FLUSH = TimerSpec("flush", TimeDomain.WATERMARK)

    def process(
        self,
        element,
        count=beam.DoFn.StateParam(COUNT),
        flush=beam.DoFn.TimerParam(FLUSH),
    ):
        key, value = element
        count.write((count.read() or 0) + value)
        flush.set(10)
        yield key, count.read()

    @on_timer(FLUSH)
    def flushed(self, key=beam.DoFn.KeyParam, count=beam.DoFn.StateParam(COUNT)):
        yield key, count.read()


def closure_counter():
    seen = []

    def count(element):
        seen.append(element)
        return len(seen)

    return count


def nonlocal_counter():
    n = 0

    def count(element):
        nonlocal n
        n += 1
        return element, n

    return count


def inner_nonlocal(element):
    n = 0

    def bump():
        nonlocal n
        n += 1

    bump()
    return element, n


class CallableObject:
    def __init__(self):
        self.n = 0

    def __call__(self, element):
        self.n += 1
        return element, self.n


class Scaler:
    def __init__(self, factor):
        self.factor = factor

    def scale(self, element):
        return element * self.factor


def remember(table, element):
    table[element] = 1
    return element


class PassesField(beam.DoFn):
    def __init__(self):
        self.table = {}

    def process(self, element):
        yield remember(self.table, element)


def shared_table():
    return SEEN


def changes_what_it_is_given(element):
    shared_table()[element] = 1
    return element


# How many ---------------------------------------------------------------------------------------


class YieldsOnce(beam.DoFn):
    def process(self, element):
        yield element


class YieldsInBothBranches(beam.DoFn):
    def process(self, element):
        if element > 0:
            yield element
        else:
            yield -element


class YieldsInOneBranch(beam.DoFn):
    def process(self, element):
        if element > 0:
            yield element


class YieldsAfterGuard(beam.DoFn):
    def process(self, element):
        if not element:
            return
        yield element


class YieldsTwice(beam.DoFn):
    def process(self, element):
        yield element
        yield element


class YieldsOneOrTwo(beam.DoFn):
    def process(self, element):
        yield element
        if element:
            yield element


class YieldsInLoop(beam.DoFn):
    def process(self, element):
        for part in element:
            yield part


class YieldsInWhile(beam.DoFn):
    def process(self, element):
        while element:
            yield element
            element -= 1


class YieldsFirstOfLoop(beam.DoFn):
    def process(self, element):
        for part in element:
            yield part
            return


class YieldsAfterLoop(beam.DoFn):
    def process(self, element):
        total = 0
        for part in element:
            total += part
        yield total


class YieldsFromPair(beam.DoFn):
    def process(self, element):
        yield from (element, element)


class YieldsFromUnknown(beam.DoFn):
    def process(self, element):
        yield from element


class ReturnsList(beam.DoFn):
    def process(self, element):
        return [element]


class ReturnsNothing(beam.DoFn):
    def process(self, element):
        LOG.info("%s", element)


class ReturnsListOrNone(beam.DoFn):
    def process(self, element):
        if element:
            return [element]
        return None


class RaisesOrYields(beam.DoFn):
    def process(self, element):
        if element < 0:
            raise ValueError(element)
        yield element


class TriesToParse(beam.DoFn):
    def process(self, element):
        try:
            yield json.loads(element)
        except ValueError:
            LOG.warning("bad")


class TriesAndTags(beam.DoFn):
    def process(self, element):
        try:
            value = json.loads(element)
        except ValueError:
            yield beam.pvalue.TaggedOutput("bad", element)
        else:
            yield value


class FinallyYields(beam.DoFn):
    def process(self, element):
        try:
            value = json.loads(element)
        finally:
            LOG.info("done")
        yield value


class WithBlock(beam.DoFn):
    def process(self, element):
        with open(os.devnull) as f:
            text = f.read()
        yield element, text


class YieldsInWith(beam.DoFn):
    def process(self, element):
        with open(os.devnull):
            yield element


class MatchesAll(beam.DoFn):
    def process(self, element):
        match element:
            case 0:
                yield "zero"
            case _:
                yield "other"


class EmitsAtEnd(beam.DoFn):
    def process(self, element):
        yield element

    def finish_bundle(self):
        yield beam.transforms.window.GlobalWindows.windowed_value(1)


class QuietEnd(beam.DoFn):
    def process(self, element):
        yield element

    def finish_bundle(self):
        LOG.info("bundle done")


class InnerGenerator(beam.DoFn):
    def process(self, element):
        def parts():
            yield 1
            yield 2

        yield list(parts())


# The key ----------------------------------------------------------------------------------------


class KeyByUnpacking(beam.DoFn):
    def process(self, element):
        key, value = element
        yield key, value + 1


class KeyByIndex(beam.DoFn):
    def process(self, element):
        yield (element[0], element[1] + 1)


class KeyByName(beam.DoFn):
    def process(self, element):
        k = element[0]
        same = k
        for v in element[1]:
            yield same, v


class KeyNested(beam.DoFn):
    def process(self, element):
        k, (a, b) = element
        yield k, a + b


class KeyRebound(beam.DoFn):
    def process(self, element):
        k, v = element
        k = k.lower()
        yield k, v


class KeyReboundInBranch(beam.DoFn):
    def process(self, element):
        k, v = element
        if v:
            k = v
        yield k, v


class KeyShadowedByLoop(beam.DoFn):
    def process(self, element):
        k, vs = element
        for k in vs:
            yield k, 1


class KeySwapped(beam.DoFn):
    def process(self, element):
        k, v = element
        yield v, k


class KeyTagged(beam.DoFn):
    def process(self, element):
        k, v = element
        if v:
            yield beam.pvalue.TaggedOutput("t", (k, v))
        yield beam.window.TimestampedValue((k, v), 3)


class KeyFromParam(beam.DoFn):
    def process(self, element, key=beam.DoFn.KeyParam):
        yield key, 1


class KeyElementItself(beam.DoFn):
    def process(self, element):
        if element[1]:
            yield element


class KeyElementRemade(beam.DoFn):
    def process(self, element):
        element = (element[0], 2)
        yield element


class KeyInCollectedList(beam.DoFn):
    def process(self, element):
        k, vs = element
        out = []
        for v in vs:
            out.append((k, v))
        return out


class KeyInLeakedList(beam.DoFn):
    def process(self, element):
        k, vs = element
        out = []
        out.append((k, vs))
        json.dumps(out)
        return out


class KeyChangedInside(beam.DoFn):
    def process(self, element):
        k, v = element
        k.append(1)
        yield k, v


class KeyUnpackedFromThree(beam.DoFn):
    def process(self, element):
        k, _, v = element
        yield k, v


class TripleOut(beam.DoFn):
    def process(self, element):
        k, v = element
        yield k, v, 1


def keep_key(kv):
    k, v = kv
    return k, v + 1


def pair_with(extra, kv):
    return kv[0], extra


def spread_keep(k, v):
    return k, v * 2


def spread_swap(k, v):
    return v, k


def no_result(kv):
    LOG.info(kv)


# Dice -------------------------------------------------------------------------------------------


def rolls(x):
    return x, random.random()


def clock(x):
    return x, time.time()


def formats_time(x):
    return time.strftime("%Y", x)


def names(x):
    return uuid.uuid4(), x


def today(x):
    return datetime.datetime.now(), x


def urandom(x):
    return os.urandom(4), x


def hashes(x):
    return hash(x)


def rolls_inside(x):
    return [rolls(v) for v in x]


plain_partial = functools.partial(pair_with, 7)


# Outputs that others make ------------------------------------------------------------------------


def one_of(x: Any) -> Any:
    return [x]


def maybe_of(x: Any) -> Any:
    if x:
        yield x


def doubled(x: Any) -> Any:
    yield x
    yield x


def logged(fn):
    @functools.wraps(fn)
    def wrapper(*args):
        LOG.debug("called")
        return fn(*args)

    return wrapper


@logged
def one_logged(x):
    return [x]


def endless(x):
    yield from endless(x)


class DelegatesToMethod(beam.DoFn):
    def process(self, element):
        return self._parts(element)

    def _parts(self, element):
        yield element


class DelegatesThroughTwo(beam.DoFn):
    def process(self, element):
        yield from self._outer(element)

    def _outer(self, element):
        return list(self._inner(element))

    @staticmethod
    def _inner(self):
        return maybe_of(self)


class DelegatesAndAdds(beam.DoFn):
    def process(self, element):
        yield from one_of(element)
        yield from one_of(element)


class DelegatesInTry(beam.DoFn):
    def process(self, element):
        try:
            yield from maybe_of(element)
        except ValueError:
            yield element


class ReturnsNamedList(beam.DoFn):
    def process(self, element):
        out = [element]
        return out


class ReturnsGrowingList(beam.DoFn):
    def process(self, element):
        out = [element]
        out.append(element)
        return out


class TakesHelperAsArgument(beam.DoFn):
    def process(self, element, one_of=maybe_of):
        return one_of(element)


# Keys that others hand on ------------------------------------------------------------------------


def same_key(kv: Any, extra: Any) -> Any:
    return kv[0], extra


def with_key(key: Any, value: Any) -> Any:
    pair = key, value
    return pair


def other_key(kv: Any) -> Any:
    return kv[1], kv[0]


def spread_values(kv: Any) -> Any:
    for value in kv[1]:
        yield kv[0], value


def matched(kv):
    match kv:
        case (key, value):
            return key, value + 1


def matched_wrongly(kv):
    match kv:
        case (_, key):
            return key, 1
    return kv


@logged
def keeps_logged(kv):
    return kv[0], 1


@logged
def changes_logged(kv):
    return kv[1], 1


def sometimes(fn):
    @functools.wraps(fn)
    def wrapper(*args):
        if args:
            return fn(*args)

    return wrapper


@sometimes
def keeps_sometimes(kv):
    return kv


class KeyThroughMethod(beam.DoFn):
    def process(self, element):
        key, values = element
        yield self._pair(key, len(values))

    def _pair(self, key, value):
        return with_key(key, value=value)


class KeyThroughStaticMethod(beam.DoFn):
    def process(self, element):
        yield self.pair(element[0], 1)

    @staticmethod
    def pair(key, value):
        return key, value


class KeyThroughGenerator(beam.DoFn):
    def process(self, element):
        yield from spread_values(element)


class KeyLostInMethod(beam.DoFn):
    def process(self, element):
        yield self._pair(element[0], element[1])

    def _pair(self, value, key):
        return key, value
