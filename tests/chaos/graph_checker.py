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
from tests.chaos.checker import Finding, Span, ending, findings
from tests.chaos.evidence import Evidence, Row
from tests.chaos.graphs import Step
from tests.chaos.witness import START, Line
from tests.checks.breach import FAILED, NOT_SKIPPED, TOO_SOON, WRONGLY_SKIPPED
from tests.checks.graphs import Parents

RELEASED_TWICE = "released twice"  # an attempt that the database knows nothing of

BAD = (TOO_SOON, RELEASED_TWICE, WRONGLY_SKIPPED, NOT_SKIPPED)


def check(evidence: Evidence, excused: Callable[[Span, Span], bool]) -> list[Finding]:
    rows = checker.by_number(evidence)
    return [
        *checker.orders(evidence, rows),
        *checker.numbers(evidence.graph.keys() & evidence.told.keys(), rows),
        *checker.attempts(evidence, excused),
        *_accounts(evidence),
        *_states(evidence, rows),
        *_starts(evidence, rows),
    ]


def _accounts(evidence: Evidence) -> Iterator[Finding]:
    """Each attempt that started is the job's last one, or is in the book as lost."""
    known = Counter((one.job, one.fence) for one in evidence.tries)
    known.update((row.job, row.fence) for row in evidence.rows)
    for line in evidence.lines:
        if line.word == START and not known[line.job, line.fence]:
            yield Finding(RELEASED_TWICE, line.number, f"{line.job} ran by fence {line.fence}, which nobody gave out")


def _states(evidence: Evidence, rows: Mapping[int, list[Row]]) -> Iterator[Finding]:
    ran = {line.number for line in evidence.lines}
    how = ways(evidence, rows)
    for number, step in evidence.graph.items():
        for row in rows.get(number, []):
            if row.ended:
                yield from _state(step, row, Parents(step.parents, how), number in ran)


def ways(evidence: Evidence, rows: Mapping[int, list[Row]]) -> dict[int, set[str]]:
    """How each job has ended, as its children see it."""
    found: dict[int, set[str]] = {}
    for number in sorted(evidence.graph):  # parents have lower numbers
        found[number] = {row.state for row in rows.get(number, []) if row.ended}
        if "skipped" in found[number]:
            found[number] = found[number] - {"skipped"} | Parents(evidence.graph[number].parents, found).causes()
    return found


def _state(step: Step, row: Row, parents: Parents[int], ran: bool) -> Iterator[Finding]:
    if breach := parents.ends(row.state, ran):
        yield from findings(step.number, breach, about=f"{row.job}: ")
    elif row.state not in ("skipped", "failed" if step.fails else "succeeded"):
        kind = ending(row.crashes) if row.state == "failed" else FAILED
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
    how = ways(evidence, rows)
    for number in sorted(evidence.graph):  # parents have lower numbers
        there = [row for row in rows.get(number, []) if row.ended]
        if not there:
            continue
        found[number] = last[number]
        if there[0].state == "skipped":
            above = evidence.graph[number].parents
            broken = Parents(above, how).broken()
            found[number] = min((found.get(parent, math.inf) for parent, _ in broken), default=-math.inf)
            if not broken:  # it waited for trouble: after the last
                found[number] = max((found.get(parent, math.inf) for parent, _ in above), default=-math.inf)
    return found


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
