"""What `state show` prints of user state is what Beam's coders wrote."""

from __future__ import annotations

from typing import Any

import pytest
from apache_beam import coders
from apache_beam.portability.api import beam_runner_api_pb2 as beam_pb
from apache_beam.runners.pipeline_context import PipelineContext
from apache_beam.transforms.window import GlobalWindows
from hypothesis import given
from hypothesis import strategies as st

from headrace.compiler.ingest import CoderFingerprints
from headrace.engine.checkpoint.decoding import UnknownFormatError, described, values
from headrace.engine.checkpoint.identity import StageFacts
from headrace.state.layout import Kind, name, part

NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)
PLAIN = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner)
    | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
CASES = {
    "varint": (coders.VarIntCoder(), NUMBERS),
    "bool": (coders.BooleanCoder(), st.booleans()),
    "double": (coders.FloatCoder(), st.floats(allow_nan=False)),
    "bytes": (coders.BytesCoder(), st.binary()),
    "text": (coders.StrUtf8Coder(), st.text()),
    "pair": (
        coders.TupleCoder((coders.StrUtf8Coder(), coders.VarIntCoder())),
        st.tuples(st.text(), NUMBERS),
    ),
    "maybe": (coders.NullableCoder(coders.VarIntCoder()), st.none() | NUMBERS),
    "many": (coders.IterableCoder(coders.StrUtf8Coder()), st.lists(st.text(), max_size=4)),
    "anything plain": (coders.FastPrimitivesCoder(), PLAIN),
}


def print_of(coder: Any) -> str:
    context = PipelineContext()
    known = context.coders.get_id(coder)
    return CoderFingerprints(beam_pb.Components(coders=context.to_runner_api().coders)).whole(known)


@pytest.mark.parametrize("case", CASES)
@given(data=st.data())
def test_values_are_read_back_as_beam_wrote_them(case: str, data: Any) -> None:
    coder, strategy = CASES[case]
    wanted = data.draw(st.lists(strategy, max_size=3))
    encode = coder.get_impl().encode_nested
    assert values(print_of(coder), b"".join(map(encode, wanted))) == wanted


@given(st.binary(max_size=40), st.sampled_from(sorted(CASES)))
def test_rubbish_is_refused_or_read_and_never_run(data: bytes, case: str) -> None:
    try:
        values(print_of(CASES[case][0]), data)
    except (UnknownFormatError, TypeError, MemoryError):
        pass


class Mine:
    """A class of the user's."""

    def __reduce__(self) -> Any:
        return pytest.fail, ("it was unpickled",)


def test_an_object_is_not_unpickled() -> None:
    coder = coders.FastPrimitivesCoder()
    with pytest.raises(UnknownFormatError, match="object of a class"):
        values(print_of(coder), coder.get_impl().encode_nested(Mine()))


STAGE = StageFacts(
    number=1, name="Sum", superstep=1, operators=("Sum",),
    state={
        "key coder": "string_utf8", "cell total": "read_modify_write_spec<varint>",
        "cell seen": "bag_spec<string_utf8>", "cell rows": "ordered_list_spec<varint>",
        "cell own": "read_modify_write_spec<beam:coder:pickled_python:v1#0>",
    },
)  # fmt: skip
WINDOW = GlobalWindows().get_window_coder().encode(GlobalWindows.windowed_value(0).windows[0])


def row(cell: str, *more: bytes) -> bytes:
    return name(Kind.CELL, 1, 7, b"S" * 8, part(b"\x04mill"), part(WINDOW), part(cell.encode()),
                *more)  # fmt: skip


@pytest.mark.parametrize(("cell", "value", "shown"), [
    ("total", b"\x05", "key 'mill'  cell total = 5"),
    ("seen", b"\x01a\x01b", "key 'mill'  cell seen = ['a', 'b']"),
    ("own", b"abc", "key 'mill'  cell own"),
    ("rows", b"\x01", "key 'mill'  cell rows"),
    ("torn", b"\x01", "key 'mill'  cell torn"),
])  # fmt: skip
def test_a_cell_is_shown_with_its_key_and_values(cell: str, value: bytes, shown: str) -> None:
    assert described(STAGE, row(cell), bytes(4) + value) == shown


def test_a_cell_in_pieces_says_so_and_a_long_key_is_left_out() -> None:
    assert described(STAGE, row("seen", bytes(4)), b"\x01a") == "key 'mill'  cell seen (part of it)"
    assert described(STAGE, row("seen"), b"\0\0\0\1") == "key 'mill'  cell seen (part of it)"
    long = name(Kind.CELL, 1, 7, b"S" * 8, part(b"x" * 200), part(WINDOW), part(b"total"))
    assert described(STAGE, long, bytes(4)) == ""


def test_a_timer_is_shown_with_its_key() -> None:
    timer = name(Kind.TIMER_EVENT, 1, 7, b"S" * 8, part(b"\x04mill"), part(WINDOW), part(b"t"),
                 time=5)  # fmt: skip
    assert described(STAGE, timer, b"") == "key 'mill'"
