"""The outcomes of an attempt, as values, and their consequences for the job.

An executor returns an `Outcome`; `settle` turns it into a `Settlement`, the one write that ends the attempt. Nothing
here reads a clock: waits are durations, and the store counts them from its own clock.
"""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import assert_never

import msgspec

from rota.model.lifecycle import JobEvent
from rota.model.retry import Retry
from rota.model.times import Duration, as_timedelta

# The names of a timeout in retry rules: rota's own, and Python's.
TIMEOUT = ("rota.Timeout", "Timeout", "builtins.TimeoutError", "TimeoutError")


class Ending(StrEnum):
    """The outcome of an attempt as history keeps it."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    SNOOZED = "snoozed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    CRASHED = "crashed"
    SET_ASIDE = "set_aside"


CUT_MARK = "\n...\n"  # where the middle of a long text was left out


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error as it is kept: `type` for machines, `message` for people, `trace` for developers."""

    type: str
    message: str
    trace: str | None = None


class Succeeded(msgspec.Struct, frozen=True, tag=True):
    result: str = "null"  # JSON
    exit_code: int | None = None


class Failed(msgspec.Struct, frozen=True, tag=True):
    problem: Problem
    errors: tuple[str, ...] = ()  # names that retry rules may match, nearest first
    fatal: bool = False
    retry_in: Duration | None = None  # the task named its own wait
    exit_code: int | None = None


class TimedOut(msgspec.Struct, frozen=True, tag=True):
    problem: Problem
    exit_code: int | None = None
    fatal: bool = False  # its work could not be stopped: another attempt would run beside it


class Snoozed(msgspec.Struct, frozen=True, tag=True):
    delay: Duration
    message: str


class Cancelled(msgspec.Struct, frozen=True, tag=True):
    reason: str
    exit_code: int | None = None


class Interrupted(msgspec.Struct, frozen=True, tag=True):
    reason: str
    exit_code: int | None = None


class SetAside(msgspec.Struct, frozen=True, tag=True):
    """The row could not be run at all: unknown task, broken payload."""

    problem: Problem


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, rename={"wall_time": "wall", "cpu_time": "cpu"}):
    """The resources that an attempt used, and its isolation. 0: not known. Stores keep it as JSON."""

    wall_time: Duration = 0
    cpu_time: Duration = 0
    memory: int = 0  # bytes, at its peak
    isolation: tuple[str, ...] = ()

    @property
    def wall(self) -> timedelta:
        """From start to end."""
        return as_timedelta(self.wall_time)

    @property
    def cpu(self) -> timedelta:
        return as_timedelta(self.cpu_time)


class Crashed(msgspec.Struct, frozen=True, tag=True):
    """The process of the attempt died. Crashes are counted apart from failures: the job is often not the cause."""

    problem: Problem


Outcome = Succeeded | Failed | TimedOut | Snoozed | Cancelled | Interrupted | SetAside | Crashed


class Settlement(msgspec.Struct, frozen=True):
    """The write that ends one attempt: carried to the store with its fence, answered with a `Verdict`."""

    job_id: str
    fence: int
    event: JobEvent
    ending: Ending
    delay: Duration = 0
    failures: int = 0  # added to the job's count of failures
    interruptions: int = 0
    exit_code: int | None = None
    result: str | None = None
    error: Problem | None = None
    reason: str | None = None
    crashes: int = 0
    usage: Usage | None = None
    saved: bool = False  # there is a saved state, which a success deletes


class CrashRule(msgspec.Struct, frozen=True):
    """The consequence of a crash of a node or function process. After the first crash the job restarts at once: most
    crashes are not caused by the job."""

    limit: int = 3  # the crash that sends the job to the dead letters
    delay: Duration = 5_000_000  # before the next attempt, from the second crash on

    def after_crash(self, crashes: int) -> JobEvent:
        """The event of the `crashes`-th crash."""
        if crashes >= self.limit:
            return JobEvent.QUARANTINE
        return JobEvent.RECOVER if crashes == 1 else JobEvent.BACK_OFF


def settle(
    job_id: str,
    fence: int,
    retry: Retry,
    failures: int,
    outcome: Outcome,
    chance: float,
    crashes: int = 0,
    rule: CrashRule = CrashRule(),  # noqa: B008 - a value
) -> Settlement:
    """The settlement of this outcome, for a job with `failures` failures and `crashes` crashes before it."""
    match outcome:
        case Succeeded(result, code):
            return Settlement(job_id, fence, JobEvent.SUCCEED, Ending.SUCCEEDED, exit_code=code, result=result)
        case Failed(problem, errors, fatal, retry_in, code):
            wait = None if fatal else retry.after_failure(failures + 1, errors, chance)
            if wait is not None and retry_in is not None:
                wait = retry_in
            return _failure(job_id, fence, Ending.FAILED, problem, wait, code)
        case TimedOut(problem, code, fatal):
            wait = None if fatal else retry.after_failure(failures + 1, TIMEOUT, chance)
            return _failure(job_id, fence, Ending.TIMED_OUT, problem, wait, code)
        case Snoozed(delay, message):
            return Settlement(job_id, fence, JobEvent.SNOOZE, Ending.SNOOZED, delay=delay, reason=message)
        case Cancelled(reason, code):
            return Settlement(job_id, fence, JobEvent.CANCEL, Ending.CANCELLED, exit_code=code, reason=reason)
        case Interrupted(reason, code):
            return Settlement(
                job_id, fence, JobEvent.INTERRUPT, Ending.INTERRUPTED, interruptions=1, exit_code=code, reason=reason
            )
        case SetAside(problem):
            return Settlement(
                job_id, fence, JobEvent.SET_ASIDE, Ending.SET_ASIDE, error=problem, reason=problem.message
            )
        case Crashed(problem):
            return _crash(job_id, fence, problem, crashes + 1, rule)
        case _:
            assert_never(outcome)


def _failure(
    job_id: str, fence: int, ending: Ending, problem: Problem, wait: Duration | None, code: int | None
) -> Settlement:
    event = JobEvent.FAIL if wait is None else JobEvent.RETRY
    return Settlement(
        job_id, fence, event, ending, delay=wait or 0, failures=1, exit_code=code, error=problem, reason=problem.message
    )


def _crash(job_id: str, fence: int, problem: Problem, crashes: int, rule: CrashRule) -> Settlement:
    event = rule.after_crash(crashes)
    if event is JobEvent.QUARANTINE:
        text = f"{problem.message}; that was crash number {crashes} of this job"
        problem = Problem(problem.type, text, problem.trace)
    wait = rule.delay if event is JobEvent.BACK_OFF else 0
    return Settlement(job_id, fence, event, Ending.CRASHED, wait, error=problem, reason=problem.message, crashes=1)
