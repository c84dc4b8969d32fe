"""Signals, which a task raises to say how its attempt should end.

TaskSignal
├── Fatal                   don't try again
├── RetryAfter              try again after this long
├── Snooze                  run again later, without counting a failure
└── Cancel                  end this job as cancelled

They are no RotaErrors: `except RotaError` in a task must not catch them.
"""

from __future__ import annotations

from rota.errors import Travelling
from rota.model.times import Span, duration


class TaskSignal(Travelling, Exception):
    """Raised by a task's own code; see the tree above."""


class Fatal(TaskSignal):
    pass


class Cancel(TaskSignal):
    pass


class _Delayed(TaskSignal):
    """Raises InvalidInput for a wrong delay, so that the trace leads to the line with the mistake."""

    def __init__(self, delay: Span, message: str) -> None:
        duration(delay, f"delay of {type(self).__name__}")
        self.delay = delay
        super().__init__(message)


class RetryAfter(_Delayed):
    def __init__(self, delay: Span, message: str = "asked to be tried again") -> None:
        super().__init__(delay, message)


class Snooze(_Delayed):
    def __init__(self, delay: Span, message: str = "snoozed") -> None:
        super().__init__(delay, message)
