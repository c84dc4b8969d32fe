"""Turns the end of a function, a result or an exception, into an outcome.

Used in the process where the function ran: encoding a large result must not hold up the node's loop.
"""

from __future__ import annotations

import traceback
from typing import Any

from rota.errors import InvalidInput
from rota.model.outcome import CUT_MARK, Cancelled, Failed, Outcome, Problem, Snoozed, Succeeded
from rota.model.retry import names_of, qualified
from rota.model.times import duration
from rota.signals import Cancel, Fatal, RetryAfter, Snooze
from rota.tasks.encoding import to_json

LONGEST_MESSAGE = 2_000
LONGEST_TRACE = 20_000
_CALLERS = ("rota.", "asyncio.")


def succeeded(value: Any, max_result: int) -> Outcome:
    if value is None:
        return Succeeded()
    try:
        return Succeeded(to_json(value, max_result, "result"))
    except InvalidInput as wrong:
        # Fatal: the work was done, and a repeat would give the same bad result.
        return Failed(Problem("rota.BadResult", str(wrong)), fatal=True)


def judge(error: BaseException) -> Outcome:
    """The outcome of an attempt that raised. The exception may be of any class: even if reading its attributes raises,
    the attempt must end."""
    try:
        return _judge(error)
    except BaseException as worse:
        text = f"its exception can't be told: looking at it raised {type(worse).__name__}"
        return Failed(Problem("rota.BadException", text))


def _judge(error: BaseException) -> Outcome:
    match error:
        case Fatal():
            return Failed(problem_of(error), fatal=True)
        case RetryAfter() | Snooze():
            try:
                delay = duration(error.delay, type(error).__name__)
            except InvalidInput as wrong:
                return Failed(Problem("rota.InvalidInput", str(wrong)), fatal=True)
            if isinstance(error, Snooze):
                return Snoozed(delay, _text(str(error), LONGEST_MESSAGE))
            return Failed(problem_of(error), names_of(type(error)), retry_in=delay)
        case Cancel():
            return Cancelled(_text(str(error) or "cancelled by the task itself", LONGEST_MESSAGE))
        case _:
            return Failed(problem_of(error), names_of(type(error)))


def problem_of(error: BaseException) -> Problem:
    try:
        message = str(error) or type(error).__name__
    except Exception:
        message = "(its message could not be made)"
    trace = "".join(traceback.format_exception(type(error), error, _own(error)))
    return Problem(qualified(type(error)), _text(message, LONGEST_MESSAGE), _text(trace, LONGEST_TRACE))


def _own(error: BaseException) -> Any:
    """The traceback from the task's own code on, without rota's frames above it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith(_CALLERS):
        trace = trace.tb_next
    return trace or error.__traceback__


def _text(text: str, limit: int) -> str:
    """Makes a text short enough to store and safe to encode. Long texts keep their end, which matters more."""
    clean = text.encode("utf-8", "backslashreplace").decode()
    return clean if len(clean) <= limit else f"{clean[: limit // 4]}{CUT_MARK}{clean[-limit * 3 // 4 :]}"
