"""Memory, clocks, files, services, side inputs: what reaches beyond the element."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import datetime
import decimal
import hashlib
import itertools
import math
import operator
import os
import pathlib
import platform
import random
import subprocess
import threading
import time
import urllib.parse
import uuid

import apache_beam as beam
import pandas
from apache_beam.coders import VarIntCoder
from apache_beam.io.filesystems import FileSystems
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    BagStateSpec,
    CombiningValueStateSpec,
    ReadModifyWriteStateSpec,
    TimerSpec,
    on_timer,
)
from apache_beam.utils.timestamp import Timestamp

from tests.compiler.corpus.table import case

TABLE = {"a": 1, "b": 2}
NUMBERS = itertools.count()
MEMORY: dict = {}
SEEN: list = []
LOCAL = threading.local()


class ReadsTable(beam.DoFn):
    def __init__(self, table):
        self.table = table

    def process(self, element):
        if element in self.table:
            yield element, self.table[element]


class OpensInSetup(beam.DoFn):
    def setup(self):
        self.rates = {"eur": 2}

    def process(self, element):
        yield element[0], element[1] * self.rates["eur"]


class Batches(beam.DoFn):
    def start_bundle(self):
        self.batch = []

    def process(self, element):
        self.batch.append(element)
        if len(self.batch) > 2:
            yield self.batch
            self.batch = []

    def finish_bundle(self):
        if self.batch:
            yield beam.transforms.window.GlobalWindows.windowed_value(self.batch)


class CountsCalls(beam.DoFn):
    calls = 0

    def process(self, element):
        self.calls += 1
        yield element, self.calls


class AppendsUnbound(beam.DoFn):
    def __init__(self):
        self.seen = []

    def process(self, element):
        list.append(self.seen, element)
        yield len(self.seen)


class AppendsThroughCopy(beam.DoFn):
    def __init__(self):
        self.lists: list = [[]]

    def process(self, element):
        list(self.lists)[0].append(element)
        yield len(self.lists[0])


class AppendsThroughOperator(beam.DoFn):
    def __init__(self):
        self.lists: list = [[]]

    def process(self, element):
        operator.getitem(self.lists, 0).append(element)
        yield len(self.lists[0])


class LoopsOverCopy(beam.DoFn):
    def __init__(self):
        self.lists: list = [[]]

    def process(self, element):
        for held in [x for x in self.lists]:
            held.append(element)
        yield len(self.lists[0])


class LoopsOverIterator(beam.DoFn):
    def __init__(self):
        self.numbers = iter(range(100))

    def process(self, element):
        for number in self.numbers:
            yield element, number
            return


class CachedProperty(beam.DoFn):
    def __init__(self):
        self.words = ["a", "b"]

    @property
    def first(self):
        return self.words[0]

    def process(self, element):
        for word in self.words:
            if word == element:
                yield word.title(), self.first


class SumPerKey(beam.DoFn):
    TOTAL = CombiningValueStateSpec("total", sum)

    def process(self, element, total=beam.DoFn.StateParam(TOTAL)):
        total.add(element[1])
        yield element[0], total.read()


class Deduplicates(beam.DoFn):
    SEEN = ReadModifyWriteStateSpec("seen", VarIntCoder())

    def process(self, element, seen=beam.DoFn.StateParam(SEEN)):
        if seen.read() is None:
            seen.write(1)
            yield element


class BuffersUntil(beam.DoFn):
    BUFFER = BagStateSpec("buffer", VarIntCoder())
    FLUSH = TimerSpec("flush", TimeDomain.WATERMARK)

    def process(
        self, element, buffer=beam.DoFn.StateParam(BUFFER), flush=beam.DoFn.TimerParam(FLUSH)
    ):
        buffer.add(element[1])
        flush.set(10)

    @on_timer(FLUSH)
    def flushed(self, key=beam.DoFn.KeyParam, buffer=beam.DoFn.StateParam(BUFFER)):
        yield key, sorted(buffer.read())
        buffer.clear()


def timers_of_a_closure():
    flush = TimerSpec("flush", TimeDomain.WATERMARK)

    class Closed(beam.DoFn):
        def process(self, element, timer=beam.DoFn.TimerParam(flush)):
            timer.set(5)
            yield element

        @on_timer(flush)
        def flushed(self):
            yield "x", 1
            yield "y", 2

    return Closed()


def remembers(x):
    MEMORY[x] = True
    return len(MEMORY)


def remembers_by_globals(x):
    globals()["LAST"] = x
    return x


def numbers_elements(x):
    return next(NUMBERS), x


def numbers_by_zip(x):
    return dict(zip([x], NUMBERS, strict=False))


def sets_precision(x):
    decimal.getcontext().prec = 3
    return decimal.Decimal(x) / 3


def remembers_in_thread(x):
    LOCAL.last = x
    return x


def collects(x, seen):
    seen.append(x)
    return len(seen)


def looks_up(x, table):
    return table.get(x, 0)


def adds(x, n):
    return x + n


def joined_with(kv, others):
    key, value = kv
    return [(key, (value, o)) for o in others]


def now(x):
    return x, datetime.datetime.now(datetime.timezone.utc)


def slow(x):
    time.sleep(0)
    return x


def sampled(_x):
    return random.random() < 0.1


def named(x):
    return str(uuid.uuid4()), x


def stable_name(x):
    return hashlib.sha256(x.encode()).hexdigest()


def salted(x):
    return hash(x) % 8, x


def reads_file(path):
    with open(path) as file:
        return file.read()


def lines_of(path):
    with open(path) as file:
        yield from file


def path_text(path):
    return pathlib.Path(path).read_text()


def there(path):
    return os.path.exists(path)


def base_name(path):
    return os.path.basename(path), pathlib.PurePath(path).suffix


def environment(x):
    return os.environ.get("HOME"), x


def machine(x):
    return platform.node(), x


def runs(x):
    return subprocess.check_output(["echo", x])


def host_of(url):
    return urllib.parse.urlparse(url).netloc


def rounded(x):
    return math.floor(x * 100) / 100


def parsed_time(text):
    return datetime.datetime.strptime(text, "%Y").replace(tzinfo=datetime.timezone.utc)


def counted(words):
    return collections.Counter(words).most_common(1)


def closure_of(factor):
    def scaled(kv):
        return kv[0], kv[1] * factor

    return scaled


def closure_that_keeps():
    seen = set()

    def fresh(x):
        if x not in seen:
            seen.add(x)
            yield x

    return fresh


def shadowed_helper(kv):
    return [adds_key(kv) for adds_key in (lambda pair: (pair[1], 1),)]


def adds_key(kv):
    return kv[0], 1


def remembers_by_map(xs):
    return list(map(remembers, xs))


def remembers_by_method(xs):
    for _ in map(SEEN.append, xs):
        pass
    return len(SEEN)


def sorted_by_rolled_key(xs):
    return sorted(xs, key=rolled)


def rolled(_x):
    return random.random()


def shortest_first(text):
    return sorted(set(text.split()), key=len)


def any_of_shortest(text):
    return min(set(text.split()), key=len)


def ordered_keys(text):
    return list(dict.fromkeys(set(text.split())))


def common_words(pair):
    return len(set(pair[0].split()) & set(pair[1].split()))


def opened_by_beam(path):
    with FileSystems.open(path) as file:
        return file.read()


def stamped_now(x):
    return beam.window.TimestampedValue(x, Timestamp.now())


@contextlib.contextmanager
def nonce():
    yield random.random()


def with_nonce(x, number=beam.DoFn.SetupContextParam(nonce)):
    return x, number


def through_fields(kv):
    holder = Holder(kv[0])
    holder.__dict__["key"] = 1
    return holder.key, 1


@dataclasses.dataclass
class Holder:
    key: str


def first_column_name(frame):
    return frame[:1]


TIMERS = "keyed many other same"

CASES = [
    case("reads table", beam.ParDo(ReadsTable(TABLE)), "none atmost other same", "a", "z"),
    case("opens in setup", beam.ParDo(OpensInSetup()), "none one fwd same", ("a", 1)),
    case("batches", beam.ParDo(Batches()), "keeps free other varies"),
    case("counts calls", beam.ParDo(CountsCalls()), "keeps one other varies", 1, 2),
    case("appends unbound", beam.ParDo(AppendsUnbound()), "keeps one other varies", 1, 2),
    case("appends through copy", beam.ParDo(AppendsThroughCopy()), "keeps one other varies", 1, 2),
    case("appends through operator", beam.ParDo(AppendsThroughOperator()), "keeps one other varies", 1, 2),
    case("loops over copy", beam.ParDo(LoopsOverCopy()), "keeps one other varies", 1, 2),
    case("loops over iterator", beam.ParDo(LoopsOverIterator()), "keeps atmost other varies"),
    case("cached property", beam.ParDo(CachedProperty()), "none many other same", "a", "c"),
    case("sum per key", beam.ParDo(SumPerKey()), "keyed one fwd same", ("a", 1), ("a", 2)),
    case("deduplicates", beam.ParDo(Deduplicates()), "keyed atmost fwd same", ("a", 1), ("a", 2)),
    case("buffers until", beam.ParDo(BuffersUntil()), "keyed many fwd same", ("a", 1), ("a", 2)),
    case("timers of a closure", beam.ParDo(timers_of_a_closure()), TIMERS),
    case("remembers", beam.Map(remembers), "keeps one other varies", 1, 2),
    case("remembers by globals", beam.Map(remembers_by_globals), "keeps one fwd varies"),
    case("numbers elements", beam.Map(numbers_elements), "keeps one other varies"),
    case("numbers by zip", beam.Map(numbers_by_zip), "keeps one other varies"),
    case("sets precision", beam.Map(sets_precision), "keeps one other varies"),
    case("remembers in thread", beam.Map(remembers_in_thread), "keeps one fwd varies"),
    case("collects", beam.Map(collects, []), "keeps one other varies", 1, 2),
    case("looks up", beam.Map(looks_up, TABLE), "none one other same", "a", "z"),
    case("adds", beam.Map(adds, 3), "none one other same", 1, 2),
    case("adds by name", beam.Map(adds, n=3), "none one other same", 1, 2),
    case("joined with", beam.FlatMap(joined_with, [1, 2]), "none many fwd same", ("a", 1)),
    case("now", beam.Map(now), "none one other varies", 1),
    case("slow", beam.Map(slow), "none one fwd same", 1),
    case("sampled", beam.Filter(sampled), "none atmost fwd varies", 1),
    case("named", beam.Map(named), "none one other varies", 1),
    case("stable name", beam.Map(stable_name), "none one other same", "a"),
    case("salted", beam.Map(salted), "none one other varies", "a", "b", "c"),
    case("reads file", beam.Map(reads_file), "none one other varies"),
    case("lines of", beam.FlatMap(lines_of), "none many other varies"),
    case("path text", beam.Map(path_text), "none one other varies"),
    case("there", beam.Filter(there), "none atmost fwd varies"),
    case("base name", beam.Map(base_name), "none one other same", "/a/b.c"),
    case("environment", beam.Map(environment), "none one other varies"),
    case("machine", beam.Map(machine), "none one other varies"),
    case("runs", beam.Map(runs), "none one other varies"),
    case("host of", beam.Map(host_of), "none one other same", "http://a.b/c"),
    case("rounded", beam.Map(rounded), "none one other same", 1.234),
    case("parsed time", beam.Map(parsed_time), "none one other same", "2020"),
    case("counted words", beam.Map(counted), "none one other same", ["a", "a", "b"]),
    case("remembers by map", beam.Map(remembers_by_map), "keeps one other varies", [1], [2]),
    case("remembers by method", beam.Map(remembers_by_method), "keeps one other varies", [1], [2]),
    case("sorted by rolled key", beam.Map(sorted_by_rolled_key), "none one other varies", [1, 2, 3]),
    case("shortest first", beam.Map(shortest_first), "none one other varies", "a b c d e f g"),
    case("any of shortest", beam.Map(any_of_shortest), "none one other varies", "a b c d e f g"),
    case("ordered keys", beam.Map(ordered_keys), "none one other varies", "a b c d e f g"),
    case("common words", beam.Map(common_words), "none one other same", ("a b", "b c")),
    case("opened by beam", beam.Map(opened_by_beam), "none one other varies"),
    case("stamped now", beam.Map(stamped_now), "none one fwd varies", 1),
    case("with nonce", beam.Map(with_nonce), "none one other varies"),
    case("through fields", beam.Map(through_fields), "none one other same", ("a", 1)),
    case("first column name", beam.FlatMap(first_column_name), "none many other same",
         pandas.DataFrame({"a": [1], "b": [2]})),
    case("closure of", beam.Map(closure_of(3)), "none one fwd same", ("a", 1)),
    case("closure that keeps", beam.FlatMap(closure_that_keeps()), "keeps atmost fwd varies", 1, 1),
    case("shadowed helper", beam.FlatMap(shadowed_helper), "none one other same", ("a", 1)),
    case("seeded", beam.Map(lambda x: random.Random(x).random()), "none one other same", 1, 2),
    case("own dice", beam.Map(lambda x: random.Random().random() + x), "none one other varies", 1),
]
