"""Stream operators on Beam alone: any Beam runner can run them, in batch and in streaming."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.transforms.average_by import AverageBy
    from headrace.transforms.continuous_window import ContinuousWindow
    from headrace.transforms.exchange import Exchange
    from headrace.transforms.extremes import MaximizeBy, MinimizeBy
    from headrace.transforms.filter_map import FilterMap
    from headrace.transforms.left_join import LeftJoin
    from headrace.transforms.ordered_processor import OrderedProcessor
    from headrace.transforms.partition import Partition
    from headrace.transforms.reduce import Reduce, ReduceBy
    from headrace.transforms.reduce_to import ReduceTo
    from headrace.transforms.rolling_count import RollingCount
    from headrace.transforms.round_robin import RoundRobin
    from headrace.transforms.session import Session
    from headrace.transforms.tumbling_window import TumblingWindow
    from headrace.transforms.window import Window
    from headrace.transforms.window_join import WindowJoin

#: Operator -> the module that holds it; a module is imported when its operator is asked for.
_MODULES = {
    "AverageBy": "average_by",
    "ContinuousWindow": "continuous_window",
    "WindowJoin": "window_join",
    "Exchange": "exchange",
    "FilterMap": "filter_map",
    "LeftJoin": "left_join",
    "MaximizeBy": "extremes",
    "MinimizeBy": "extremes",
    "OrderedProcessor": "ordered_processor",
    "Partition": "partition",
    "Reduce": "reduce",
    "ReduceBy": "reduce",
    "ReduceTo": "reduce_to",
    "RollingCount": "rolling_count",
    "RoundRobin": "round_robin",
    "Session": "session",
    "TumblingWindow": "tumbling_window",
    "Window": "window",
}

__all__ = [
    "AverageBy",
    "ContinuousWindow",
    "WindowJoin",
    "Exchange",
    "FilterMap",
    "LeftJoin",
    "MaximizeBy",
    "MinimizeBy",
    "OrderedProcessor",
    "Partition",
    "Reduce",
    "ReduceBy",
    "ReduceTo",
    "RollingCount",
    "RoundRobin",
    "Session",
    "TumblingWindow",
    "Window",
]


def __getattr__(name: str) -> Any:
    """Import an operator when it is first asked for: the others and Beam stay unloaded."""
    if name in _MODULES:
        return getattr(import_module(f"headrace.transforms.{_MODULES[name]}"), name)
    msg = f"module 'headrace.transforms' has no attribute {name!r}"
    raise AttributeError(msg)
