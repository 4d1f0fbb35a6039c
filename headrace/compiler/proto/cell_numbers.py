"""Takes the numbers of notebook cells out of the names of steps.

Before:  [3]: win, [3]: win/Map, [4]: write
After:   win, win/Map, write

In a notebook Beam puts the number of the running cell before the names of a pipeline's outermost
steps. A cell that is run again has another number, and the pipeline must still know its state, so
the compiler never sees the numbers. Changes a proto, gives the names; knows nothing of what they
name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.plan.step_names import CELL


def names_without_cells(labels: Iterable[str]) -> dict[str, str]:
    """Give a name without a number for each label that has one.

    Labels that differ by their cells alone stay apart: in the order of the cells, the second one
    is called `win (2)`. A name that another step has already is not given.

    >>> names_without_cells(["[9]: win", "[10]: win", "[9]: write", "read"])
    {'[9]: win': 'win', '[9]: write': 'write', '[10]: win': 'win (2)'}
    """
    numbered = []
    taken = set()
    for label in labels:
        if found := CELL.match(label):
            numbered.append((int(found[1]), label, label[found.end():]))
        else:
            taken.add(label)
    names = {}
    for _, label, plain in sorted(numbered, key=lambda each: each[0]):
        name, again = plain, 1
        while name in taken:
            again += 1
            name = f"{plain} ({again})"
        taken.add(name)
        names[label] = name
    return names


def drop_cells(pipeline: Any) -> Mapping[str, str]:
    """Rename the steps of a pipeline proto; give the full names that changed, old to new."""
    transforms = pipeline.components.transforms
    outermost = [
        inner
        for root in pipeline.root_transform_ids
        for inner in (root, *transforms[root].subtransforms)
    ]
    names = names_without_cells(dict.fromkeys(transforms[each].unique_name for each in outermost))
    changed: dict[str, str] = {}
    if not names:
        return changed
    todo = [(each, label) for each in outermost if (label := transforms[each].unique_name) in names]
    while todo:
        transform_id, label = todo.pop()
        transform = transforms[transform_id]
        todo.extend((inner, label) for inner in transform.subtransforms)
        full = transform.unique_name
        if full == label or full.startswith(label + "/"):
            changed[full] = transform.unique_name = names[label] + full[len(label):]
    return changed
