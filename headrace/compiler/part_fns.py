"""The DoFns that do the thread-safe parts of another DoFn; see `cut_parts`."""

from __future__ import annotations

from typing import Any

import apache_beam as beam

from headrace.plan.traits import traits


class _Part(beam.DoFn):  # type: ignore[misc]
    """Calls one method of a DoFn for each element."""

    def __init__(self, fn: beam.DoFn, method: str) -> None:
        self._fn = fn
        self._method = method

    def setup(self) -> None:
        self._fn.setup()

    def teardown(self) -> None:
        self._fn.teardown()

    def default_label(self) -> str:
        return f"{type(self._fn).__name__}.{self._method}"


@traits(state="none", selectivity="exactly_one")
class Part(_Part):
    """Calls one method of a DoFn for each element, whatever the element is."""

    def process(self, element: Any) -> Any:
        """Do the part."""
        return (getattr(self._fn, self._method)(element),)


@traits(state="none", selectivity="exactly_one", forwards_key=True)
class KeyedPart(_Part):
    """The same, before keyed state: the key decides where it is kept, and has to stay."""

    def process(self, element: Any) -> Any:
        """Do the part."""
        made = getattr(self._fn, self._method)(element)
        if not (isinstance(made, tuple) and len(made) == 2 and made[0] == element[0]):
            msg = (
                f"{self._method} made {made!r} of the key {element[0]!r}: before a stateful DoFn "
                "it must give a pair with the same key"
            )
            raise ValueError(msg)
        return (made,)
