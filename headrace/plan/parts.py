"""The mark by which a DoFn names its thread-safe parts, before and after its critical section.

Finds the mark that `headrace.thread_safe` left on a class. Decides nothing: the compiler cuts the
step in pieces.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Of a class: its parts.
PARTS_ATTRIBUTE = "_headrace_parts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Which methods of a DoFn may run anywhere, and what is left without them."""

    before: str  # of the element; empty: there is none
    after: str  # of each output; empty: there is none
    critical: type  # the class as it was written: its `process` calls neither


def parts_of(dofn: object) -> Parts | None:
    """Give the parts that a DoFn's class names.

    Not those of a base: a subclass may have methods of its own, which cutting would lose.
    """
    found = vars(type(dofn)).get(PARTS_ATTRIBUTE)
    return found if isinstance(found, Parts) else None
