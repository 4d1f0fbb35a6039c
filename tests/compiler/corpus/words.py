"""Counting words, cleaning lines, parsing: the first pages of Beam's guide."""

from __future__ import annotations

import csv
import json
import logging
import re
from collections import Counter
from datetime import datetime

import apache_beam as beam
from apache_beam.metrics import Metrics

from tests.compiler.corpus.table import case

LOG = logging.getLogger(__name__)
WORD = re.compile(r"[a-z']+")
STOP = frozenset({"the", "a", "of"})
FIELDS = ("user", "country", "score")


class ExtractWords(beam.DoFn):
    def process(self, element):
        return re.findall(r"[\w\']+", element, re.UNICODE)


class ExtractWithMetrics(beam.DoFn):
    def __init__(self):
        self.words = Metrics.counter(self.__class__, "words")
        self.lengths = Metrics.distribution(self.__class__, "lengths")

    def process(self, element):
        for word in WORD.findall(element.lower()):
            self.words.inc()
            self.lengths.update(len(word))
            yield word


class FormatCount(beam.DoFn):
    def process(self, element):
        word, count = element
        yield f"{word}: {count}"


class ComputeLength(beam.DoFn):
    def process(self, element):
        return [len(element)]


class ParseJson(beam.DoFn):
    BAD = "bad"

    def process(self, element):
        try:
            record = json.loads(element)
        except json.JSONDecodeError:
            yield beam.pvalue.TaggedOutput(self.BAD, element)
            return
        yield record


class ParseCsv(beam.DoFn):
    def __init__(self):
        self.errors = Metrics.counter("corpus", "errors")

    def process(self, element):
        try:
            row = next(csv.reader([element]))
            yield dict(zip(FIELDS, (row[0], row[1], int(row[2])), strict=True))
        except (IndexError, ValueError):
            self.errors.inc()
            LOG.error("bad line: %s", element)


class SplitByLength(beam.DoFn):
    def __init__(self, cutoff):
        self.cutoff = cutoff

    def process(self, element):
        if len(element) <= self.cutoff:
            yield element
        else:
            yield beam.pvalue.TaggedOutput("long", element)
        if element.startswith("#"):
            yield beam.pvalue.TaggedOutput("marked", element)


class DropEmpty(beam.DoFn):
    def process(self, element):
        line = element.strip()
        if not line or line.startswith("#"):
            return
        yield line


class FirstMatch(beam.DoFn):
    def __init__(self, pattern):
        self.pattern = re.compile(pattern)

    def process(self, element):
        found = self.pattern.search(element)
        if found:
            yield found.group(0)


class LetterCounts(beam.DoFn):
    def process(self, element):
        counts = Counter(c for c in element if c.isalpha())
        yield from sorted(counts.items())


class BigramsOfLine(beam.DoFn):
    def process(self, element):
        words = element.split()
        for left, right in zip(words, words[1:], strict=False):
            yield (left, right), 1


class AddTimestamp(beam.DoFn):
    def process(self, element):
        when = datetime.strptime(element["at"], "%Y-%m-%d").timestamp()
        yield beam.window.TimestampedValue(element, when)


class WithWindow(beam.DoFn):
    def process(self, element, window=beam.DoFn.WindowParam, at=beam.DoFn.TimestampParam):
        yield element, str(window), at.micros


def format_result(word_count):
    (word, count) = word_count
    return "%s: %d" % (word, count)


def unique_letters(word):
    return "".join(sorted(set(word)))


def letters_in_any_order(word):
    return "".join(set(word))


def words_without_repeats(line):
    for word in set(line.split()):
        yield word


def first_column(line):
    return line.split(",")[0]


def parse_pair(line):
    name, _, number = line.partition("=")
    return name, int(number)


def numbers_of(line):
    found = []
    for part in line.split():
        if part.isdigit():
            found.append(int(part))
    return found


def number_or_nothing(text):
    try:
        return [int(text)]
    except ValueError:
        return []


def longest(words):
    best = ""
    for word in words:
        if len(word) > len(best):
            best = word
    return best


def is_stop_word(word):
    return word in STOP


def tokenised(line, lower=True):
    tokens = line.split()
    return [t.lower() for t in tokens] if lower else tokens


def by_first_letter(word):
    return word[0], word


def one_of_kind(word):
    match len(word):
        case 0:
            return
        case 1:
            yield "letter", word
        case _:
            yield "word", word


def kind_of(word):
    match word:
        case "":
            yield "empty"
        case str() if word.isdigit():
            yield "number"
        case _:
            yield "word"


LINES = ("the cat sat", "a dog, a day", "", "#3 it's 42")

CASES = [
    case("extract words", beam.ParDo(ExtractWords()), "none many other same", *LINES),
    case("extract with metrics", beam.ParDo(ExtractWithMetrics()), "none many other same", *LINES),
    case("format count", beam.ParDo(FormatCount()), "none one other same", ("a", 1), ("b", 2)),
    case("compute length", beam.ParDo(ComputeLength()), "none one other same", *LINES),
    case("parse json", beam.ParDo(ParseJson()).with_outputs(), "none one other same", "{}", "{", "[1]"),
    case("parse csv", beam.ParDo(ParseCsv()), "none atmost other same", "a,b,3", "a", "a,b,c"),
    case("split by length", beam.ParDo(SplitByLength(3)).with_outputs(), "none many fwd same", *LINES),
    case("drop empty", beam.ParDo(DropEmpty()), "none atmost other same", *LINES),
    case("first match", beam.ParDo(FirstMatch("[0-9]+")), "none atmost other same", *LINES),
    case("letter counts", beam.ParDo(LetterCounts()), "none many other same", *LINES),
    case("bigrams", beam.ParDo(BigramsOfLine()), "none many other same", *LINES),
    case("add timestamp", beam.ParDo(AddTimestamp()), "none one fwd same", {"at": "2020-01-02"}),
    case("with window", beam.ParDo(WithWindow()), "none one other same"),
    case("format result", beam.Map(format_result), "none one other same", ("a", 1)),
    case("unique letters", beam.Map(unique_letters), "none one other same", *LINES),
    case("letters in any order", beam.Map(letters_in_any_order), "none one other varies", *LINES),
    case("words without repeats", beam.FlatMap(words_without_repeats), "none many other varies", *LINES),
    case("first column", beam.Map(first_column), "none one other same", *LINES),
    case("parse pair", beam.Map(parse_pair), "none one other same", "a=1", "b=2"),
    case("numbers of", beam.FlatMap(numbers_of), "none many other same", "1 2 x", ""),
    case("number or nothing", beam.FlatMap(number_or_nothing), "none atmost other same", "1", "x"),
    case("longest", beam.Map(longest), "none one other same", ["a", "bb"], []),
    case("is stop word", beam.Filter(is_stop_word), "none atmost fwd same", "the", "cat"),
    case("tokenised", beam.FlatMap(tokenised), "none many other same", *LINES),
    case("tokenised as is", beam.FlatMap(tokenised, lower=False), "none many other same", *LINES),
    case("by first letter", beam.Map(by_first_letter), "none one fwd same", "cat", "dog"),
    case("one of kind", beam.FlatMap(one_of_kind), "none atmost other same", "", "a", "ab"),
    case("kind of", beam.FlatMap(kind_of), "none one other same", "", "1", "ab"),
    case("split", beam.FlatMap(str.split), "none many other same", *LINES),
    case("lower", beam.Map(str.lower), "none one other same", *LINES),
    case("length", beam.Map(len), "none one other same", *LINES),
    case("strip", beam.Map(lambda line: line.strip()), "none one other same", *LINES),
    case("paired with one", beam.Map(lambda word: (word, 1)), "none one other same", *LINES),
    case("not empty", beam.Filter(lambda line: len(line) > 0), "none atmost fwd same", *LINES),
    case("not empty by bool", beam.Filter(bool), "none atmost fwd same", *LINES),
    case("regex filter", beam.Filter(lambda w: WORD.match(w)), "none atmost fwd same", *LINES),
    case("only if long", beam.FlatMap(lambda w: [w] if len(w) > 3 else []), "none atmost fwd same", *LINES),
    case("split and strip", beam.FlatMap(lambda line: [w.strip() for w in line.split(",")]), "none many other same", *LINES),
    case("to json", beam.Map(json.dumps), "none one other same", {"a": 1}, [1]),
    case("from json", beam.Map(json.loads), "none one other same", "{}", "[1]"),
    case("chars", beam.FlatMap(lambda line: iter(line)), "none many other same", *LINES),
    case("capped", beam.FlatMap(lambda line: line.split()[:1]), "none atmost other same", *LINES),
]
