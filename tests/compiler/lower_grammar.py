"""Functions from a grammar, as text, and rows at the ends of what their types hold.

The grammar is wider than what is lowered: it has operators on the wrong types, loops, handlers,
lists, calls that are not known. What each function gives is for Python to say.
"""

from __future__ import annotations

import linecache
import math
from collections.abc import Callable, Iterator
from itertools import count
from random import Random as Dice
from typing import Any, NamedTuple, Optional


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
    dice = Dice(seed)

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
_ARITHMETIC = ["+", "-", "*", "//", "%", "/", "&", "|", "^", ">>"]
#: What grows without end has a second operand that is small: Python itself would never be done.
_GROWING = ["** 2", "** 3", "** 0", "** -1", "** 0.5", "<< 1", "<< 40", "<< 63", "<< -1"]
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


def expression(dice: Dice, kind: str, depth: int) -> str:
    """An expression that gives a value of a kind, as a rule."""
    if dice.randint(0, 19) == 0:
        kind = dice.choice([*_KINDS, "none", "bytes"])  # another type than it should be
    if depth <= 0 or kind in ("none", "bytes") or dice.randint(0, 9) < 2:
        known = _FIELDS.get(kind, []) * 2 + _CONSTANTS[kind]
        return str(dice.choice(known))

    def inner(of: str | None = None) -> str:
        return expression(dice, of or kind, depth - 1)

    any_kind = dice.choice(_KINDS)
    common = [
        lambda: f"({inner()} if {inner('bool')} else {inner()})",
        lambda: f"({inner()} {dice.choice(['and', 'or'])} {inner()})",
        lambda: f"help_{kind}({inner()}, {inner(any_kind)})",
        lambda: f"({inner()}, {inner(any_kind)})[0]",
        lambda: f"[{inner()}][0]",
    ]
    made: Callable[[], str] = dice.choice([*_OWN[kind](dice, inner, any_kind), *common])
    return made()


def _ints(dice: Dice, inner: Any, any_kind: str) -> list[Callable[[], str]]:
    return [
        *[lambda: f"({inner()} {dice.choice(_ARITHMETIC)} {inner()})"] * 5,
        lambda: f"({inner()} {dice.choice(_ARITHMETIC[:5])} "
                f"{dice.choice(_CONSTANTS['int'])})",
        lambda: f"({inner('bool')} + {inner()})",
        lambda: f"({inner()} {dice.choice(_GROWING)})",
        lambda: f"(-{inner()})",
        lambda: f"(+{inner()})",
        lambda: f"(~{inner()})",
        lambda: f"abs({inner(dice.choice(['int', 'bool']))})",
        lambda: f"len({inner('str')})",
        lambda: f"int({inner(any_kind)})",
        lambda: f"round({inner('float')})",
        lambda: f"round({inner()}, {dice.randint(-3, 3)})",
        lambda: f"{dice.choice(['min', 'max'])}({inner()}, {inner()}, {inner()})",
        lambda: f"{inner('str')}.{dice.choice(_TO_INT)}",
        lambda: f"math.{dice.choice(['floor', 'ceil', 'trunc'])}({inner('float')})",
        lambda: f"TABLE[{inner('str')}]",
        lambda: f"TABLE.get({inner('str')}, {inner()})",
        lambda: f"NUMBERS.get({inner(any_kind)}, 0)",
        lambda: f"pow({inner()}, {dice.randint(-1, 3)})",
        lambda: f"ord({inner('str')})",
        lambda: f"sum(({inner()}, {inner()}))",
        lambda: f"({inner('float')} // 1)",
    ]  # fmt: skip


def _floats(dice: Dice, inner: Any, any_kind: str) -> list[Callable[[], str]]:
    number = dice.choice(["int", "float", "bool"])
    return [
        *[lambda: f"({inner()} {dice.choice(_ARITHMETIC[:6])} {inner(number)})"] * 3,
        lambda: f"({inner('int')} / {inner('int')})",
        lambda: f"({inner()} {dice.choice(_GROWING[:5])})",
        lambda: f"({inner('int')} {dice.choice(_ARITHMETIC[:6])} {inner()})",
        lambda: f"(-{inner()})",
        lambda: f"(+{inner()})",
        lambda: f"abs({inner()})",
        lambda: f"float({inner(any_kind)})",
        lambda: f"round({inner()}, {dice.randint(-3, 3)})",
        lambda: f"{dice.choice(['min', 'max'])}({inner()}, {inner()})",
        lambda: f"math.{dice.choice(['sqrt', 'log', 'exp', 'sin', 'fabs'])}({inner()})",
        lambda: f"math.fmod({inner()}, {inner(number)})",
        lambda: f"PRICES[{inner(any_kind)}]",
    ]


def _texts(dice: Dice, inner: Any, any_kind: str) -> list[Callable[[], str]]:
    places = ["", "0", "1", "2", "-1", "-2", "5"]
    return [
        *[lambda: f"{inner()}.{dice.choice(_TO_TEXT)}"] * 3,
        lambda: f"({inner()} + {inner()})",
        lambda: f"str({inner(any_kind)})",
        lambda: f"repr({inner(any_kind)})",
        lambda: f"f'{{{_field(dice, inner)}}}-{{{_field(dice, inner)}}}'",
        lambda: f"{inner()}[{dice.choice(places)}:{dice.choice(places)}]",
        lambda: f"{inner()}[{dice.choice(places)}:{dice.choice(places)}:-1]",
        lambda: f"{inner()}[{dice.randint(-2, 2)}]",
        lambda: f"('%s|%s' % ({inner(any_kind)}, {inner()}))",
        lambda: f"('%d' % {inner('int')})",
        lambda: f"'{{}}:{{:>4}}'.format({inner(any_kind)}, {inner()})",
        lambda: f"','.join(({inner()}, {inner()}))",
        lambda: f"NAMES.get({inner('int')})",
        lambda: f"({inner()} * 2)",
        lambda: f"chr({inner('int')})",
        lambda: f"{dice.choice(['min', 'max'])}({inner()}, {inner()})",
    ]


def _field(dice: Dice, inner: Any) -> str:
    kind = dice.choice(_KINDS)
    plain = dice.choice(_FIELDS[kind]) if dice.random() < 0.5 else None
    found = str(plain or f"({inner(kind)})".replace("'", '"'))
    return found + str(dice.choice(_SPECS))


def _bools(dice: Dice, inner: Any, any_kind: str) -> list[Callable[[], str]]:
    number = dice.choice(["int", "float", "bool"])
    return [
        *[lambda: f"({inner(number)} {dice.choice(_COMPARE)} {inner('int')})"] * 2,
        lambda: f"({inner('float')} {dice.choice(_COMPARE)} {inner(number)})",
        lambda: f"({inner('str')} {dice.choice(_COMPARE)} {inner('str')})",
        lambda: f"({inner(any_kind)} {dice.choice(_COMPARE[:2])} {inner(any_kind)})",
        lambda: f"({inner('int')} < {inner(number)} <= {inner('int')})",
        lambda: f"(not {inner(any_kind)})",
        lambda: f"bool({inner(any_kind)})",
        lambda: f"({inner(any_kind)} is None)",
        lambda: f"({inner(any_kind)} is not None)",
        lambda: f"({inner()} {dice.choice(['&', '|', '^'])} {inner()})",
        lambda: f"({inner(any_kind)} in (0, 1.0, 'a', None, True, 2.5))",
        lambda: f"({inner('int')} not in SMALL)",
        lambda: f"({inner('str')} in TABLE)",
        lambda: f"({inner('str')} in {inner('str')})",
        lambda: f"({inner('int')} in ({inner('int')}, {inner('int')}))",
        lambda: f"{inner('str')}.{dice.choice(_TO_BOOL)}",
        lambda: f"isinstance({inner(any_kind)}, {dice.choice(_ASKED)})",
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


def body(dice: Dice, kind: str, depth: int = 3) -> str:
    """The statements of a function of `r`, which gives one kind of value as a rule."""
    lines = ["n = r.j"]

    def made(of: str, levels: int = depth) -> str:
        return expression(dice, of, levels)

    for _ in range(dice.randint(0, 3)):
        pick = dice.randint(0, 9)
        other = dice.choice(_KINDS)
        if pick <= 2:
            lines.append(f"n = {made('int', 2)}")
        elif pick == 3:
            lines.append(f"unused = {made(other, 2)}")
        elif pick == 4:
            lines += [f"if {made('bool', 2)}:", f"    n = {made('int', 2)}"]
            if dice.random() < 0.5:
                lines += ["else:", f"    n = {made('int', 1)}"]
        elif pick == 5:
            lines += [f"if {made('bool', 2)}:", f"    return {made(kind, 1)}"]
        elif pick == 6:
            lines += [f"if (n := {made('int', 1)}) > 3:", f"    return {made(kind, 1)}"]
        elif pick == 7:
            lines.append(f"n, m = {made('int', 1)}, {made(other, 1)}")
        elif pick == 8:
            lines.append(f"n {dice.choice(['+', '*', '//', '-'])}= {made('int', 1)}")
        else:
            lines.append(dice.choice(_ODD))
    if dice.randint(0, 3) == 0:
        lines.append(f"return ({made(kind)}, {made(dice.choice(_KINDS), 2)}, r.t)")
    elif dice.randint(0, 5) == 0:
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


def function_text(seed: int) -> tuple[str, str]:
    """A form of function, and its text; the same for the same seed."""
    dice = Dice(seed)
    form = dice.choice(FORMS)
    kind = "bool" if form == "filter" else dice.choice(_KINDS)
    text = body(dice, kind)
    if form == "generator":
        lines = text.splitlines()
        asked = expression(dice, "bool", 2)
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
