"""Says in a few words what a streaming DataFrame reads, so that two inputs can be told apart."""

from __future__ import annotations

import os
import re
from typing import Any

#: Options that decide what is read, not how fast or from when on.
_WHAT = ("path", "subscribe", "subscribepattern", "assign", "topic", "table", "streamname")


def input_of(frame: Any) -> str:
    """Describe the sources of a streaming DataFrame, such as `FileSource[/data/bids]`."""
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()  # noqa: SLF001 (no other door)
    texts = (_words(leaves.apply(at)) for at in range(leaves.size()))
    return ", ".join(sorted(text for text in texts if text))


def _words(leaf: Any) -> str:
    kind = leaf.getClass().getSimpleName()
    if kind == "StreamingRelation":
        return same_path(str(leaf.toString()))
    if kind != "StreamingRelationV2":
        return ""  # part of the query, but not what flows: a table it is joined with
    options = leaf.extraOptions()
    found = [f"{name}={options.get(name)}" for name in _WHAT if options.containsKey(name)]
    return f"{leaf.sourceName()}[{', '.join(found)}]"


def same_path(text: str) -> str:
    """Give files of this machine by their full path, however they were given.

    >>> same_path("FileSource[file:///data/bids/]"), same_path("FileSource[s3a://b/bids]")
    ('FileSource[/data/bids]', 'FileSource[s3a://b/bids]')
    """
    path = text.removeprefix("FileSource[").removesuffix("]")
    if not text.startswith("FileSource[") or re.match(r"(?!file:)\w+:", path):
        return text
    return f"FileSource[{os.path.abspath(re.sub('^file:/*', '/', path))}]"
