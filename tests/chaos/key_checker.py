"""Holds what jobs noted against the limits of their keys: never more at once, never more starts in any window.

An attempt holds its keys from its first line to its last. Two things are added to what it says of itself:

- While its node is stopped it says nothing, and holds them all the same, for as long as the lease surely lasts.
- When a whole machine has slept, its attempts go on when it wakes up, past their lease and beside whoever has the key
  by then. Only fences help there; such an attempt counts until its lease may have ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from tests.chaos import checker
from tests.chaos.checker import Finding, Span, findings
from tests.chaos.evidence import Evidence, Fault
from tests.chaos.figures import by_job
from tests.chaos.keys import AT_ONCE, STARTS
from tests.chaos.witness import START
from tests.checks.at_once import meetings
from tests.checks.breach import CROWDED, TOO_FAST
from tests.checks.rates import bursts

STRANGER = "without its keys"  # an attempt that noted none: nothing can be said about it

BAD = (CROWDED, TOO_FAST, STRANGER)
# A lease of 10 s is renewed every second, and work on it is stopped a second before it ends. This long after its node
# was stopped nobody may have taken it over yet.
SURE = 7.0
# From a claim, which takes the key, to the first line of the attempt.
REACH = 1.0
# A node that wakes up begins with what it had claimed before it slept.
WAKING = 2.0


@dataclass(frozen=True)
class Hold:
    job: str
    number: int
    span: Span

    @property
    def start(self) -> float:
        return self.span.start

    @property
    def last(self) -> float:
        return self.span.last


def check(evidence: Evidence, excused: Callable[[Span, Span], bool]) -> list[Finding]:
    return [*checker.check(evidence, excused), *_strangers(evidence), *crowds(evidence), *_rates(evidence)]


def _strangers(evidence: Evidence) -> Iterator[Finding]:
    for job, attempts in by_job(evidence).items():
        if job not in evidence.keys.needed:
            yield Finding(STRANGER, 0, f"{job} ran {len(attempts)} times")


# -- at once ----------------------------------------------------------------------------------------------------------
def crowds(evidence: Evidence) -> Iterator[Finding]:
    """Attempts that hold a key beyond its limit: I5."""
    for key in AT_ONCE:

        def most(one: Hold, key: str = key) -> int:
            return evidence.keys.at_once(key, one.start - REACH, one.start)

        for one, beside in meetings(holds(evidence, key), most):
            who = ", ".join(f"{each.job} by {each.span.fence} on {each.span.node}" for each in (*beside, one))
            text = f"{key}: {len(beside) + 1} instead of {most(one)} at {one.start:.3f}: {who}"
            yield Finding(CROWDED, one.number, text)


def holds(evidence: Evidence, key: str) -> list[Hold]:
    """All attempts that had this key, in the order in which they started, for as long as it was theirs."""
    found: list[Hold] = []
    numbers = {line.job: line.number for line in evidence.lines}
    jobs = by_job(evidence)
    over = {(line.job, line.fence) for line in evidence.lines if line.word in checker.OVER}
    for job in evidence.keys.jobs(key) & jobs.keys():
        attempts = jobs[job]
        latest = max(span.fence for span in attempts)
        for span in attempts:
            lasting = _lasting(evidence, span, stale=span.fence < latest, over=(job, span.fence) in over)
            if lasting is not None:
                found.append(Hold(job, numbers[job], lasting))
    return sorted(found, key=lambda one: one.span.start)


def _lasting(evidence: Evidence, span: Span, stale: bool, over: bool) -> Span | None:
    for fault in evidence.of("pause", "sleep"):
        if fault.node != span.node:
            continue
        if span.start < fault.at:
            if fault.until <= span.last and fault.kind == "sleep":
                return replace(span, last=fault.at + SURE)  # it slept, and went on afterwards
            if not over and span.last < fault.until and fault.at - span.last < 0.5:
                return replace(span, last=fault.at + SURE)  # it never woke up
        elif stale and fault.kind == "sleep" and span.start < fault.until + WAKING:
            return None  # claimed before, begun afterwards, taken over in between
    return span


# -- rates ------------------------------------------------------------------------------------------------------------
def _rates(evidence: Evidence) -> Iterator[Finding]:
    for key, (allowed, window) in STARTS.items():
        yield from findings(0, *bursts(starts(evidence, key), allowed, window, key))


def starts(evidence: Evidence, key: str) -> list[float]:
    jobs = evidence.keys.jobs(key)
    return sorted(line.at for line in evidence.lines if line.word == START and line.job in jobs)


# -- figures ----------------------------------------------------------------------------------------------------------
def reuse(evidence: Evidence, keys: Sequence[str], chosen: Callable[[float], bool]) -> list[float]:
    """From each end of an attempt, at an instant that is chosen, to the start that has its slot then. Only of keys that
    nobody changes, and while somebody waits in their line."""
    return [gap for key in keys for gap in _reuse(evidence, key, chosen)]


def _reuse(evidence: Evidence, key: str, chosen: Callable[[float], bool]) -> list[float]:
    held = holds(evidence, key)
    begun = {one.number: one.span.start for one in reversed(held)}
    ordered = [(order.asked_at, begun[order.number]) for order in evidence.told.values() if order.number in begun]
    events = [(one.span.start, START) for one in held] + [(one.span.last, "") for one in held]
    found: list[float] = []
    free: deque[float] = deque()
    for at, word in sorted(events):
        if word == START:
            if free and chosen(since := free.popleft()):
                found.append(at - since)
        elif any(asked < at - REACH and at < start for asked, start in ordered):
            free.append(at)
    return found


def idle_tokens(evidence: Evidence, chosen: Callable[[float], bool]) -> list[float]:
    """How long after its window each start could have been followed by the next one in its place."""
    found: list[float] = []
    for key, (allowed, window) in STARTS.items():
        times = starts(evidence, key)
        found += [new - old - window for old, new in zip(times, times[allowed:], strict=False) if chosen(old + window)]
    return found


def steady(evidence: Evidence, at: float, before: float, after: float) -> bool:
    """Further than that from every fault."""
    return not any(_near(fault, at, before, after) for fault in evidence.faults)


def _near(fault: Fault, at: float, before: float, after: float) -> bool:
    return fault.at - before <= at <= max(fault.until, fault.at) + after
