"""The pipelines that are measured: how elements come to be, and the tallies they end in.

Everything is made inside the pipeline from 64 ranges of numbers, and every pipeline ends in a tally
that keeps a few numbers and reports them as counters: no collection leaves the pipeline. A tally
checks each group against its formula and counts those that are wrong.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.transforms.window import FixedWindows, SlidingWindows, TimestampedValue

from headrace.lab.experiments.micro.answers import SCRAMBLE, Keys

NAMESPACE = "headrace.benchmarks"
RANGES = 64
#: Noise that values of the large grouping are cut from: larger than a compressor looks back.
NOISE_BYTES = 1 << 20

Span = tuple[int, int]


def spans(n: int) -> list[Span]:
    """Cut 0 to n - 1 into ranges."""
    return [(n * i // RANGES, n * (i + 1) // RANGES) for i in range(RANGES)]


def generate(p: beam.Pipeline, n: int, expand: beam.PTransform) -> beam.PCollection:
    """Deal the ranges out and expand them where they arrive."""
    return (
        p
        | "Ranges" >> beam.Create(spans(n), reshuffle=False)
        | "Deal" >> beam.Reshuffle()
        | "Generate" >> expand
    )


class Numbers(beam.DoFn):  # type: ignore[misc]
    """The numbers of a range."""

    def process(self, span: Span) -> Iterable[int]:
        return range(*span)


class Blobs(beam.DoFn):  # type: ignore[misc]
    """The numbers of a range as 24 bytes each."""

    def process(self, span: Span) -> Iterator[bytes]:
        return (i.to_bytes(24, "big") for i in range(*span))


class Keyed(beam.DoFn):  # type: ignore[misc]
    """The numbers of a range with integer keys."""

    def __init__(self, keys: int) -> None:
        self._keys = keys

    def process(self, span: Span) -> Iterator[tuple[int, int]]:
        keys = self._keys
        return ((i * SCRAMBLE % keys, i) for i in range(*span))


class Named(beam.DoFn):  # type: ignore[misc]
    """The numbers of a range with keys made by `name`, beforehand: only lookups are timed."""

    def __init__(self, keys: int, name: Callable[[int], Any]) -> None:
        self._keys = keys
        self._name = name
        self._names: list[Any] = []

    def setup(self) -> None:
        self._names = [self._name(key) for key in range(self._keys)]

    def process(self, span: Span) -> Iterator[tuple[Any, int]]:
        keys, names = self._keys, self._names
        return ((names[i * SCRAMBLE % keys], i) for i in range(*span))


class Timed(beam.DoFn):  # type: ignore[misc]
    """The numbers of a range with integer keys, each at its second."""

    def __init__(self, keys: int) -> None:
        self._keys = keys

    def process(self, span: Span) -> Iterator[TimestampedValue]:
        keys = self._keys
        return (
            TimestampedValue((i * SCRAMBLE % keys, i), i // keys) for i in range(*span)
        )


class Large(beam.DoFn):  # type: ignore[misc]
    """The numbers of a range with integer keys, each padded with noise to `size` bytes."""

    def __init__(self, keys: int, size: int) -> None:
        self._keys = keys
        self._size = size
        self._noise = b""

    def setup(self) -> None:
        self._noise = random.Random(7).randbytes(NOISE_BYTES)

    def process(self, span: Span) -> Iterator[tuple[int, bytes]]:
        keys, noise, pad = self._keys, self._noise, self._size - 8
        room = NOISE_BYTES - pad
        for i in range(*span):
            start = i * SCRAMBLE % room
            yield i * SCRAMBLE % keys, i.to_bytes(8, "big") + noise[start : start + pad]


class Identity(beam.DoFn):  # type: ignore[misc]
    """Passes its element on."""

    def process(self, element: bytes) -> Iterator[bytes]:
        yield element


class Tally(beam.DoFn):  # type: ignore[misc]
    """Keeps numbers while a bundle runs and adds them to counters at its end."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0
        self.wrong = 0

    def start_bundle(self) -> None:
        self.count = self.total = self.wrong = 0

    def finish_bundle(self) -> None:
        for name in ("count", "total", "wrong"):
            Metrics.counter(NAMESPACE, name).inc(getattr(self, name))


class TallyNumbers(Tally):
    """Counts and adds numbers."""

    def process(self, element: int) -> None:
        self.count += 1
        self.total += element


class TallyBlobs(Tally):
    """Counts 24-byte numbers and adds them."""

    def process(self, element: bytes) -> None:
        self.count += 1
        self.total += int.from_bytes(element, "big")


class TallyKeys(Tally):
    """Checks totals of keys; what to take them from, its heirs say."""

    def __init__(self, n: int, keys: int, key_of: Callable[[Any], int]) -> None:
        super().__init__()
        self._right = Keys(n, keys)
        self._key_of = key_of

    def check(self, key: Any, total: int) -> None:
        self.count += 1
        self.total += total
        if total != self._right.total(self._key_of(key)):
            self.wrong += 1


class TallySums(TallyKeys):
    """Checks the sum of each key."""

    def process(self, element: tuple[Any, int]) -> None:
        self.check(*element)


class TallyGroups(TallyKeys):
    """Adds the values of each key and checks the sum."""

    def process(self, element: tuple[Any, Iterable[int]]) -> None:
        self.check(element[0], sum(element[1]))


class TallyWindows(Tally):
    """Checks totals of keys in windows; what to take them from, its heirs say."""

    def __init__(self, n: int, keys: int) -> None:
        super().__init__()
        self._right = Keys(n, keys)

    def check(self, key: int, total: int, window: Any) -> None:
        self.count += 1
        self.total += total
        start, end = window.start.micros // 1_000_000, window.end.micros // 1_000_000
        if total != self._right.total_between(key, start, end):
            self.wrong += 1


class TallyWindowSums(TallyWindows):
    """Checks the sum of each key and window."""

    def process(self, element: tuple[int, int], window: Any = beam.DoFn.WindowParam) -> None:
        self.check(element[0], element[1], window)


class TallyWindowGroups(TallyWindows):
    """Adds the values of each key and window and checks the sum."""

    def process(
        self, element: tuple[int, Iterable[int]], window: Any = beam.DoFn.WindowParam
    ) -> None:
        self.check(element[0], sum(element[1]), window)


class TallyLarge(Tally):
    """Adds the numbers and the bytes of each key's large values, one value at a time."""

    def __init__(self, n: int, keys: int, size: int) -> None:
        super().__init__()
        self._right = Keys(n, keys)
        self._size = size

    def process(self, element: tuple[int, Iterable[bytes]]) -> None:
        key, values = element
        count = size = total = 0
        for value in values:
            count += 1
            size += len(value)
            total += int.from_bytes(value[:8], "big")
        self.count += 1
        self.total += total
        right = self._right
        if (count, size, total) != (right.count(key), count * self._size, right.total(key)):
            self.wrong += 1


def _plain(key: int) -> int:
    return key


def text_key(key: int) -> str:
    """The key as a string of some length, as identifiers are."""
    return f"customer-{key:08d}"


def key_of_text(name: str) -> int:
    """The key that a string stands for."""
    return int(name[len("customer-") :])


def tuple_key(key: int) -> tuple[str, int]:
    """The key as a pair."""
    return f"region-{key % 100:02d}", key // 100


def key_of_tuple(pair: tuple[str, int]) -> int:
    """The key that a pair stands for."""
    return pair[1] * 100 + int(pair[0][len("region-") :])


def maps(p: beam.Pipeline, n: int) -> None:
    """Three maps; together they make 2 i - 1 of i."""
    (
        generate(p, n, beam.ParDo(Numbers()).with_output_types(int))
        | "Next" >> beam.Map(lambda x: x + 1)
        | "Double" >> beam.Map(lambda x: x * 2)
        | "Less" >> beam.Map(lambda x: x - 3)
        | "Tally" >> beam.ParDo(TallyNumbers())
    )


def pardos(p: beam.Pipeline, n: int) -> None:
    """Twenty DoFns that pass 24 bytes on."""
    blobs = generate(p, n, beam.ParDo(Blobs()).with_output_types(bytes))
    for number in range(20):
        blobs = blobs | f"Identity{number}" >> beam.ParDo(Identity()).with_output_types(bytes)
    _ = blobs | "Tally" >> beam.ParDo(TallyBlobs())


def sums(keys: int) -> Callable[[beam.Pipeline, int], None]:
    """A sum per integer key."""

    def build(p: beam.Pipeline, n: int) -> None:
        (
            generate(p, n, beam.ParDo(Keyed(keys)).with_output_types(tuple[int, int]))
            | "Sum" >> beam.CombinePerKey(sum)
            | "Tally" >> beam.ParDo(TallySums(n, keys, _plain))
        )

    return build


def groups_by_int(keys: int) -> Callable[[beam.Pipeline, int], None]:
    """A grouping by integer."""

    def build(p: beam.Pipeline, n: int) -> None:
        (
            generate(p, n, beam.ParDo(Keyed(keys)).with_output_types(tuple[int, int]))
            | "Group" >> beam.GroupByKey()
            | "Tally" >> beam.ParDo(TallyGroups(n, keys, _plain))
        )

    return build


def groups_by_text(keys: int) -> Callable[[beam.Pipeline, int], None]:
    """A grouping by string."""

    def build(p: beam.Pipeline, n: int) -> None:
        named = beam.ParDo(Named(keys, text_key)).with_output_types(tuple[str, int])
        (
            generate(p, n, named)
            | "Group" >> beam.GroupByKey()
            | "Tally" >> beam.ParDo(TallyGroups(n, keys, key_of_text))
        )

    return build


def groups_by_tuple(keys: int) -> Callable[[beam.Pipeline, int], None]:
    """A grouping by a pair of string and integer."""

    def build(p: beam.Pipeline, n: int) -> None:
        named = beam.ParDo(Named(keys, tuple_key)).with_output_types(
            tuple[tuple[str, int], int]
        )
        (
            generate(p, n, named)
            | "Group" >> beam.GroupByKey()
            | "Tally" >> beam.ParDo(TallyGroups(n, keys, key_of_tuple))
        )

    return build


def windowed(
    keys_of: Callable[[int], int], size: int, period: int, *, combine: bool
) -> Callable[[beam.Pipeline, int], None]:
    """A grouping or a sum per key and window."""

    def build(p: beam.Pipeline, n: int) -> None:
        keys = keys_of(n)
        windows = FixedWindows(size) if size == period else SlidingWindows(size, period)
        timed = (
            generate(p, n, beam.ParDo(Timed(keys)).with_output_types(tuple[int, int]))
            | "Window" >> beam.WindowInto(windows)
        )
        if combine:
            (
                timed
                | "Sum" >> beam.CombinePerKey(sum)
                | "Tally" >> beam.ParDo(TallyWindowSums(n, keys))
            )
        else:
            (
                timed
                | "Group" >> beam.GroupByKey()
                | "Tally" >> beam.ParDo(TallyWindowGroups(n, keys))
            )

    return build


def large_groups(keys: int, size: int) -> Callable[[beam.Pipeline, int], None]:
    """A grouping of large values."""

    def build(p: beam.Pipeline, n: int) -> None:
        (
            generate(p, n, beam.ParDo(Large(keys, size)).with_output_types(tuple[int, bytes]))
            | "Group" >> beam.GroupByKey()
            | "Tally" >> beam.ParDo(TallyLarge(n, keys, size))
        )

    return build
