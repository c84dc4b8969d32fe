"""Holds what workflows did against the plan of the client: no job before its parents have ended as it needs, each once,
and skipped exactly those that a parent stands in the way of.

What became of the parents is taken as it is in the database; what must become of a child follows from that. When a
parent ended is taken from its own last line: it is over a little later than that, never sooner.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping

from tests.chaos import checker
from tests.chaos.checker import CRASH_LIMIT, DOUBLE, FAILED, LOST, MADE_UP, POISON, Finding, Span
from tests.chaos.evidence import Evidence, Row
from tests.chaos.graphs import Step, fits
from tests.chaos.witness import START, Line

TOO_SOON = "before its parents"
RELEASED_TWICE = "released twice"  # an attempt that the database knows nothing of
WRONGLY_SKIPPED = "wrongly skipped"
NOT_SKIPPED = "not skipped"  # although a parent ended otherwise than needed

BAD = (TOO_SOON, RELEASED_TWICE, WRONGLY_SKIPPED, NOT_SKIPPED)


def check(evidence: Evidence, excused: Callable[[Span, Span], bool]) -> list[Finding]:
    rows = checker.by_number(evidence)
    return [
        *checker.orders(evidence, rows),
        *_numbers(evidence, rows),
        *checker.attempts(evidence, excused),
        *_accounts(evidence),
        *_states(evidence, rows),
        *_starts(evidence, rows),
    ]


def _numbers(evidence: Evidence, rows: Mapping[int, list[Row]]) -> Iterator[Finding]:
    """Each job of the plan at most once; and it has ended, once."""
    for number, there in rows.items():
        if number not in evidence.graph or number not in evidence.told:
            yield Finding(MADE_UP, number, f"never asked for, and there as {there[0].job}")
        if len(there) > 1:
            yield Finding(DOUBLE, number, f"there {len(there)} times: {', '.join(f'{r.job} {r.state}' for r in there)}")
        for row in there:
            if not row.ended:
                yield Finding(LOST, number, f"{row.job} never ended: {row.state}, fence {row.fence}")


def _accounts(evidence: Evidence) -> Iterator[Finding]:
    """Each attempt that started is the job's last one, or is in the book as lost."""
    known = Counter((one.job, one.fence) for one in evidence.tries)
    known.update((row.job, row.fence) for row in evidence.rows)
    for line in evidence.lines:
        if line.word == START and not known[line.job, line.fence]:
            yield Finding(RELEASED_TWICE, line.number, f"{line.job} ran by fence {line.fence}, which nobody gave out")


def _states(evidence: Evidence, rows: Mapping[int, list[Row]]) -> Iterator[Finding]:
    ran = {line.number for line in evidence.lines}
    for number, step in evidence.graph.items():
        for row in rows.get(number, []):
            if row.ended:
                yield from _state(step, row, _stands_in_the_way(step, rows), number in ran)


def _stands_in_the_way(step: Step, rows: Mapping[int, list[Row]]) -> str | None:
    """The first parent that ended otherwise than needed."""
    for parent, need in step.parents:
        for row in rows.get(parent, []):
            if row.ended and not fits(need, row.state):
                return f"its parent {row.job} (order {parent}) {row.state}, and it needs {need}"
    return None


def _state(step: Step, row: Row, obstacle: str | None, ran: bool) -> Iterator[Finding]:
    if obstacle is not None:
        if row.state != "skipped" or ran:
            yield Finding(NOT_SKIPPED, step.number, f"{row.job} {row.state}{' and ran' * ran}: {obstacle}")
    elif row.state == "skipped":
        yield Finding(WRONGLY_SKIPPED, step.number, f"{row.job}, and no parent of it stands in the way")
    elif row.state != ("failed" if step.fails else "succeeded"):
        kind = POISON if row.state == "failed" and row.crashes >= CRASH_LIMIT else FAILED
        yield Finding(kind, step.number, f"{row.job} {row.state} with {row.crashes} crashes, last {row.outcome}")


def _starts(evidence: Evidence, rows: Mapping[int, list[Row]]) -> Iterator[Finding]:
    over = ends(evidence, rows)
    for line in evidence.lines:
        step = evidence.graph.get(line.number)
        if line.word != START or step is None:
            continue
        for parent, need in step.parents:
            if line.at < (end := over.get(parent, math.inf)):
                how = "never ended" if math.isinf(end) else f"ended {end - line.at:.3f} s later"
                yield Finding(TOO_SOON, line.number, f"{line.job} started, and order {parent} ({need}) {how}")


def ends(evidence: Evidence, rows: Mapping[int, list[Row]]) -> dict[int, float]:
    """When each job was over at the earliest (monotonic): after the last line of its last attempt; or, if it was
    skipped, after the first of those that stood in its way."""
    last: dict[int, float] = defaultdict(lambda: -math.inf)
    fences = {row.job: row.fence for row in evidence.rows}
    for line in evidence.lines:
        if line.fence == fences.get(line.job):
            last[line.number] = max(last[line.number], line.at)
    found: dict[int, float] = {}
    for number in sorted(evidence.graph):  # parents have lower numbers
        there = [row for row in rows.get(number, []) if row.ended]
        if not there:
            continue
        found[number] = last[number]
        if there[0].state == "skipped":
            broken = [p for p, need in evidence.graph[number].parents if _is_broken(rows.get(p, []), need)]
            found[number] = min((found.get(parent, math.inf) for parent in broken), default=-math.inf)
    return found


def _is_broken(there: list[Row], need: str) -> bool:
    return any(row.ended and not fits(need, row.state) for row in there)


def delays(evidence: Evidence, chosen: Callable[[float], bool]) -> list[float]:
    """From the end of the last parent, at an instant that is chosen, to the first start of each child."""
    over = ends(evidence, checker.by_number(evidence))
    first: dict[int, Line] = {}
    for line in evidence.lines:
        if line.word == START and (line.number not in first or line.at < first[line.number].at):
            first[line.number] = line
    found: list[float] = []
    for number, line in first.items():
        step, order = evidence.graph.get(number), evidence.told.get(number)
        if step is None or order is None or not step.parents:
            continue
        released = max(over.get(parent, math.inf) for parent, _ in step.parents)
        if released > order.asked_at and chosen(released):  # what was over before was not waited for
            found.append(line.at - released)
    return found
