"""Values with fields: NamedTuple, dataclass, Row, dict."""

from __future__ import annotations

import collections
import copy
import dataclasses
import typing

import apache_beam as beam

from tests.compiler.corpus.table import case


class Pair(typing.NamedTuple):
    key: str
    value: int


class Sale(typing.NamedTuple):
    shop: str
    item: str
    price: float = 1.0


Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass
class Count:
    word: str
    n: int = 0

    def bump(self):
        self.n += 1


@dataclasses.dataclass(frozen=True, slots=True)
class Total:
    key: str
    total: float = 0.0


@dataclasses.dataclass(kw_only=True)
class Named:
    name: str
    tags: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Lowered:
    key: str

    def __post_init__(self):
        self.key = self.key.lower()


@dataclasses.dataclass
class Guarded:
    _key: str

    @property
    def key(self):
        return self._key.upper()


class Plain:
    def __init__(self, key):
        self.key = key


class Flipped(Pair):
    def __new__(cls, key, value):
        return super().__new__(cls, value, key)


def to_pair(kv):
    return Pair(kv[0], kv[1])


def to_pair_by_name(kv):
    return Pair(value=1, key=kv[0])


def through_pair(kv):
    pair = Pair(*kv)
    return pair.key, pair.value + 1


def annotated_pair(pair: Pair):
    return pair.key, pair.value + 1


def annotated_wrong_field(pair: Pair):
    return pair.value, pair.key


def replaced_value(pair: Pair):
    return pair._replace(value=pair.value * 2)


def replaced_key(pair: Pair):
    return pair._replace(key=pair.key.upper())


def as_dict_and_back(pair: Pair):
    fields = pair._asdict()
    return fields["key"], fields["value"]


def matched_pair(pair):
    match pair:
        case Pair(key=key, value=value):
            return key, value + 1
        case Pair():
            return pair
    return pair


def flipped(kv):
    pair = Flipped(kv[0], kv[1])
    return pair.key, 1


def sale_of(kv):
    sale = Sale(kv[0], "pen", price=kv[1])
    return sale.shop, sale


def sale_by_item(kv):
    sale = Sale("shop", kv[0], kv[1])
    return sale.shop, sale.item


def cheaper(kv):
    sale = Sale(kv[0], "pen")._replace(price=kv[1])
    return sale.shop, sale.price


def moved(kv):
    sale = Sale(kv[0], "pen")._replace(shop="other")
    return sale.shop, sale.price


def point_of(kv):
    point = Point(x=kv[0], y=kv[1])
    return point[0], point.y


def counted(kv):
    count = Count(kv[0])
    return count.word, count.n


def counted_and_bumped(kv):
    count = Count(kv[0])
    count.n = kv[1]
    return count.word, count.n


def renamed_count(kv):
    count = Count(kv[0])
    count.word = "other"
    return count.word, count.n


def bumped_by_method(kv):
    count = Count(kv[0])
    count.bump()
    return kv[0], count.n


def replaced_count(kv):
    count = dataclasses.replace(Count(kv[0], 1), n=5)
    return count.word, count.n


def replaced_word(kv):
    count = dataclasses.replace(Count(kv[0], 1), word="x")
    return count.word, count.n


def total_of(kv):
    key, values = kv
    total = Total(key, sum(values))
    return total.key, total


def named_of(kv):
    named = Named(name=kv[0])
    return named.name, named.tags


def lowered(kv):
    made = Lowered(kv[0])
    return made.key, 1


def guarded(kv):
    made = Guarded(kv[0])
    return made.key, 1


def plain_object(kv):
    made = Plain(kv[0])
    return made.key, 1


def row_of(kv):
    row = beam.Row(key=kv[0], value=kv[1])
    return row.key, row.value


def row_changed(kv):
    row = beam.Row(key=kv[0], value=kv[1])
    row.key = 3
    return row.key, row.value


def row_out(kv):
    return beam.Row(key=kv[0], value=kv[1])


def dict_of(kv):
    record = {"key": kv[0], "n": 1}
    return record["key"], record["n"]


def dict_with_more(kv):
    record = {"key": kv[0]}
    record["n"] = kv[1]
    return record["key"], record


def dict_overwritten(kv):
    record = {"key": kv[0]}
    record["key"] = kv[1]
    return record["key"], record


def dict_overwritten_then_got(kv):
    record = {"key": kv[0]}
    record["key"] = kv[1]
    return record.get("key"), record


def dict_overwritten_then_copied(kv):
    record = {"key": kv[0]}
    record["key"] = kv[1]
    return {**record}["key"], 1


def field_written_then_got(kv):
    count = Count(kv[0])
    count.word = kv[1]
    return getattr(count, "word"), 1  # noqa: B009


def dict_updated(kv):
    record = {"key": kv[0]}
    record.update(key=1)
    return record["key"], 1


def dict_aliased(kv):
    record = {"key": kv[0]}
    other = record
    other["key"] = 1
    return record["key"], 1


def dict_merged(kv):
    record = {"n": 1, **{"key": kv[0]}}
    return record["key"], record["n"]


def dict_merged_over(kv, defaults):
    record = {"key": kv[0], **defaults}
    return record["key"], 1


def dict_by_call(kv):
    record = dict(key=kv[0], n=2)
    return record.get("key"), record


def dict_copied(kv):
    record = copy.copy({"key": kv[0]})
    return record["key"], 1


def reads_record(record):
    return record["key"]


def breaks_record(record):
    record["key"] = 1


def lent_for_reading(kv):
    record = {"key": kv[0]}
    reads_record(record)
    return record["key"], 1


def lent_and_broken(kv):
    record = {"key": kv[0]}
    breaks_record(record)
    return record["key"], 1


def read_from_dict(element):
    return element["key"], element["value"]


def with_field(element):
    return {**element, "n": element["value"] + 1}


def without_empty(element):
    return {k: v for k, v in element.items() if v is not None}


def sum_of_fields(row):
    return row.a + row.b


def typed_count(kv: typing.Tuple[str, int]) -> typing.Tuple[str, int]:  # noqa: UP006
    word, ones = kv
    return word, ones + 1


class ToSales(beam.DoFn):
    def process(self, element):
        shop, prices = element
        for price in prices:
            sale = Sale(shop, "pen", price)
            yield sale.shop, sale


class BestSale(beam.DoFn):
    def process(self, element: tuple):
        shop, sales = element
        best = max(sales, key=lambda sale: sale.price, default=None)
        if best is not None:
            yield shop, best._replace(item="best")


class CountOfGroup(beam.DoFn):
    def process(self, element):
        word, ones = element
        count = Count(word=word)
        for _ in ones:
            count.n += 1
        yield count.word, dataclasses.asdict(count)


@dataclasses.dataclass
class Threshold:
    least: int

    def __call__(self, kv):
        return kv[1] >= self.least

    def pair(self, kv):
        return kv[0], kv[1] - self.least


PAIRS = (("a", 1), ("B", 2))
NAMED = (Pair("a", 1), Pair("B", 2))
DICTS = ({"key": "a", "value": 1}, {"key": "b", "value": 2})
GROUPS: tuple = (("a", [1, 2]), ("b", []))
SALES: tuple = (("a", [Sale("a", "x", 2.0), Sale("a", "y", 3.0)]), ("b", []))

CASES = [
    case("to pair", beam.Map(to_pair), "none one fwd same", *PAIRS),
    case("to pair by name", beam.Map(to_pair_by_name), "none one fwd same", *PAIRS),
    case("through pair", beam.Map(through_pair), "none one fwd same", *PAIRS),
    case("annotated pair", beam.Map(annotated_pair), "none one fwd same", *NAMED),
    case("annotated wrong field", beam.Map(annotated_wrong_field), "none one other same", *NAMED),
    case("replaced value", beam.Map(replaced_value), "none one fwd same", *NAMED),
    case("replaced key", beam.Map(replaced_key), "none one other same", *NAMED),
    case("as dict and back", beam.Map(as_dict_and_back), "none one fwd same", *NAMED),
    case("matched pair", beam.Map(matched_pair), "none one fwd same", *NAMED, *PAIRS),
    case("flipped", beam.Map(flipped), "none one other same", *PAIRS),
    case("sale of", beam.Map(sale_of), "none one fwd same", *PAIRS),
    case("sale by item", beam.Map(sale_by_item), "none one other same", *PAIRS),
    case("cheaper", beam.Map(cheaper), "none one fwd same", *PAIRS),
    case("moved", beam.Map(moved), "none one other same", *PAIRS),
    case("point of", beam.Map(point_of), "none one fwd same", *PAIRS),
    case("counted", beam.Map(counted), "none one fwd same", *PAIRS),
    case("counted and bumped", beam.Map(counted_and_bumped), "none one fwd same", *PAIRS),
    case("renamed count", beam.Map(renamed_count), "none one other same", *PAIRS),
    case("bumped by method", beam.Map(bumped_by_method), "none one fwd same", *PAIRS),
    case("replaced count", beam.Map(replaced_count), "none one fwd same", *PAIRS),
    case("replaced word", beam.Map(replaced_word), "none one other same", *PAIRS),
    case("total of", beam.Map(total_of), "none one fwd same", *GROUPS),
    case("named of", beam.Map(named_of), "none one fwd same", *PAIRS),
    case("lowered", beam.Map(lowered), "none one other same", *PAIRS),
    case("guarded", beam.Map(guarded), "none one other same", *PAIRS),
    case("plain object", beam.Map(plain_object), "none one fwd same", *PAIRS),
    case("row of", beam.Map(row_of), "none one fwd same", *PAIRS),
    case("row changed", beam.Map(row_changed), "none one other same", *PAIRS),
    case("row out", beam.Map(row_out), "none one other same", *PAIRS),
    case("dict of", beam.Map(dict_of), "none one fwd same", *PAIRS),
    case("dict with more", beam.Map(dict_with_more), "none one fwd same", *PAIRS),
    case("dict overwritten", beam.Map(dict_overwritten), "none one other same", *PAIRS),
    case("dict overwritten, got", beam.Map(dict_overwritten_then_got), "none one other same", *PAIRS),
    case("dict overwritten, copied", beam.Map(dict_overwritten_then_copied), "none one other same", *PAIRS),
    case("field written, got", beam.Map(field_written_then_got), "none one other same", *PAIRS),
    case("dict updated", beam.Map(dict_updated), "none one other same", *PAIRS),
    case("dict aliased", beam.Map(dict_aliased), "none one other same", *PAIRS),
    case("dict merged", beam.Map(dict_merged), "none one fwd same", *PAIRS),
    case("dict merged over", beam.Map(dict_merged_over, {"key": 1}), "none one other same", *PAIRS),
    case("dict by call", beam.Map(dict_by_call), "none one fwd same", *PAIRS),
    case("dict copied", beam.Map(dict_copied), "none one fwd same", *PAIRS),
    case("lent for reading", beam.Map(lent_for_reading), "none one fwd same", *PAIRS),
    case("lent and broken", beam.Map(lent_and_broken), "none one other same", *PAIRS),
    case("read from dict", beam.Map(read_from_dict), "none one other same", *DICTS),
    case("with field", beam.Map(with_field), "none one other same", *DICTS),
    case("without empty", beam.Map(without_empty), "none one other same", *DICTS),
    case("sum of fields", beam.Map(sum_of_fields), "none one other same", beam.Row(a=1, b=2)),
    case("typed count", beam.Map(typed_count), "none one fwd same", *PAIRS),
    case("to sales", beam.ParDo(ToSales()), "none many fwd same", *GROUPS),
    case("best sale", beam.ParDo(BestSale()), "none atmost fwd same", *SALES),
    case("count of group", beam.ParDo(CountOfGroup()), "none one fwd same", *GROUPS),
    case("threshold", beam.Filter(Threshold(2)), "none atmost fwd same", *PAIRS),
    case("threshold pair", beam.Map(Threshold(2).pair), "none one fwd same", *PAIRS),
    case("rows by field", beam.GroupBy("a"), "none one other same", beam.Row(a=1, b=2)),
    case("select", beam.Select("a"), "none one other same", beam.Row(a=1, b=2)),
]
