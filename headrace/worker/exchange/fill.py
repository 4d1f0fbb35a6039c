"""Says when a writer has gathered enough to ship it, from what it shipped before."""

from __future__ import annotations

_FIRST = 1_000
_LEAST = 64


class Fill:
    """How many elements are gathered: begins small, and adapts to their size.

    Args:
        target_bytes: what is shipped at once, about.
        most: so many elements at most.
    """

    def __init__(self, target_bytes: int, most: int) -> None:
        self._target = target_bytes
        self._most = most
        self.limit = _FIRST
        self._text = 0

    def is_full(self, elements: int, text: int) -> bool:
        """Take note of more bytes of text; say whether what is gathered is enough."""
        self._text += text
        return elements >= self.limit or self._text >= self._target

    def shipped(self, elements: int, size: int) -> None:
        """Take note of what was shipped: gather as many next time as fill the target."""
        if size * 2 < self._target:
            self.limit = min(self.limit * 4, self._most)
        elif size > self._target * 2:
            self.limit = max(_LEAST, int(elements * self._target / size))
        self._text = 0
