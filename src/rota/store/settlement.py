"""The change that a settlement makes to the row of its job, and the settlement of an attempt whose node died. For both
stores."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from rota.model.error_groups import group_of, set_aside
from rota.model.lifecycle import TERMINAL, JobEvent, State, step
from rota.model.outcome import CrashRule, Ending, Problem, Settlement
from rota.store.values import Topic

# Events after which a job runs again; a job that was asked to stop ends instead.
_COMES_BACK = {
    JobEvent.RETRY,
    JobEvent.SNOOZE,
    JobEvent.INTERRUPT,
    JobEvent.RECOVER,
    JobEvent.BACK_OFF,
    JobEvent.HAND_BACK,
}
_KEEPS_TIME = {JobEvent.INTERRUPT, JobEvent.HAND_BACK, JobEvent.RECOVER}


class Move(NamedTuple):
    """The new state of the job, the increments of its counters, and the record of the ended attempt."""

    ending: str
    exit_code: int | None
    error: str | None
    result: str | None
    state: State
    delay: int | None  # None: rank and time stay as they are
    failures: int
    crashes: int
    interruptions: int
    reason: str | None
    terminal: bool
    usage: str | None
    error_group: str | None = None

    @property
    def topics(self) -> set[Topic]:
        rings = {State.SCHEDULED: Topic.DUE, State.READY: Topic.READY}
        return {Topic.NEWS, rings[self.state]} if self.state in rings else {Topic.NEWS}


def move(settlement: Settlement, cancel: str | None) -> Move:
    """`cancel`: the job was asked to stop meanwhile, for this reason."""
    event, reason = settlement.event, settlement.reason
    if cancel is not None and event in _COMES_BACK:
        event, reason = JobEvent.CANCEL, cancel
    state = step(State.RUNNING, event)
    delay = settlement.delay if state is State.SCHEDULED and event not in _KEEPS_TIME else None
    error = None if settlement.error is None else msgspec.json.encode(settlement.error).decode()
    usage = None if settlement.usage is None else msgspec.json.encode(settlement.usage).decode()
    return Move(
        settlement.ending, settlement.exit_code, error, settlement.result,
        state, delay, settlement.failures, settlement.crashes, settlement.interruptions, reason, state in TERMINAL,
        usage,
    )  # fmt: skip


def failed(moved: Move, settlement: Settlement, task: str) -> Move:
    """The move of a job that failed for good, with the group of its error."""
    return moved._replace(error_group=group_of(task, settlement.error or set_aside(moved.reason)))


def crash(job: str, fence: int, event: JobEvent, why: str, rule: CrashRule) -> Settlement:
    if event is JobEvent.INTERRUPT:
        return Settlement(job, fence, event, Ending.INTERRUPTED, interruptions=1, reason=why)
    problem = Problem("rota.Crash", why)
    if event is JobEvent.QUARANTINE:
        problem = Problem("rota.Crash", f"{why}; {rule.limit} nodes have died under this job")
    return Settlement(
        job, fence, event, Ending.CRASHED, delay=rule.delay, error=problem, reason=problem.message, crashes=1
    )
