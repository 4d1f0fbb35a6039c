"""Takes the values of a sink's columns out of elements, whatever class they are of.

Decides once per class; refuses, by name, elements whose fields are not the columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter

from headrace.errors import ColumnTypeError
from headrace.worker.beam_types import Value


class Getters(dict[type, Callable[[Value], Iterable[Value]]]):
    """For each class of elements, the function that gives the values of the columns."""

    def __init__(self, name: str, columns: list[str]) -> None:
        super().__init__()
        self._name, self._columns = name, columns

    def __missing__(self, kind: type) -> Callable[[Value], Iterable[Value]]:
        """Decide once per class."""
        self[kind] = getter = self._getter(kind)
        return getter

    def _getter(self, kind: type) -> Callable[[Value], Iterable[Value]]:
        columns = self._columns
        if issubclass(kind, dict):
            return self._from_dict
        named = getattr(kind, "_fields", None) or getattr(kind, "__dataclass_fields__", None)
        if kind.__module__ == "apache_beam.pvalue" and kind.__name__ == "Row":
            return self._from_row
        if named is not None:
            strange = set(named) ^ set(columns)
            if strange:
                self._differ(strange)
            if issubclass(kind, tuple) and list(named) == columns:
                return lambda value: value  # a tuple that is the row already
            if len(columns) == 1:
                only = columns[0]
                return lambda value: (getattr(value, only),)
            return attrgetter(*columns)
        if issubclass(kind, tuple | list):
            return self._from_tuple
        if len(columns) == 1:
            return lambda value: (value,)
        msg = f"{self._name}: an element of type {kind.__qualname__} has no fields"
        raise ColumnTypeError(msg)

    def _from_dict(self, value: dict[str, Value]) -> Iterable[Value]:
        strange = value.keys() - set(self._columns)
        if strange:
            self._differ(strange)
        return tuple(map(value.get, self._columns))

    def _from_row(self, value: Value) -> Iterable[Value]:
        return self._from_dict(value.as_dict())

    def _from_tuple(self, value: Value) -> Value:
        if len(value) != len(self._columns):
            msg = (
                f"{self._name}: an element has {len(value)} fields, "
                f"the schema has {len(self._columns)} columns"
            )
            raise ColumnTypeError(msg)
        return value

    def _differ(self, names: Iterable[Value]) -> None:
        shown = ", ".join(sorted(map(repr, names)))
        msg = f"{self._name}: the element and the schema do not share {shown}"
        raise ColumnTypeError(msg)
