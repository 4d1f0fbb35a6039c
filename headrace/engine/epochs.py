"""Decides what a streaming run does next. Pure: a situation in, an action out.

Knows nothing of Spark, files or the clock: the caller performs the action.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Action(Enum):
    """What to do next."""

    FINISH = "finish"  # nothing is left: the run has ended well
    STOP = "stop"  # the run was told to stop, state stays as it is
    BEGIN = "begin"  # run the first epoch: impulses fire
    READ = "read"  # run an epoch on the rows of a bounded DataFrame
    STEP = "step"  # run an epoch on the next step of a test stream
    TICK = "tick"  # run an epoch without new data: something is due
    DRAIN = "drain"  # run an epoch in which all sources end
    WAIT = "wait"  # nothing is due yet
    STUCK = "stuck"  # nothing will ever be due, yet a watermark is held back: a defect of ours


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """How a run stands between two epochs."""

    begun: bool  # the first epoch is committed
    unread: int  # bounded DataFrames that were not read yet
    steps: int  # steps of test streams that are left
    listening: int  # streaming DataFrames that may still bring rows
    suspended: int  # streaming DataFrames that have brought all there is for now
    ended: bool  # every watermark is at the end of time
    wakeup: int | None  # earliest processing time at which something is due
    now: int
    stop_requested: bool
    drain_requested: bool
    drains_when_read: bool = False  # once DataFrames have brought all there is, the sources end
    drained: bool  # the epoch in which all sources end is committed


def next_action(s: Situation) -> Action:
    """Give the next action."""
    if s.stop_requested:
        return Action.STOP
    if not s.begun:
        return Action.BEGIN
    if s.drain_requested and not s.drained:
        return Action.DRAIN
    if not s.drained:
        if s.unread:
            return Action.READ
        if s.steps:
            return Action.STEP
    due = s.wakeup is not None and s.wakeup <= s.now
    if s.ended and s.wakeup is None and (s.drained or not s.listening):
        return Action.FINISH
    if s.suspended and not s.listening and not s.drained:
        # What is there was read: state stays for the next start, or there is to be none.
        return Action.DRAIN if s.drains_when_read else Action.STOP
    if due:
        return Action.TICK
    if s.wakeup is None and (s.drained or not s.listening):
        return Action.STUCK
    return Action.WAIT
