"""Expressions from a grammar, as text.

The grammar is wider than what is lowered: it has operators on the wrong types, comprehensions,
lists, calls that are not known. What each expression gives is for Python to say. The element is
called `r`, and its fields are those of `lower_rows.Record`.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any


class Dice(Random):
    """What a function is drawn with.

    A single odd expression keeps a whole function on objects, so most functions have few of them.
    """

    odd = 0.0  # how much is nothing that columns compute, from 0 to 1

    def is_odd(self, share: float) -> bool:
        """Whether to do what columns mostly do not compute, of which this is the share at most."""
        return self.random() < share * self.odd


# Expressions --------------------------------------------------------------------------------------

_FIELDS = {
    "int": ["r.i", "r.j", "r.k", "r[0]", "n"],
    "float": ["r.f", "r.g", "r[3]"],
    "str": ["r.s", "r.t", "r[5]"],
    "bool": ["r.b", "r.c"],
    "bytes": ["r.y"],
    "none": ["r.t"],
}
_CONSTANTS = {
    "int": ["0", "1", "-1", "2", "3", "7", "100", "2**31", "(2**53)", "9223372036854775807",
            "LIMIT"],
    "float": ["0.0", "-0.0", "0.5", "1e300", "1.5", "float('inf')", "float('nan')", "RATE"],
    "str": ["''", "'a'", "'abc'", "'ß'", "' '", "','", "'12'", "NAME"],
    "bool": ["True", "False"],
    "bytes": ["b''", "b'a'", "b'\\xff'", "RAW"],
    "none": ["None"],
}
KINDS = ["int", "float", "str", "bool"]
_ANY = [*KINDS, "bytes", "none"]
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
    if dice.is_odd(0.05):
        kind = dice.choice([*KINDS, "none", "bytes"])  # another type than it should be
    if depth <= 0 or kind == "none" or dice.randint(0, 9) < 1:
        return dice.choice(_FIELDS[kind] if dice.random() < 0.7 else _CONSTANTS[kind])

    def inner(of: str | None = None) -> str:
        return expression(dice, of or kind, depth - 1)

    any_kind = dice.choice([*KINDS, dice.choice(_ANY)])
    if dice.is_odd(0.3):
        odd = [*_ODD[kind](dice, inner, any_kind), *_rare(dice, kind, inner, any_kind)]
        return dice.choice(odd)()
    common: list[Callable[[], str]] = [
        lambda: f"({inner()} if {inner('bool')} else {inner()})",
        lambda: f"({inner()} {dice.choice(['and', 'or'])} {inner()})",
        lambda: f"help_{kind}({inner()}, {inner(any_kind)})",
        lambda: f"help_{kind}(y={inner(any_kind)}, x={inner()})",
        lambda: f"({inner()}, {inner(any_kind)})[{dice.choice(['0', '-2'])}]",
        lambda: f"Pair({inner()}, {inner(any_kind)}).x",
        lambda: f"Pair(y={inner(any_kind)}, x={inner()})._replace(y=1)[0]",
        lambda: f"Point({inner()}).x",
        lambda: _display(dice, inner, any_kind),
    ]
    return dice.choice([*_OWN[kind](dice, inner, any_kind), *common])()


def _display(dice: Dice, inner: Any, any_kind: str) -> str:
    """A list, a dict or the element itself, looked into."""
    made: list[Callable[[], str]] = [
        lambda: f"[{inner()}, {inner(any_kind)}][{dice.choice(['0', '-2', '0:1', '7'])}]",
        lambda: f"{{'a': {inner()}, 'b': {inner(any_kind)}}}[{dice.choice(_KEYS)}]",
        lambda: f"{{'a': {inner()}}}.get({dice.choice(_KEYS)}, {inner()})",
        lambda: f"{{**NAMED, 'b': {inner(any_kind)}, 'a': {inner()}}}['a']",
        lambda: f"dict(NAMED, a={inner()}, b={inner(any_kind)})['a']",
        lambda: f"{{'a': {inner(any_kind)}, **{{'a': {inner()}}}}}['a']",
        lambda: f"list(({inner()}, {inner(any_kind)}))[0]",
        lambda: f"tuple([{inner()}, {inner(any_kind)}])[0]",
        lambda: f"({inner()} if [{inner(any_kind)}] else {inner()})",
        lambda: f"(({inner(any_kind)}, 1) and {inner()})",
        lambda: f"([] or {inner()})",
        lambda: f"FIRST(({inner()}, {inner(any_kind)}))",
        lambda: f"X(Pair({inner()}, {inner(any_kind)}))",
        lambda: f"Pair({inner()}, {inner(any_kind)})._asdict()['x']",
    ]
    return dice.choice(made)()


_KEYS = ["'a'", "'a'", "'b'", "'c'", "r.s"]


def _rare(dice: Dice, kind: str, inner: Any, any_kind: str) -> list[Callable[[], str]]:
    """What is lowered seldom or never, of any kind."""
    return [
        lambda: f"({inner()}, *({inner(any_kind)},))[0]",
        lambda: f"({inner(any_kind)}, {inner()}, {inner()})[1:][-1]",
        lambda: f"[x for x in ({inner()}, {inner()})][{dice.randint(-2, 2)}]",
        lambda: f"{{{inner(any_kind)}: {inner()}}}.get({inner(any_kind)}, {inner()})",
        lambda: f"next(iter([{inner()}]))",
        lambda: f"(lambda x: x)({inner()})",
        lambda: f"getattr(r, {dice.choice(['i', 's', 'nothing'])!r}, {inner()})",
        lambda: f"twice({inner()})",
        lambda: f"({inner()} if ({inner(any_kind)}, 1) else {inner()})",
        lambda: f"type({inner()})({inner()})",
        lambda: f"THING.{dice.choice(['limit', 'name', 'nothing'])}",
        lambda: f"keep(*({inner()}, {inner(any_kind)}))",
        lambda: f"({inner()}, {inner(any_kind)})[{dice.choice(['False', '1', '2'])}]",
    ]


def _bytes(dice: Dice, inner: Any, any_kind: str) -> list[Callable[[], str]]:
    return [
        lambda: f"({inner()} + {inner()})",
        lambda: f"{inner('str')}.encode({dice.choice(_CODECS)})",
        lambda: f"{dice.choice(['min', 'max'])}({inner()}, {inner()})",
    ]


_CODECS = ["", "'utf-8'", "'ascii'", "'ascii', 'ignore'", "'latin-1'", "'utf-8', 'replace'"]


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
        lambda: f"len({inner('bytes')})",
        lambda: f"len({dice.choice(['r', '(r, 1)', '[r]', 'TABLE'])})",
        lambda: f"len({{'a': {inner(any_kind)}}})",
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
        lambda: f"math.{dice.choice(['atan2', 'hypot', 'pow', 'copysign'])}({inner()}, {inner()})",
        lambda: f"math.{dice.choice(['cos', 'tan', 'log2', 'log10', 'expm1', 'asin'])}({inner()})",
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
        lambda: f"chr({inner('int')})",
        lambda: f"{dice.choice(['min', 'max'])}({inner()}, {inner()})",
        lambda: f"{inner('bytes')}.decode({dice.choice(_CODECS)})",
        lambda: f"ascii({inner(any_kind)})",
        lambda: f"format({inner(any_kind)}, {dice.choice(_SPECS)[1:]!r})",
        lambda: f"str.{dice.choice(['upper', 'strip', 'title'])}({inner()})",
        lambda: f"'{{0}}{{1!r:>3}}{{0}}'.format({inner(any_kind)}, {inner()})",
        lambda: f"'{{a:5}}'.format(a={inner(any_kind)})",
        lambda: f"('%5.2f|%r' % ({inner('float')}, {inner(any_kind)}))",
        lambda: f"('%x' % {inner(any_kind)})",
        lambda: f"{inner()}.join([{inner()}, {inner()}, 'x'])",
    ]


def _field(dice: Dice, inner: Any) -> str:
    kind = dice.choice(KINDS)
    plain = dice.choice(_FIELDS[kind]) if dice.random() < 0.5 else None
    found = str(plain or f"({inner(kind)})".replace("'", '"'))
    return found + str(dice.choice(_SPECS))


def _bools(dice: Dice, inner: Any, any_kind: str) -> list[Callable[[], str]]:
    number = dice.choice(["int", "float", "bool"])
    return [
        *[lambda: f"({inner(number)} {dice.choice(_COMPARE)} {inner('int')})"] * 2,
        lambda: f"({inner('float')} {dice.choice(_COMPARE)} {inner(number)})",
        lambda: f"({inner('str')} {dice.choice(_COMPARE)} {inner('str')})",
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
        lambda: f"({inner('bytes')} {dice.choice(_COMPARE)} {inner('bytes')})",
        lambda: f"({inner(any_kind)} in {dice.choice(['r', 'r', 'list(r)', 'tuple(r)'])})",
        lambda: f"({inner('str')} in {{'a': {inner(any_kind)}, '12': 1}})",
        lambda: f"(not {dice.choice(['r', '[r]', '{}', '[]', '(r,)'])})",
        lambda: f"({inner('float')} in SMALL)",
        lambda: f"({inner('str')} in ('a', {inner('str')}))",
        lambda: f"({inner(any_kind)} in {{1, 'a', None}})",
        lambda: f"(type({inner(any_kind)}) is {dice.choice(['int', 'str', 'float', 'bool'])})",
        lambda: f"math.{dice.choice(['isinf', 'isfinite'])}({inner(number)})",
        lambda: f"({inner('str')}.startswith({inner('str')}))",
        lambda: f"(not ({inner(any_kind)} or {inner(any_kind)}))",
    ]  # fmt: skip


def _odd_ints(dice: Dice, inner: Any, any_kind: str) -> list[Callable[[], str]]:
    return [
        lambda: f"sum(({inner()}, {inner()}))",
        lambda: f"{inner('bytes')}[0]",
        lambda: f"int({inner('str')}, {dice.choice(['10', '16', '0'])})",
        lambda: f"math.{dice.choice(['gcd', 'isqrt', 'factorial', 'comb'])}({inner()}, 3)",
        lambda: f"divmod({inner()}, {inner()})[{dice.randint(0, 1)}]",
        lambda: f"hash({inner()})",
        lambda: f"({inner()}).bit_length()",
        lambda: f"max(({inner()}, {inner()}), key=abs)",
        lambda: f"max({inner()}, {inner('float')})",
        lambda: f"min([{inner()}, {inner()}])",
        lambda: f"sum(x for x in ({inner()}, 2) if x > {inner()})",
        lambda: f"(n := {inner()})",
        lambda: f"len(({inner()}, {inner(any_kind)}))",
    ]  # fmt: skip


def _odd_floats(dice: Dice, inner: Any, any_kind: str) -> list[Callable[[], str]]:
    number = dice.choice(["int", "float", "bool"])
    return [
        lambda: f"divmod({inner()}, {inner(number)})[{dice.randint(0, 1)}]",
        lambda: f"math.fsum(({inner()}, {inner()}))",
        lambda: f"sum(({inner()}, {inner()}), 0.0)",
    ]  # fmt: skip


def _odd_texts(dice: Dice, inner: Any, any_kind: str) -> list[Callable[[], str]]:
    return [
        lambda: f"{inner()}.translate({{97: 'b'}})",
        lambda: f"{inner()}.join({inner()})",
        lambda: f"''.join(sorted({inner()}))",
        lambda: f"{inner()}.splitlines()[0]",
        lambda: f"re.sub('a', 'b', {inner()})",
        lambda: f"{inner()}.split({inner()})[0]",
        lambda: f"({inner()} * 2)",
    ]  # fmt: skip


def _odd_bools(dice: Dice, inner: Any, any_kind: str) -> list[Callable[[], str]]:
    return [
        lambda: f"any(x == 1 for x in (1, {inner('int')}))",
        lambda: f"({inner(any_kind)} {dice.choice(_COMPARE[:2])} {inner(any_kind)})",
        lambda: f"(({inner(any_kind)}, 1) {dice.choice(_COMPARE)} ({inner(any_kind)}, 1))",
        lambda: f"({inner(any_kind)} is {inner(any_kind)})",
        lambda: f"({inner('float')} in ({inner('float')}, 1.0, NAN))",
        lambda: f"({inner(any_kind)} in [{inner(any_kind)}])",
        lambda: f"callable({inner(any_kind)})",
        lambda: f"all(({inner()}, {inner(any_kind)}))",
        lambda: f"{inner('float')}.is_integer()",
    ]  # fmt: skip


def _odd_bytes(dice: Dice, inner: Any, any_kind: str) -> list[Callable[[], str]]:
    return [
        lambda: f"{inner()}.{dice.choice(['upper()', 'strip()', 'hex()', 'split()[0]'])}",
        lambda: f"{inner()}[{dice.randint(-1, 1)}:]",
    ]  # fmt: skip


_ASKED = ["int", "str", "(int, float)", "bool", "(bytes, str)", "type(None)", "float"]
_OWN = {"int": _ints, "float": _floats, "str": _texts, "bool": _bools, "bytes": _bytes}
_ODD = {
    "int": _odd_ints, "float": _odd_floats, "str": _odd_texts, "bool": _odd_bools,
    "bytes": _odd_bytes,
}  # fmt: skip
