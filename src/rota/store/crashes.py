"""What becomes of an attempt whose node is gone, as every backend writes it down."""

from __future__ import annotations

from rota.model.lifecycle import Event
from rota.model.outcome import CrashRule, Ending, Problem, Settlement


def crash(job: str, fence: int, event: Event, why: str, rule: CrashRule) -> Settlement:
    if event is Event.INTERRUPT:
        return Settlement(job, fence, event, Ending.INTERRUPTED, interruptions=1, reason=why)
    problem = Problem("rota.Crash", why)
    if event is Event.QUARANTINE:
        problem = Problem("rota.Crash", f"{why}; {rule.limit} nodes have died under this job")
    return Settlement(
        job, fence, event, Ending.CRASHED, delay=rule.delay, error=problem, reason=problem.message, crashes=1
    )
