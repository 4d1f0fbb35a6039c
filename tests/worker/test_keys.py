"""Keys that Python calls equal and Beam does not, and the other way round, through whole runs."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam import coders
from apache_beam.transforms import window

from tests.worker.harness import collect, gathered, gathered_by_beam, sorted_values


class Name(str):
    """A str of the user's own."""


def grouped(pairs: list[tuple[Any, Any]], hint: Any = tuple[Any, Any]) -> Any:
    """A grouping of pairs that no coder has seen before it; without a hint, of any type."""

    def build(p: beam.Pipeline) -> None:
        made = p | beam.Create([0]) | beam.FlatMap(lambda _: pairs).with_output_types(hint)
        made | beam.GroupByKey() | beam.Map(sorted_values) | collect()

    return build


NAN = float("nan")


@pytest.mark.parametrize(
    ("pairs", "groups"),
    [
        ([(1, "i"), (1.0, "f"), (True, "b"), (1, "j")],
         [(1, ["i", "j"]), (1.0, ["f"]), (True, ["b"])]),
        ([(0.0, 1), (-0.0, 2), (0.0, 3)], [(-0.0, [2]), (0.0, [1, 3])]),
        ([(None, 1), ("None", 2), (None, 3)], [("None", [2]), (None, [1, 3])]),
        ([((1, 1), 1), ((1, True), 2), ((1.0, 1), 3), ((1, 1), 4)],
         [((1, 1), [1, 4]), ((1, True), [2]), ((1.0, 1), [3])]),
        ([("a", 1), (b"a", 2), ("a", 3)], [("a", [1, 3]), (b"a", [2])]),
        ([(1 << 64, 1), (1 << 100, 2), (1 << 64, 3), (-(1 << 70), 4)],
         [(-(1 << 70), [4]), (1 << 64, [1, 3]), (1 << 100, [2])]),
        ([((), 1), ((), 2), (((),), 3)], [((), [1, 2]), (((),), [3])]),
    ],
    ids=["one", "zero", "none", "tuples", "text and bytes", "big integers", "empty tuples"],
)  # fmt: skip
@pytest.mark.parametrize("shards", [1, 3])
def test_keys_are_told_apart_as_beam_does(
    pairs: list[Any], groups: list[Any], shards: int
) -> None:
    found = gathered(grouped(pairs), shards=shards)
    assert [repr(group) for group in found] == sorted(map(repr, groups))
    assert repr(found) == repr(gathered_by_beam(grouped(pairs)))


def test_one_nan_is_one_key() -> None:
    pairs = [(NAN, 1), (float("nan"), 2), (1.5, 3)]
    assert repr(gathered(grouped(pairs))) == "[(1.5, [3]), (nan, [1, 2])]"
    assert repr(gathered_by_beam(grouped(pairs))) == "[(1.5, [3]), (nan, [1, 2])]"


@pytest.mark.parametrize(
    ("keys", "hint", "groups"),
    [
        ([1, True, np.int64(1), 2, np.int32(2)], tuple[int, int], [(1, [0, 1, 2]), (2, [3, 4])]),
        (["a", Name("a"), np.str_("a")], tuple[str, int], [("a", [0, 1, 2])]),
        ([(1, "a"), (True, "a"), (np.int64(1), Name("a"))], tuple[tuple[int, str], int],
         [((1, "a"), [0, 1, 2])]),
        ([1.0, 1, True], tuple[float, int], [(1.0, [0, 1, 2])]),
    ],
    ids=["integers", "text", "tuples", "floats"],
)  # fmt: skip
@pytest.mark.parametrize("shards", [1, 5])
def test_keys_that_a_typed_coder_makes_equal_are_one_group(
    keys: list[Any], hint: Any, groups: list[Any], shards: int
) -> None:
    build = grouped([(key, i) for i, key in enumerate(keys)], hint)
    assert gathered(build, shards=shards) == groups
    assert gathered_by_beam(build) == groups


def outcome(run: Any, build: Any) -> Any:
    """What a run gives, or the type of what it raises."""
    try:
        return repr(run(build))
    except Exception as error:  # noqa: BLE001 (both runners are asked for theirs)
        return next(
            kind for kind in ("UnicodeEncodeError", "OverflowError", "other") if
            kind in f"{type(error).__name__} {error}" or kind == "other"
        )


@pytest.mark.parametrize("place", [0, 1, 2], ids=["first", "middle", "last"])
@pytest.mark.parametrize(
    ("good", "bad", "hint"),
    [
        ("a", "\ud800", tuple[str, int]),
        ("a", "\ud800", tuple[Any, Any]),
        (1, 1 << 63, tuple[int, int]),
        (1, -(1 << 63) - 1, tuple[int, int]),
    ],
    ids=["typed text", "text", "too large", "too small"],
)
def test_a_key_that_its_coder_cannot_hold_meets_the_same_end_as_on_beam(
    good: Any, bad: Any, hint: Any, place: int
) -> None:
    keys = [good, good, good]
    keys[place] = bad
    build = grouped([(key, i) for i, key in enumerate(keys)], hint)
    assert outcome(gathered, build) == outcome(gathered_by_beam, build)


@pytest.mark.parametrize("bad", [1 << 63, "\ud800"], ids=["integer", "text"])
def test_a_value_that_its_coder_cannot_hold_meets_the_same_end_as_on_beam(bad: Any) -> None:
    values = [type(bad)(), bad, type(bad)()]
    hint = tuple[str, int] if isinstance(bad, int) else tuple[str, str]
    build = grouped([("k", value) for value in values], hint)
    assert outcome(gathered, build) == outcome(gathered_by_beam, build)


def test_a_window_that_ends_within_a_millisecond_is_one_window_however_its_values_travel() -> None:
    def build(p: beam.Pipeline) -> None:
        pairs = [("k", 1), ("k", {"a": 1})]  # one in bulk, one as a row
        made = p | beam.Create([0]) | beam.FlatMap(lambda _: pairs)
        stamped = made | beam.Map(lambda pair: window.TimestampedValue(pair, 0.0016))
        windowed = stamped | beam.WindowInto(window.FixedWindows(0.0015))
        windowed | beam.GroupByKey() | beam.Map(sorted_values) | collect()

    assert gathered(build) == [("k", [1, {"a": 1}])] == gathered_by_beam(build)


def test_a_key_coder_of_the_users_own_decides_what_is_equal() -> None:
    def build(p: beam.Pipeline) -> None:
        pairs = p | beam.Create([(Caseless("A"), 1), (Caseless("a"), 2), (Caseless("b"), 3)])
        keyed = pairs | beam.Map(lambda pair: pair).with_output_types(tuple[Caseless, int])
        keyed | beam.GroupByKey() | beam.Map(text_of_group) | collect()

    assert gathered(build, shards=3) == [("a", [1, 2]), ("b", [3])]


class Caseless:
    """A word of which only the letters count, not their case."""

    def __init__(self, text: str) -> None:
        self.text = text


class CaselessCoder(coders.Coder):  # type: ignore[misc]
    """Encodes the lower-case letters."""

    def encode(self, value: Caseless) -> bytes:
        return value.text.lower().encode()

    def decode(self, encoded: bytes) -> Caseless:
        return Caseless(encoded.decode())

    def is_deterministic(self) -> bool:
        return True


coders.registry.register_coder(Caseless, CaselessCoder)


def text_of_group(pair: tuple[Caseless, Any]) -> tuple[str, list[int]]:
    return pair[0].text, sorted(pair[1])
