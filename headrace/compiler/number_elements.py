"""Decides how order numbers are made in every stage and how they change at its ends.

Takes the laid-out stages of an ordered run, gives the same with `Stage.order` and `Port.order` set
on every way to a sink that wants its rows in order; elsewhere elements carry no numbers. See
`headrace.plan.order` for what a number is.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_fn_api_pb2, beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import translations

from headrace.compiler.proto.urns import COMBINE_COMPONENTS
from headrace.compiler.schedule import Schedule
from headrace.errors import PlanError
from headrace.plan.ids import OperatorId, StageId
from headrace.plan.names import SHARD_WRITE_URN, STAGE_READ_URN
from headrace.plan.operators import Operator
from headrace.plan.order import (
    BRANCH_BITS,
    FIRED_WIDTH,
    LAST_PHASE,
    SOURCE_WIDTH,
    SUB_BITS,
    PortOrder,
    StageOrder,
)
from headrace.plan.supersteps import Channel, ChannelKind, Port, Stage
from headrace.plan.traits import Selectivity

_AT_MOST_ONE = frozenset({Selectivity.EXACTLY_ONE, Selectivity.AT_MOST_ONE})
_PROCESS_SIZED = common_urns.sdf_components.PROCESS_SIZED_ELEMENTS_AND_RESTRICTIONS.urn
#: Window functions that put an element into one window.
_ONE_WINDOW = frozenset({
    common_urns.global_windows.urn, common_urns.fixed_windows.urn, common_urns.session_windows.urn,
})

#: What Beam calls the write of a flatten's input: the flatten's name and the input's place.
_FLATTEN_WRITE = re.compile(r"(.*)/Write/(\d+)")

#: Where elements meet: what a stage reads by one transform, or a channel that no transform reads.
_Target = tuple[str, str]


def number_elements(
    laid_out: Schedule,
    components: Any,
    operators: Mapping[OperatorId, Operator],
    sequential: Collection[OperatorId],
    is_ordered: Callable[[str], bool],
) -> Schedule:
    """Set the order of stages and ports.

    Args:
        laid_out: supersteps and channels.
        components: Beam's, for the windowing strategies.
        operators: by name.
        sequential: those that run on one shard, as their outputs cannot be traced to inputs.
        is_ordered: whether the sink of that name wants its rows in order.
    """
    return _Numbering(laid_out, components, operators, sequential, is_ordered).run()


@dataclass(slots=True)
class _Meeting:
    """A target while its writers are being found."""

    writers: list[tuple[StageId, Port]] = field(default_factory=list)
    stage_width: int = 0  # of the widest writer
    many: bool = False
    phase: int = 0

    @property
    def width(self) -> int:
        branches = BRANCH_BITS if len(self.writers) > 1 else 0
        return self.stage_width + branches + (SUB_BITS if self.many else 0)


class _Numbering:
    def __init__(
        self,
        laid_out: Schedule,
        components: Any,
        operators: Mapping[OperatorId, Operator],
        sequential: Collection[OperatorId],
        is_ordered: Callable[[str], bool],
    ) -> None:
        self._laid_out = laid_out
        self._components = components
        self._operators = operators
        self._sequential = sequential
        self._stages = [stage for superstep in laid_out.supersteps for stage in superstep.stages]
        self._targets = self._find_targets()
        self._meetings: dict[_Target, _Meeting] = defaultdict(_Meeting)
        for stage in self._stages:
            for port in stage.writes:
                self._meetings[self._targets[port.channel]].writers.append((stage.stage_id, port))
        for meeting in self._meetings.values():
            meeting.writers.sort(key=_place)
        self._wanted = self._find_wanted(is_ordered)
        self._orders: dict[StageId, StageOrder] = {}
        self._widths: dict[tuple[StageId, str], int] = {}  # of what a stage reads

    def run(self) -> Schedule:
        for stage in self._stages:
            if any(p.channel in self._wanted for p in stage.writes):
                self._number(stage)
        stages = {s.stage_id: self._with_ports(s) for s in self._stages}
        return replace(
            self._laid_out,
            supersteps=tuple(
                replace(superstep, stages=tuple(stages[s.stage_id] for s in superstep.stages))
                for superstep in self._laid_out.supersteps
            ),
            channels=tuple(
                replace(channel, order_bytes=self._order_bytes(index))
                for index, channel in enumerate(self._laid_out.channels)
            ),
        )

    def _find_targets(self) -> list[_Target]:
        found: list[_Target] = [("channel", str(i)) for i in range(len(self._laid_out.channels))]
        for stage in self._stages:
            for port in stage.reads:
                found[port.channel] = (stage.stage_id, port.transform_id)
        return found

    def _find_wanted(self, is_ordered: Callable[[str], bool]) -> set[int]:
        """Give the channels from which some way leads to a sink that wants its rows in order."""
        channels = self._laid_out.channels
        wanted = {
            i for i, c in enumerate(channels)
            if c.kind is ChannelKind.OUTPUT and is_ordered(c.label)
        }
        for stage in reversed(self._stages):  # readers before writers
            if any(port.channel in wanted for port in stage.writes):
                wanted |= {port.channel for port in stage.reads}
                wanted |= {side.channel for side in stage.side_inputs}
        return wanted

    def _number(self, stage: Stage) -> None:
        width, phase = 0, 0
        for port in stage.reads:
            channel = self._laid_out.channels[port.channel]
            if channel.kind is ChannelKind.SOURCE:
                came = SOURCE_WIDTH
            else:
                meeting = self._meetings[self._targets[port.channel]]
                came, phase = meeting.width, max(phase, meeting.phase)
            self._widths[stage.stage_id, port.transform_id] = came
            width = max(width, came)
        if self._fires(stage):
            width = max(width, FIRED_WIDTH)
            phase = min(phase + 1, LAST_PHASE - 1)
        self._orders[stage.stage_id] = StageOrder(width=width, phase=phase)
        for port in stage.writes:
            meeting = self._meetings[self._targets[port.channel]]
            meeting.stage_width = max(meeting.stage_width, width)
            meeting.phase = max(meeting.phase, phase)
            meeting.many = meeting.many or self._many(stage, port)

    def _fires(self, stage: Stage) -> bool:
        """Whether something may leave a stage that no element caused."""
        if stage.side_inputs or any(self._laid_out.channels[p.channel].groups for p in stage.reads):
            return True
        return any(
            name in self._sequential or _waits_for_time(proto) or proto.spec.urn == _PROCESS_SIZED
            for name, proto in self._transforms(stage).items()
        )

    def _transforms(self, stage: Stage) -> Mapping[str, Any]:
        descriptor = beam_fn_api_pb2.ProcessBundleDescriptor.FromString(stage.transforms)
        return dict(descriptor.transforms.items())

    def _many(self, stage: Stage, port: Port) -> bool:
        """Whether one number may leave by a port more than once."""
        transforms = self._transforms(stage)
        makers = {c: name for name, proto in transforms.items() for c in proto.outputs.values()}
        name = port.transform_id
        while True:
            proto = transforms[name]
            sides = translations.side_inputs(proto)
            mains = [c for tag, c in proto.inputs.items() if tag not in sides]
            if not mains or proto.spec.urn == STAGE_READ_URN:
                return False
            if len(mains) > 1 or any(map(self._in_several_windows, mains)):
                return True
            if proto.spec.urn != SHARD_WRITE_URN and not self._at_most_one(name, proto):
                return True
            name = makers[mains[0]]

    def _at_most_one(self, name: str, proto: Any) -> bool:
        if proto.spec.urn in COMBINE_COMPONENTS:
            return True
        operator = self._operators.get(OperatorId(name))
        return (
            operator is not None
            and name not in self._sequential
            and not _waits_for_time(proto)  # what a timer gives is not counted by the analysis
            and operator.traits.selectivity in _AT_MOST_ONE
        )

    def _in_several_windows(self, collection: str) -> bool:
        found = self._components.pcollections[collection].windowing_strategy_id
        strategy = self._components.windowing_strategies[found]
        return strategy.window_fn.urn not in _ONE_WINDOW

    def _with_ports(self, stage: Stage) -> Stage:
        order = self._orders.get(stage.stage_id)
        if order is None:
            return stage
        return replace(
            stage,
            order=order,
            reads=tuple(
                replace(
                    p,
                    order=PortOrder(
                        shift=order.width - self._widths[stage.stage_id, p.transform_id]
                    ),
                )
                for p in stage.reads
            ),
            writes=tuple(self._writer(stage.stage_id, order, p) for p in stage.writes),
        )

    def _writer(self, stage_id: StageId, order: StageOrder, port: Port) -> Port:
        if port.channel not in self._wanted:
            return port
        meeting = self._meetings[self._targets[port.channel]]
        branch = None
        if len(meeting.writers) > 1:
            branch = meeting.writers.index((stage_id, port))
            if branch >= 1 << BRANCH_BITS:
                msg = f"{len(meeting.writers)} branches meet in one place; 256 is the most in order"
                raise PlanError(msg)
        return replace(
            port,
            order=PortOrder(
                shift=meeting.stage_width - order.width, branch=branch, many=meeting.many,
                width=meeting.width,
            ),
        )

    def _order_bytes(self, index: int) -> int:
        channel: Channel = self._laid_out.channels[index]
        if index not in self._wanted or channel.kind is ChannelKind.SOURCE:
            return 0
        return (self._meetings[self._targets[index]].width + 7) // 8


def _place(writer: tuple[StageId, Port]) -> tuple[str, int, StageId]:
    """Give the place of a branch among those that meet: as the inputs of the flatten stand."""
    stage_id, port = writer
    found = _FLATTEN_WRITE.fullmatch(port.transform_id)
    if found is None:
        return port.transform_id, -1, stage_id
    return found[1], int(found[2]), stage_id


def _waits_for_time(proto: Any) -> bool:
    """Whether a transform puts something out when the watermark moves."""
    if proto.spec.urn not in translations.PAR_DO_URNS:
        return False
    payload = beam_runner_api_pb2.ParDoPayload.FromString(proto.spec.payload)
    return bool(payload.timer_family_specs or payload.requires_time_sorted_input)
