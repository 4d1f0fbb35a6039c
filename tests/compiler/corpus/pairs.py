"""Pairs whose key goes on, or does not: tuples, unpacking, indexing, loops, comprehensions."""

from __future__ import annotations

import itertools
import operator
import typing

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows, TimestampedValue
from apache_beam.utils.windowed_value import WindowedValue

from tests.compiler.corpus.table import case

LIMIT = 10


class SumValues(beam.DoFn):
    def process(self, element):
        key, values = element
        yield key, sum(values)


class TopOfGroup(beam.DoFn):
    def __init__(self, n):
        self.n = n

    def process(self, element):
        key, values = element
        for value in sorted(values, reverse=True)[: self.n]:
            yield key, value


class JoinGroups(beam.DoFn):
    def process(self, element):
        key, grouped = element
        for left, right in itertools.product(grouped["l"], grouped["r"]):
            yield key, (left, right)


class RestOfTuple(beam.DoFn):
    def process(self, element):
        key, *rest = element
        yield key, rest[0]


class LastOfTuple(beam.DoFn):
    def process(self, element):
        *front, last = element
        yield last, front


class TagByValue(beam.DoFn):
    def process(self, element):
        key, value = element
        if value > LIMIT:
            yield beam.pvalue.TaggedOutput("big", (key, value))
        else:
            yield key, value


class StampPair(beam.DoFn):
    def process(self, element):
        yield TimestampedValue((element[0], 1), element[1])


class ImportsInside(beam.DoFn):
    def process(self, element):
        from apache_beam import pvalue

        key, value = element
        yield pvalue.TaggedOutput("t", (key, value))


class InWindow(beam.DoFn):
    def process(self, element):
        yield GlobalWindows.windowed_value((element[0], 1))


class AsWindowed(beam.DoFn):
    def process(self, element, window=beam.DoFn.WindowParam):
        yield WindowedValue((element[0], 2), 0, [window])


class WithKeyParam(beam.DoFn):
    def process(self, element, key=beam.DoFn.KeyParam):
        yield key, element[1]


class ElementLast(beam.DoFn):
    def process(self, at=beam.DoFn.TimestampParam, element=beam.DoFn.ElementParam):
        yield element[0], at


class SwapsWhenNegative(beam.DoFn):
    def process(self, element):
        key, value = element
        if value < 0:
            key, value = value, key
        yield key, value


class KeyOfNested(beam.DoFn):
    def process(self, element):
        (first, second), value = element
        yield first, (second, value)


class SameNested(beam.DoFn):
    def process(self, element):
        key, value = element
        first, second = key
        yield key, (first, second, value)


class CollectThenReturn(beam.DoFn):
    def process(self, element):
        key, values = element
        out = []
        for v in values:
            if v:
                out.append((key, v))
        out.extend((key, -v) for v in values)
        return out


class PutInOrder(beam.DoFn):
    def process(self, element):
        key, values = element
        out = [(key, v) for v in values]
        out += [(key, 0)]
        return sorted(out)


class LoopOverOne(beam.DoFn):
    def process(self, element):
        for key, value in [element]:
            yield key, value + 1


class FindsFirst(beam.DoFn):
    def process(self, element):
        key, values = element
        for value in values:
            if value > 1:
                yield key, value
                break


class OneOrDefault(beam.DoFn):
    def process(self, element):
        key, values = element
        for value in values:
            if value > 1:
                yield key, value
                break
        else:
            yield key, None


class RetriesThenYields(beam.DoFn):
    def process(self, element):
        key, value = element
        tries = 0
        while True:
            tries += 1
            if tries > value:
                break
        yield key, tries


class WalrusKey(beam.DoFn):
    def process(self, element):
        if (key := element[0]) and (value := element[1]):
            yield key, value


class KeyInLoop(beam.DoFn):
    def process(self, element):
        key, values = element
        for key in values:
            yield key, 1


class NormalisesKey(beam.DoFn):
    def process(self, element):
        key, value = element
        yield key.strip().lower(), value


class MatchPair(beam.DoFn):
    def process(self, element):
        match element:
            case (key, None):
                yield key, 0
            case (key, int() as value):
                yield key, value
            case (key, [first, *_]):
                yield key, first


def halves(kv):
    key, values = kv
    return key, [v / 2 for v in values]


def inner_function(kv):
    key, values = kv

    def pair(value):
        return key, value

    return [pair(v) for v in values]


def inner_lambda(kv):
    key = kv[0]
    pair = lambda value: (key, value)  # noqa: E731
    return pair(kv[1])


def inner_that_shadows(kv):
    key = kv[0]

    def pair(key):
        return key, 1

    return pair(kv[1]) if key else pair(key)


def branches(kv):
    key, value = kv
    if value is None:
        result = (key, 0)
    else:
        result = (key, value + 1)
    return result


def maybe_pair(kv):
    if kv[1]:
        return kv[0], kv[1]


def conditional_key(kv):
    key, value = kv
    return (key if value else "none"), value


def either_pair(kv):
    key, value = kv
    return (key, value) if value else (key, 0)


def copies_then_changes(kv):
    key, value = kv
    pair = [key, value]
    pair[0] = value
    return tuple(pair)


def glued(kv):
    return kv[:1] + (len(kv[1:]),)


def reversed_pair(kv):
    return tuple(kv[::-1])


def starred(kv):
    return (*kv[:1], 1)


def whole_again(kv):
    return (*kv,)


def kept_by_cast(kv):
    pair = typing.cast("tuple[str, int]", kv)
    return pair[0], pair[1] * 2


def by_dict(kv):
    return {kv[0]: kv[1]}.items()


def zipped(kv):
    key, values = kv
    return zip(itertools.repeat(key), values, strict=False)


def mapped(kv):
    key, values = kv
    return map(lambda v: (key, v), values)


def enumerated(kv):
    key, values = kv
    for i, value in enumerate(values):
        yield key, (i, value)


def chained(kv):
    key, values = kv
    return itertools.chain([(key, "first")], ((key, v) for v in values))


def from_pairs(kv):
    key, values = kv
    for pair in [(key, v) for v in values]:
        yield pair


def swapped_in_pairs(kv):
    key, values = kv
    for pair in [(v, key) for v in values]:
        yield pair


def never_two(kv):
    return filter(None, [kv])


PAIRS = (("a", 1), ("b", 0), ("c", 12))
GROUPS: tuple = (("a", [1, 2, 3]), ("b", []), ("c", [0]))

CASES = [
    case("sum values", beam.ParDo(SumValues()), "none one fwd same", *GROUPS),
    case("top of group", beam.ParDo(TopOfGroup(2)), "none many fwd same", *GROUPS),
    case("join groups", beam.ParDo(JoinGroups()), "none many fwd same", ("a", {"l": [1], "r": [2, 3]})),
    case("rest of tuple", beam.ParDo(RestOfTuple()), "none one fwd same", *PAIRS),
    case("last of tuple", beam.ParDo(LastOfTuple()), "none one other same", *PAIRS),
    case("tag by value", beam.ParDo(TagByValue()).with_outputs(), "none one fwd same", *PAIRS),
    case("stamp pair", beam.ParDo(StampPair()), "none one fwd same", *PAIRS),
    case("imports inside", beam.ParDo(ImportsInside()).with_outputs(), "none one fwd same", *PAIRS),
    case("in window", beam.ParDo(InWindow()), "none one fwd same", *PAIRS),
    case("as windowed", beam.ParDo(AsWindowed()), "none one fwd same"),
    case("with key param", beam.ParDo(WithKeyParam()), "none one fwd same"),
    case("element last", beam.ParDo(ElementLast()), "none one fwd same"),
    case("swaps when negative", beam.ParDo(SwapsWhenNegative()), "none one other same", *PAIRS, ("d", -1)),
    case("key of nested", beam.ParDo(KeyOfNested()), "none one other same", (("a", "b"), 1)),
    case("same nested", beam.ParDo(SameNested()), "none one fwd same", (("a", "b"), 1)),
    case("collect then return", beam.ParDo(CollectThenReturn()), "none many fwd same", *GROUPS),
    case("put in order", beam.ParDo(PutInOrder()), "none many fwd same", *GROUPS),
    case("loop over one", beam.ParDo(LoopOverOne()), "none one fwd same", *PAIRS),
    case("finds first", beam.ParDo(FindsFirst()), "none atmost fwd same", *GROUPS),
    case("one or default", beam.ParDo(OneOrDefault()), "none one fwd same", *GROUPS),
    case("retries then yields", beam.ParDo(RetriesThenYields()), "none one fwd same", *PAIRS),
    case("walrus key", beam.ParDo(WalrusKey()), "none atmost fwd same", *PAIRS),
    case("key in loop", beam.ParDo(KeyInLoop()), "none many other same", *GROUPS),
    case("normalises key", beam.ParDo(NormalisesKey()), "none one other same", ("A ", 1)),
    case("match pair", beam.ParDo(MatchPair()), "none atmost fwd same", *PAIRS, ("d", None), ("e", [1])),
    case("halves", beam.Map(halves), "none one fwd same", *GROUPS),
    case("inner function", beam.FlatMap(inner_function), "none many fwd same", *GROUPS),
    case("inner lambda", beam.Map(inner_lambda), "none one fwd same", *PAIRS),
    case("inner that shadows", beam.Map(inner_that_shadows), "none one other same", *PAIRS),
    case("branches", beam.Map(branches), "none one fwd same", *PAIRS, ("d", None)),
    case("maybe pair", beam.Map(maybe_pair), "none one other same", *PAIRS),
    case("conditional key", beam.Map(conditional_key), "none one other same", *PAIRS),
    case("either pair", beam.Map(either_pair), "none one fwd same", *PAIRS),
    case("copies then changes", beam.Map(copies_then_changes), "none one other same", *PAIRS),
    case("glued", beam.Map(glued), "none one fwd same", *PAIRS),
    case("reversed pair", beam.Map(reversed_pair), "none one other same", *PAIRS),
    case("starred", beam.Map(starred), "none one fwd same", *PAIRS),
    case("whole again", beam.Map(whole_again), "none one fwd same", *PAIRS),
    case("kept by cast", beam.Map(kept_by_cast), "none one fwd same", *PAIRS),
    case("by dict", beam.FlatMap(by_dict), "none one fwd same", *PAIRS),
    case("zipped", beam.FlatMap(zipped), "none many fwd same", *GROUPS),
    case("mapped", beam.FlatMap(mapped), "none many fwd same", *GROUPS),
    case("enumerated", beam.FlatMap(enumerated), "none many fwd same", *GROUPS),
    case("chained", beam.FlatMap(chained), "none many fwd same", *GROUPS),
    case("from pairs", beam.FlatMap(from_pairs), "none many fwd same", *GROUPS),
    case("swapped in pairs", beam.FlatMap(swapped_in_pairs), "none many other same", *GROUPS),
    case("never two", beam.FlatMap(never_two), "none atmost fwd same", *PAIRS),
    case("lambda pair", beam.Map(lambda kv: (kv[0], kv[1] + 1)), "none one fwd same", *PAIRS),
    case("map tuple", beam.MapTuple(lambda k, v: (k, v * 2)), "none one fwd same", *PAIRS),
    case("map tuple swapped", beam.MapTuple(lambda k, v: (v, k)), "none one other same", *PAIRS),
    case("flat map tuple", beam.FlatMapTuple(lambda k, vs: [(k, v) for v in vs]), "none many fwd same", *GROUPS),
    case("map tuple with more", beam.MapTuple(lambda k, v, n=1: (k, v + n), 3), "none one fwd same", *PAIRS),
    case("with keys", beam.WithKeys(lambda kv: kv[0]), "none one fwd same", *PAIRS),
    case("with keys of value", beam.WithKeys(lambda kv: kv[1]), "none one other same", *PAIRS),
    case("with keys by getter", beam.WithKeys(operator.itemgetter(0)), "none one fwd same", *PAIRS),
    case("with one key", beam.WithKeys("all"), "none one other same", *PAIRS),
    case("group by first", beam.GroupBy(lambda kv: kv[0]), "none one fwd same", *PAIRS),
    case("group by second", beam.GroupBy(lambda kv: kv[1]), "none one other same", *PAIRS),
    case("first item", beam.Map(operator.itemgetter(0)), "none one other same", *PAIRS),
    case("by getter", beam.Map(lambda kv: (operator.itemgetter(0)(kv), 1)), "none one fwd same", *PAIRS),
    case("keys", beam.Keys(), "none one other same", *PAIRS),
    case("swap", beam.KvSwap(), "none one other same", *PAIRS),
    case("identity", beam.Map(lambda kv: kv), "none one fwd same", *PAIRS),
    case("filter by value", beam.Filter(lambda kv: kv[1] > LIMIT), "none atmost fwd same", *PAIRS),
    case("negative index", beam.Map(lambda kv: (kv[-2], kv[-1])), "none one fwd same", *PAIRS),
    case("comprehension", beam.FlatMap(lambda kv: [(k, v) for k, v in [kv]]), "none one fwd same", *PAIRS),
    case("or default", beam.Map(lambda kv: (kv[0] or "none", kv[1])), "none one other same", *PAIRS, ("", 1)),
    case("text key", beam.Map(lambda kv: (str(kv[0]), kv[1])), "none one other same", (1, 2)),
    case("joined keys", beam.Map(lambda kv: (f"{kv[0]}/{kv[1]}", 1)), "none one other same", *PAIRS),
    case("only if value", beam.FlatMap(lambda kv: kv[1] and [kv] or []), "none atmost fwd same", *PAIRS),
    case("next of one", beam.Map(lambda kv: next(iter([kv]))), "none one fwd same", *PAIRS),
    case("list is no pair", beam.Map(lambda kv: [kv[0], kv[1]]), "none one other same", *PAIRS),
]
