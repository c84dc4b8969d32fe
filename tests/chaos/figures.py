"""What is measured, from the lines of the witness: how soon lost work runs again, how soon all is as before."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence

from tests.chaos.checker import Span, spans
from tests.chaos.evidence import Evidence, Fault
from tests.chaos.witness import START, Line

ENOUGH = 0.95
# Throughput before a fault is taken from as many seconds; back again means for one second and for three.
BEFORE = 8.0
SETTLING = 3.0
WARMING = 2.0
NEVER = math.inf


def percentile(values: Sequence[float], part: float) -> float:
    """The nearest rank: always a value that was measured."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)] if ordered else math.nan


def by_job(evidence: Evidence) -> dict[str, list[Span]]:
    lines: dict[str, list[Line]] = defaultdict(list)
    for line in evidence.lines:
        lines[line.job].append(line)
    return {job: spans(found) for job, found in lines.items()}


def restarts(evidence: Evidence, faults: Sequence[Fault]) -> list[float]:
    """From each fault of a node to the next start of every job that ran there then and got no further than a moment.

    Only what the job lost for the first time counts: the second crash is followed by a back-off on purpose.
    """
    found: list[float] = []
    lost_before: set[str] = set()
    jobs = by_job(evidence)
    for fault in faults:
        for job, attempts in jobs.items():
            for index, attempt in enumerate(attempts):
                if job not in lost_before and _hit(attempt, fault):
                    lost_before.add(job)
                    after = attempts[index + 1 :]
                    found.append(after[0].start - fault.at if after else NEVER)
    return found


def _hit(attempt: Span, fault: Fault) -> bool:
    """It ran there when the fault began, and said nothing more; or nothing until the fault was over."""
    if attempt.node != fault.node or attempt.start >= fault.at:
        return False
    slept = 0.0 < fault.until <= attempt.last
    return slept or (not attempt.ended and abs(attempt.last - fault.at) < 0.5)


def starts(evidence: Evidence) -> list[float]:
    return sorted(line.at for line in evidence.lines if line.word == START)


def rate(times: Sequence[float], since: float, until: float) -> float:
    return (bisect_left(times, until) - bisect_left(times, since)) / (until - since) if until > since else 0.0


def usual_rate(times: Sequence[float], fault_at: float) -> float:
    """Starts per second before a fault; the first moments of all don't count."""
    return rate(times, max(times[0] + WARMING, fault_at - BEFORE), fault_at) if times else 0.0


def back_to_normal(
    times: Sequence[float], fault_at: float, healed_at: float, latest: float, enough: float = ENOUGH
) -> float:
    """Seconds from the end of a fault until starts per second are what they were before it."""
    wanted = enough * usual_rate(times, fault_at)
    moment = healed_at
    while moment < latest:
        # Apart from each other: when all slots are free, the first second begins with a burst.
        if rate(times, moment, moment + 1.0) >= wanted and rate(times, moment + 1.0, moment + SETTLING) >= wanted:
            return moment - healed_at
        moment += 0.02
    return NEVER


def lateness(evidence: Evidence, since: float, until: float) -> list[float]:
    """Of timers that were due in between (monotonic), to their first start."""
    found: list[float] = []
    first: dict[int, Line] = {}
    for line in evidence.lines:
        if line.word == START and (line.number not in first or line.at < first[line.number].at):
            first[line.number] = line
    for order in evidence.told.values():
        line_of = first.get(order.number)
        if order.due is None or line_of is None or len(order.answers) != 1:
            continue  # one that was repeated may have been accepted later than it was first asked for
        due = order.due - line_of.wall + line_of.at
        if since <= due < until:
            found.append(line_of.at - due)
    return found
