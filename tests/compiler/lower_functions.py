"""Whole functions from a grammar, as text, and the transforms that run them.

What they compute comes from `lower_grammar`, what they are given from `lower_rows`. They come in
all forms in which a user can hand a function to Beam.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any, NamedTuple

from tests.compiler.lower_grammar import KINDS as RESULTS
from tests.compiler.lower_grammar import Dice, expression
from tests.compiler.lower_rows import KINDS, WEIGHTS, Kind

PRELUDE = """
import dataclasses, functools, math, operator, re
from decimal import Decimal
import apache_beam as beam
from tests.compiler.lower_rows import Pair, Point
LIMIT = 100
RATE = 0.25
NAME = 'abc'
RAW = b'abc'
NAN = float('nan')
TABLE = {'a': 1, '12': -5, '': 9223372036854775807, 'ß': 4}
NUMBERS = {0: 7, 1: 8, 2.5: 9, None: 3, '12': 4}
NAMES = {1: 'one', 3: 'three', -1: '', 100: 'ß'}
PRICES = {0: 0.5, 1: -0.0, 'a': float('inf')}
SMALL = frozenset({0, 1, 2, 3, 2.0**53})
NAMED = {'a': 1, 'z': 'z'}
FIRST, X = operator.itemgetter(0), operator.attrgetter('x')
class Thing:
    limit = 3
    def __init__(self):
        self.name = 'thing'
THING = Thing()
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
def help_bytes(x, y=b''):
    return x + b'!'
def keep(*args):
    return args[0]
def twice(x):
    return keep(x) if x else (x if x is None else x + x)
"""


def body(dice: Dice, kind: str) -> list[str]:
    """The statements of a function of `r`, which gives one kind of value as a rule."""
    lines = ["n = r.j"]
    depth = dice.randint(1, 3)

    def made(of: str, levels: int = depth) -> str:
        return expression(dice, of, min(levels, depth))

    for _ in range(dice.randint(0, 3)):
        pick = 11 if dice.is_odd(0.3) else dice.randint(0, 10)
        other = dice.choice(RESULTS)
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
        elif pick == 9:
            lines += [
                f"if {made('bool', 1)}:", f"    if {made(other, 1)}:",
                f"        n = {made('int', 1)}", "    else:", f"        return {made(kind, 1)}",
            ]  # fmt: skip
        elif pick == 10:
            lines.append(f"assert {made('bool', 2)}, {made('str', 1)}")
        else:
            lines += dice.choice(_ODD).split("\n")
    return [*lines, f"return {_result(dice, kind, made)}"]


def _result(dice: Dice, kind: str, made: Callable[..., str]) -> str:
    other = dice.choice(RESULTS)
    match dice.randint(0, 15):
        case 0 | 1 | 2:
            return f"({made(kind)}, {made(other, 2)}, r.t)"
        case 3:
            return f"r._replace(i={made('int', 2)}, s={made('str', 2)})"
        case 4:
            return f"Pair({made(kind)}, (r, {made(other, 1)}))"
        case 5:
            return f"beam.Row(a={made(kind)}, b=Point({made(other, 2)}))"
        case 6:
            return f"(r.s, ({made(kind)},)) + ({made(other, 1)}, )"
        case 7:
            return f"{{'a': {made(kind)}, 'b': [{made(other, 2)}, r], **NAMED}}"
        case 8:
            return f"[{made(kind)}, {{'x': {made(other, 1)}}}]"
        case 9:
            return f"{{**r._asdict(), 'i': {made(kind)}}}"
        case 10:
            more = f"[{{'a': {made(kind)}}}, dict(a=r.s)]"
            return dice.choice([more, f"dataclasses.asdict(r)['{dice.choice('ist')}']"])
        case _:
            return made(kind)


_ODD = [
    "a, b = r.s.split(','); n = len(b)",
    "a, _ = r.t.split(',', 1)",
    "if type(r) is not tuple: n = 3",
    "assert r.i != 7",
    "for x in (1, 2): n = x",
    "for x in (r.i, 2): n += x",
    "if r.b: raise ValueError(r.i)",
    "try: n = 1 // n\nexcept ZeroDivisionError: n = 0",
    "del n",
    "xs = [r.i]; xs.append(1)",
    "n = len([x for x in r.s])",
    "pass",
    "'a text'",
    "r.s.upper()",
    "1 // r.j",
    "match r.j:\n    case 1: n = 2\n    case _: n = 3",
    "a, (b, n) = r.s, (r.t, r.i)",
    "a = b = r.i; n = a + b",
    "while n > 10: n //= 7",
    "def inside(x): return x + 1\nn = inside(n)",
    "n = help_int(r.i, y=r.k)",
    "x, *y = (r.i, r.j, r.s); n = x",
    "n = Decimal(r.i)",
    "with open('/nowhere') as f: n = 1",
    "n: int = r.i if r.c else r.j",
    "global LIMIT",
    "THING.limit = 3",
]

FORMS = (
    "map", "map", "lambda", "filter", "generator", "listed", "given", "partial", "method",
    "callable", "dofn", "spread",
)  # fmt: skip


class Made(NamedTuple):
    """A function."""

    form: str
    kind: Kind  # of its elements
    text: str


def function_of(seed: int) -> Made:
    """A function; the same for the same seed."""
    dice = Dice(seed)
    dice.odd = dice.choice([0.0, 0.0, 0.2, 1.0])
    form = dice.choice(FORMS)
    (name,) = dice.choices(list(KINDS), WEIGHTS)
    kind = KINDS["tuple" if form == "spread" else name]
    result = "bool" if form == "filter" else dice.choice([*RESULTS, dice.choice(["bytes", "bool"])])
    if form == "lambda":
        made = partial(expression, dice)
        text = f"made = lambda r, n=7: {_result(dice, result, lambda of, d=3: made(of, d))}\n"
    else:
        text = _whole(dice, form, body(dice, result))
    return Made(form, kind, _with_fields(text, form, kind))


def _whole(dice: Dice, form: str, lines: list[str]) -> str:
    if form in ("generator", "dofn"):
        lines = _yielding(dice, lines)
    elif form == "listed":
        lines = [re.sub(r"\breturn (.*)$", r"return [\1]", line) for line in lines]
        if dice.random() < 0.3:
            lines[-1] += f" if {expression(dice, 'bool', 1)} else []"
    head, more = {
        "given": ("def made(r, m, *, n=3):", ""),
        "partial": ("def whole(m, r, n):", "made = functools.partial(whole, 7, n=-2)\n"),
        "method": ("def made(self, r):", "made = Held(5).made\n"),
        "callable": ("def __call__(self, r):", "made = Held(5)\n"),
        "dofn": ("def process(self, r):", "made = Held(5)\n"),
        "spread": ("def made(i, j, k, f, g, s, t, b, c, y):", ""),
    }.get(form, ("def made(r):", ""))
    if form in ("given", "partial"):
        lines = [line.replace("n = r.j", "n = r.j + m + n") for line in lines]
    if form not in ("method", "callable", "dofn"):
        return "\n".join([head, *(f"    {line}" for line in lines)]) + f"\n{more}"
    lines = [line.replace("LIMIT", "self.limit").replace("TABLE", "self.table") for line in lines]
    base = "beam.DoFn" if form == "dofn" else "object"
    return "\n".join([
        f"class Held({base}):",
        "    def __init__(self, limit):",
        "        self.limit = limit",
        "        self.table = {'a': limit, 'b': 2}",
        f"    {head}",
        *(f"        {line}" for line in lines),
    ]) + f"\n{more}"  # fmt: skip


def _yielding(dice: Dice, lines: list[str]) -> list[str]:
    asked = expression(dice, "bool", 2)
    *first, last = lines
    found: list[str] = []
    for line in first:
        indent = line[: len(line) - len(line.lstrip())]
        before, returns, value = line.partition("return ")
        found += [f"{before}yield {value}", f"{indent}return"] if returns else [line]
    return [*found, f"if {asked}:", f"    yield {last.removeprefix('return ')}"]


def _with_fields(text: str, form: str, kind: Kind) -> str:
    """The text for elements of a kind, which may read their fields in another way."""
    if form == "spread":
        text = re.sub(r"\br\[(\d)\]", lambda m: "ijkfgstbcy"[int(m[1])], text)
        return re.sub(r"\br\.([ijkfgstbcy])\b", r"\1", text)
    return re.sub(r"\br\.([ijkfgstbcy])\b", lambda m: kind.fields[m[1]], text)


_numbers: Iterator[int] = count()


def compiled(text: str) -> Any:
    """What a text calls `made`, which can be read again as if it stood in a file."""
    name = f"<generated {next(_numbers)}>"
    whole = PRELUDE + text
    linecache.cache[name] = (len(whole), None, whole.splitlines(keepends=True), name)
    globals_: dict[str, Any] = {"__name__": "generated"}
    exec(compile(whole, name, "exec"), globals_)
    return globals_["made"]
