"""Names of steps without what changes from one start of the same pipeline to the next.

Beam names an unnamed function after the line where it stands, which any edit above it moves; in a
notebook after its cell, whose file is named by the cell's text or number; and puts the number of
the cell before the outermost steps. Pure functions of names.
"""

from __future__ import annotations

import re

#: Before an outermost step that was built in a notebook: `[3]: win`.
CELL = re.compile(r"\[(\d+)\]: (?=.)", re.DOTALL)

#: IPython calls a cell `<ipython-input-3-0a1b2c3d4e5f>` in a terminal and `/tmp/.../271828.py` in
#: a notebook's kernel.
_LAMBDA = re.compile(r"<lambda at (?:<ipython-input-[^<>]*>|\d+\.py):\d+>")
_LAMBDA_LINE = re.compile(r"(<lambda at [^<>]*?):\d+>")


def plain_step(name: str) -> str:
    """Give the name under which a step is known again.

    >>> plain_step("[3]: count/Map(<lambda at words.py:12>)")
    'count/Map(<lambda at words.py>)'
    >>> plain_step("Map(<lambda at 2701508860.py:12>)")
    'Map(<lambda at a cell>)'
    """
    if found := CELL.match(name):
        name = name[found.end():]
    return _LAMBDA_LINE.sub(r"\1>", _LAMBDA.sub("<lambda at a cell>", name))
