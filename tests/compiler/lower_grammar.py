"""Functions from a grammar, as text, and rows at the ends of what their types hold.

The grammar is wider than what is lowered: it has operators on the wrong types, loops, handlers,
lists, calls that are not known. What each function gives is for Python to say.
"""

from __future__ import annotations

import linecache
import math
import random
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, NamedTuple, Optional

from hypothesis import strategies as st


class Record(NamedTuple):
    """An element with a field of every kind, with and without None."""

    i: int
    j: int
    k: Optional[int]  # noqa: UP045 (as a user of an older Python writes it)
    f: float
    g: Optional[float]  # noqa: UP045
    s: str
    t: Optional[str]  # noqa: UP045
    b: bool
    c: Optional[bool]  # noqa: UP045
    y: bytes


INTS = [
    0, 1, -1, 2, 3, -3, 7, 10, 89, 100, -100, 2**31, 2**32 - 1, -(2**31), 2**53, 2**53 + 1,
    -(2**53) - 1, 2**62, 2**63 - 1, 2**63 - 2, -(2**63), -(2**63) + 1, 3_037_000_500, 10**18,
]  # fmt: skip
FLOATS = [
    0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 0.1, 1e16, 1e300, -1e300, 5e-324,
    1.7976931348623157e308, math.inf, -math.inf, math.nan, 2.0**53, 2.0**63, -(2.0**63), 9.2e18,
    1e-7, 123456.789, 2.675,
]  # fmt: skip
TEXTS = [
    "", "a", "A", "abc", "Straße", "ΑΣ", "ﬁ", "İ", "i̇", "\u0130x",
    "12", "-7", " 3 ", "1_000", "٣", "²",
    "9223372036854775807", "9223372036854775808", "1e5", "nan", "-inf", "0x1f", "a,b,c", ",",
    "\x00", "\n", "a b", "\u2028", "😀", "e\u0301", "None", "True", "%s", "{}",
]  # fmt: skip
BYTES = [b"", b"a", b"\xff", b"abc", "ß".encode()]

ROWS_PER_FUNCTION = 24


def rows(seed: int, size: int = ROWS_PER_FUNCTION) -> list[Record]:
    """Rows with the ends of every type, the same for the same seed."""
    dice = random.Random(seed)

    def maybe(values: list[Any]) -> Any:
        return None if dice.random() < 0.25 else dice.choice(values)

    return [
        Record(
            dice.choice(INTS), dice.choice(INTS[:14]), maybe(INTS), dice.choice(FLOATS),
            maybe(FLOATS), dice.choice(TEXTS), maybe(TEXTS), dice.random() < 0.5,
            maybe([True, False]), dice.choice(BYTES),
        )  # fmt: skip
        for _ in range(size)
    ]


# Expressions --------------------------------------------------------------------------------------

_FIELDS = {
    "int": ["r.i", "r.j", "r.k", "r[0]", "n"],
    "float": ["r.f", "r.g", "r[3]"],
    "str": ["r.s", "r.t", "r[5]"],
    "bool": ["r.b", "r.c"],
    "bytes": ["r.y"],
}
_CONSTANTS = {
    "int": ["0", "1", "-1", "2", "3", "7", "100", "2**31", "(2**53)", "9223372036854775807",
            "LIMIT"],
    "float": ["0.0", "-0.0", "0.5", "1e300", "1.5", "float('inf')", "float('nan')", "RATE"],
    "str": ["''", "'a'", "'abc'", "'ß'", "' '", "','", "'12'", "NAME"],
    "bool": ["True", "False"],
    "bytes": ["b''", "b'a'"],
    "none": ["None"],
}
_KINDS = ["int", "float", "str", "bool"]
_ARITHMETIC = ["+", "-", "*", "//", "%", "/", "**", "&", "|", "^", "<<", ">>"]
_COMPARE = ["==", "!=", "<", "<=", ">", ">="]
_TO_TEXT = [
    "upper()", "lower()", "strip()", "title()", "casefold()", "capitalize()", "swapcase()",
    "replace('a', 'b')", "lstrip('a')", "rstrip()", "removeprefix('a')", "zfill(4)", "center(5)",
    "ljust(4, '*')", "encode()", "split(',')[0]", "split()[-1]", "split(',', 1)[1]",
    "join(('x', 'y'))",
    "partition(',')[0]", "format(1)", "expandtabs()",
]  # fmt: skip
_TO_BOOL = [
    "startswith('a')", "endswith('')", "isdigit()", "isalpha()", "isspace()", "isupper()",
    "isnumeric()", "isidentifier()", "startswith(('a', 'b'))",
]  # fmt: skip
_TO_INT = ["find('b')", "count('a')", "index('b')", "rfind('')", "find('a', 1)"]
_SPECS = ["", ":5", ":>8", ":.2f", ":d", ":x", ":,", "!r", "!s:>6", ":e", ":08.3f"]


@st.composite
def expression(draw: Callable[..., Any], kind: str, depth: int) -> str:
    """An expression that gives a value of a kind, as a rule."""
    if draw(st.integers(0, 19)) == 0:
        kind = draw(st.sampled_from([*_KINDS, "none", "bytes"]))  # another type than it should be
    if depth <= 0 or kind in ("none", "bytes") or draw(st.integers(0, 9)) < 2:
        known = _FIELDS.get(kind, []) * 2 + _CONSTANTS[kind]
        return str(draw(st.sampled_from(known)))

    def inner(of: str | None = None) -> str:
        return str(draw(expression(of or kind, depth - 1)))

    any_kind = draw(st.sampled_from(_KINDS))
    common = [
        lambda: f"({inner()} if {inner('bool')} else {inner()})",
        lambda: f"({inner()} {draw(st.sampled_from(['and', 'or']))} {inner()})",
        lambda: f"help_{kind}({inner()}, {inner(any_kind)})",
        lambda: f"({inner()}, {inner(any_kind)})[0]",
        lambda: f"[{inner()}][0]",
    ]
    made: Callable[[], str] = draw(st.sampled_from([*_OWN[kind](draw, inner, any_kind), *common]))
    return made()


def _ints(draw: Any, inner: Any, any_kind: str) -> list[Callable[[], str]]:
    return [
        *[lambda: f"({inner()} {draw(st.sampled_from(_ARITHMETIC))} {inner()})"] * 5,
        lambda: f"({inner()} {draw(st.sampled_from(_ARITHMETIC[:5]))} "
                f"{draw(st.sampled_from(_CONSTANTS['int']))})",
        lambda: f"({inner('bool')} + {inner()})",
        lambda: f"(-{inner()})",
        lambda: f"(+{inner()})",
        lambda: f"(~{inner()})",
        lambda: f"abs({inner(draw(st.sampled_from(['int', 'bool'])))})",
        lambda: f"len({inner('str')})",
        lambda: f"int({inner(any_kind)})",
        lambda: f"round({inner('float')})",
        lambda: f"round({inner()}, {draw(st.integers(-3, 3))})",
        lambda: f"{draw(st.sampled_from(['min', 'max']))}({inner()}, {inner()}, {inner()})",
        lambda: f"{inner('str')}.{draw(st.sampled_from(_TO_INT))}",
        lambda: f"math.{draw(st.sampled_from(['floor', 'ceil', 'trunc']))}({inner('float')})",
        lambda: f"TABLE[{inner('str')}]",
        lambda: f"TABLE.get({inner('str')}, {inner()})",
        lambda: f"NUMBERS.get({inner(any_kind)}, 0)",
        lambda: f"pow({inner()}, {draw(st.integers(-1, 3))})",
        lambda: f"ord({inner('str')})",
        lambda: f"sum(({inner()}, {inner()}))",
        lambda: f"({inner('float')} // 1)",
    ]  # fmt: skip


def _floats(draw: Any, inner: Any, any_kind: str) -> list[Callable[[], str]]:
    number = draw(st.sampled_from(["int", "float", "bool"]))
    return [
        *[lambda: f"({inner()} {draw(st.sampled_from(_ARITHMETIC[:7]))} {inner(number)})"] * 3,
        lambda: f"({inner('int')} / {inner('int')})",
        lambda: f"({inner('int')} {draw(st.sampled_from(_ARITHMETIC[:7]))} {inner()})",
        lambda: f"(-{inner()})",
        lambda: f"(+{inner()})",
        lambda: f"abs({inner()})",
        lambda: f"float({inner(any_kind)})",
        lambda: f"round({inner()}, {draw(st.integers(-3, 3))})",
        lambda: f"{draw(st.sampled_from(['min', 'max']))}({inner()}, {inner()})",
        lambda: f"math.{draw(st.sampled_from(['sqrt', 'log', 'exp', 'sin', 'fabs']))}({inner()})",
        lambda: f"math.fmod({inner()}, {inner(number)})",
        lambda: f"PRICES[{inner(any_kind)}]",
    ]


def _texts(draw: Any, inner: Any, any_kind: str) -> list[Callable[[], str]]:
    places = st.sampled_from(["", "0", "1", "2", "-1", "-2", "5"])
    return [
        *[lambda: f"{inner()}.{draw(st.sampled_from(_TO_TEXT))}"] * 3,
        lambda: f"({inner()} + {inner()})",
        lambda: f"str({inner(any_kind)})",
        lambda: f"repr({inner(any_kind)})",
        lambda: f"f'{{{_field(draw, inner)}}}-{{{_field(draw, inner)}}}'",
        lambda: f"{inner()}[{draw(places)}:{draw(places)}]",
        lambda: f"{inner()}[{draw(places)}:{draw(places)}:-1]",
        lambda: f"{inner()}[{draw(st.integers(-2, 2))}]",
        lambda: f"('%s|%s' % ({inner(any_kind)}, {inner()}))",
        lambda: f"('%d' % {inner('int')})",
        lambda: f"'{{}}:{{:>4}}'.format({inner(any_kind)}, {inner()})",
        lambda: f"','.join(({inner()}, {inner()}))",
        lambda: f"NAMES.get({inner('int')})",
        lambda: f"({inner()} * 2)",
        lambda: f"chr({inner('int')})",
        lambda: f"{draw(st.sampled_from(['min', 'max']))}({inner()}, {inner()})",
    ]


def _field(draw: Any, inner: Any) -> str:
    kind = draw(st.sampled_from(_KINDS))
    plain = draw(st.sampled_from(_FIELDS[kind])) if draw(st.booleans()) else None
    found = str(plain or f"({inner(kind)})".replace("'", '"'))
    return found + str(draw(st.sampled_from(_SPECS)))


def _bools(draw: Any, inner: Any, any_kind: str) -> list[Callable[[], str]]:
    operator = st.sampled_from(_COMPARE)
    number = draw(st.sampled_from(["int", "float", "bool"]))
    return [
        *[lambda: f"({inner(number)} {draw(operator)} {inner('int')})"] * 2,
        lambda: f"({inner('float')} {draw(operator)} {inner(number)})",
        lambda: f"({inner('str')} {draw(operator)} {inner('str')})",
        lambda: f"({inner(any_kind)} {draw(st.sampled_from(_COMPARE[:2]))} {inner(any_kind)})",
        lambda: f"({inner('int')} < {inner(number)} <= {inner('int')})",
        lambda: f"(not {inner(any_kind)})",
        lambda: f"bool({inner(any_kind)})",
        lambda: f"({inner(any_kind)} is None)",
        lambda: f"({inner(any_kind)} is not None)",
        lambda: f"({inner()} {draw(st.sampled_from(['&', '|', '^']))} {inner()})",
        lambda: f"({inner(any_kind)} in (0, 1.0, 'a', None, True, 2.5))",
        lambda: f"({inner('int')} not in SMALL)",
        lambda: f"({inner('str')} in TABLE)",
        lambda: f"({inner('str')} in {inner('str')})",
        lambda: f"({inner('int')} in ({inner('int')}, {inner('int')}))",
        lambda: f"{inner('str')}.{draw(st.sampled_from(_TO_BOOL))}",
        lambda: f"isinstance({inner(any_kind)}, {draw(st.sampled_from(_ASKED))})",
        lambda: f"math.isnan({inner('float')})",
        lambda: f"({inner(any_kind)} and {inner()})",
        lambda: f"any(x == 1 for x in (1, {inner('int')}))",
    ]  # fmt: skip


_ASKED = ["int", "str", "(int, float)"]
_OWN = {"int": _ints, "float": _floats, "str": _texts, "bool": _bools}


# Functions ----------------------------------------------------------------------------------------

PRELUDE = """
import math
LIMIT = 100
RATE = 0.25
NAME = 'abc'
TABLE = {'a': 1, '12': -5, '': 9223372036854775807, 'ß': 4}
NUMBERS = {0: 7, 1: 8, 2.5: 9, None: 3, '12': 4}
NAMES = {1: 'one', 3: 'three', -1: '', 100: 'ß'}
PRICES = {0: 0.5, 1: -0.0, 'a': float('inf')}
SMALL = frozenset({0, 1, 2, 3, 2.0**53})
def help_int(x, y):
    if y:
        return x
    z = x * 3
    return z - 1
def help_float(x, y):
    return x if y else x / 3
def help_str(x, y):
    if y is None:
        return x + '?'
    else:
        return x.lower()
def help_bool(x, y):
    return not x or y is None
"""


@st.composite
def body(draw: Callable[..., Any], kind: str, depth: int = 3) -> str:
    """The statements of a function of `r`, which gives one kind of value as a rule."""
    lines = ["n = r.j"]

    def made(of: str, levels: int = depth) -> str:
        return str(draw(expression(of, levels)))

    for _ in range(draw(st.integers(0, 3))):
        pick = draw(st.integers(0, 9))
        other = draw(st.sampled_from(_KINDS))
        if pick <= 2:
            lines.append(f"n = {made('int', 2)}")
        elif pick == 3:
            lines.append(f"unused = {made(other, 2)}")
        elif pick == 4:
            lines += [f"if {made('bool', 2)}:", f"    n = {made('int', 2)}"]
            if draw(st.booleans()):
                lines += ["else:", f"    n = {made('int', 1)}"]
        elif pick == 5:
            lines += [f"if {made('bool', 2)}:", f"    return {made(kind, 1)}"]
        elif pick == 6:
            lines += [f"if (n := {made('int', 1)}) > 3:", f"    return {made(kind, 1)}"]
        elif pick == 7:
            lines.append(f"n, m = {made('int', 1)}, {made(other, 1)}")
        elif pick == 8:
            lines.append(f"n {draw(st.sampled_from(['+', '*', '//', '-']))}= {made('int', 1)}")
        else:
            lines.append(draw(st.sampled_from(_ODD)))
    if draw(st.integers(0, 3)) == 0:
        lines.append(f"return ({made(kind)}, {made(draw(st.sampled_from(_KINDS)), 2)}, r.t)")
    elif draw(st.integers(0, 5)) == 0:
        lines.append(f"return r._replace(i={made('int', 2)}, s={made('str', 2)})")
    else:
        lines.append(f"return {made(kind)}")
    return "\n".join(f"    {line}" for line in lines)


_ODD = [
    "a, b = r.s.split(','); n = len(b)",
    "a, _ = r.t.split(',', 1)",
    "if type(r) is not tuple: n = 3",
    "assert r.i != 7",
    "for x in (1, 2): n = x",
    "if r.b: raise ValueError(r.i)",
    "try: n = 1 // n\n    except ZeroDivisionError: n = 0",
    "del n",
    "xs = [r.i]; xs.append(1)",
    "n = len([x for x in r.s])",
    "pass",
    "'a text'",
    "r.s.upper()",
    "1 // r.j",
]

FORMS = ("map", "filter", "generator", "listed")


@st.composite
def function_text(draw: Callable[..., Any]) -> tuple[str, str]:
    """A form of function, and its text."""
    form = draw(st.sampled_from(FORMS))
    kind = "bool" if form == "filter" else draw(st.sampled_from(_KINDS))
    text = draw(body(kind))
    if form == "generator":
        lines = text.splitlines()
        asked = draw(expression("bool", 2))
        lines[-1] = f"    if {asked}:\n        yield {lines[-1].strip().removeprefix('return ')}"
        text = "\n".join(
            line.replace("return ", "yield ") + "\n" + line.split("return")[0] + "return"
            if "return " in line else line
            for line in lines
        )
    elif form == "listed":
        text = "\n".join(
            f"{line.split('return ')[0]}return [{line.split('return ')[1]}]"
            if "return " in line else line
            for line in text.splitlines()
        )
    return form, f"def made(r):\n{text}\n"


_numbers: Iterator[int] = count()


def compiled(text: str) -> Callable[[Any], Any]:
    """The function of a text, which can be read again as if it stood in a file."""
    name = f"<generated {next(_numbers)}>"
    whole = PRELUDE + text
    linecache.cache[name] = (len(whole), None, whole.splitlines(keepends=True), name)
    globals_: dict[str, Any] = {"__name__": "generated"}
    exec(compile(whole, name, "exec"), globals_)
    made: Callable[[Any], Any] = globals_["made"]
    return made
