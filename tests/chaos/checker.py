"""Holds the three witnesses against each other: what clients were told, what the jobs noted, what the database has.

Everything found is a `Finding`. Those of a kind in BAD fail the run; the others are facts that a person should see.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass

from tests.chaos.evidence import Evidence, Row
from tests.chaos.told import HUNG, OK
from tests.chaos.witness import END, START, STOPPED, Line
from tests.checks.at_once import meetings
from tests.checks.attempts import Attempts, final, proven
from tests.checks.breach import DOUBLE, EARLY, FAILED, LOST, MADE_UP, OVERLAP, UNPROVEN, Breach
from tests.checks.crashes import quarantined
from tests.checks.orders import answered, early, over, single

EXCUSED = "excused overlap"  # the machine of the older one slept past its lease: only fences help there
STUCK = "hung call"
EXIT = "exit"  # of a process that nobody told to
LEFTOVER = "leftover"
RESOLVED_THERE, RESOLVED_NOT = "unknown: there", "unknown: not there"
POISON = "quarantined"  # as often there as its node died as the limit says

BAD = (LOST, DOUBLE, OVERLAP, UNPROVEN, MADE_UP, FAILED, EARLY, STUCK, EXIT, LEFTOVER)
# The words with which an attempt takes its leave.
OVER = (END, STOPPED)
# Two processes look at the same clock one after the other.
BLINK = 0.002


@dataclass(frozen=True)
class Finding:
    kind: str
    number: int
    text: str


def findings(number: int, *breaches: Breach | None, about: str = "") -> Iterator[Finding]:
    """Of the rules that the simulation is held against too: see `tests/checks`."""
    for breach in breaches:
        if breach is not None:
            yield Finding(breach.kind, number, f"{about}{breach.text}")


@dataclass(frozen=True)
class Span:
    """One attempt, as far as it was witnessed."""

    fence: int
    node: str
    start: float
    last: float
    ended: bool


def check(evidence: Evidence, excused: Callable[[Span, Span], bool] = lambda old, new: False) -> list[Finding]:
    rows = by_number(evidence)
    return [
        *orders(evidence, rows),
        *_numbers(evidence, rows),
        *attempts(evidence, excused),
        *_starts(evidence),
    ]


def by_number(evidence: Evidence) -> dict[int, list[Row]]:
    rows: dict[int, list[Row]] = defaultdict(list)
    for row in evidence.rows:
        rows[row.number].append(row)
    return rows


def attempts(evidence: Evidence, excused: Callable[[Span, Span], bool]) -> list[Finding]:
    """What holds for all jobs and nodes, whoever wanted them."""
    lines: dict[str, list[Line]] = defaultdict(list)
    for line in evidence.lines:
        lines[line.job].append(line)
    return [
        *_completions(evidence, lines),
        *_overlaps(lines, excused),
        *(Finding(EXIT, 0, f"{exit.node} ended by itself with {exit.code}") for exit in evidence.exits),
        *(Finding(LEFTOVER, 0, text) for text in evidence.leftovers),
    ]


def orders(evidence: Evidence, rows: dict[int, list[Row]]) -> Iterator[Finding]:
    """Each answer that a client had, against what is there."""
    for number, order in evidence.told.items():
        there = rows.get(number, [])
        for _ in range(order.answers.count(HUNG)):
            yield Finding(STUCK, number, order.why)
        if order.verdict == "unknown":
            yield Finding(RESOLVED_THERE if there else RESOLVED_NOT, number, order.why)
        yield from findings(number, *answered(order.verdict, order.ids, {row.job for row in there}, order.why))


def _numbers(evidence: Evidence, rows: dict[int, list[Row]]) -> Iterator[Finding]:
    yield from numbers(evidence.told.keys(), rows)
    for number, there in rows.items():
        for row in there:
            if row.ended and row.state != "succeeded":
                text = f"{row.job} {row.state} with {row.crashes} crashes, last {row.outcome}"
                yield Finding(ending(row.crashes), number, text)


def numbers(asked_for: Set[int], rows: Mapping[int, list[Row]]) -> Iterator[Finding]:
    """Each order is at most one job, and that has ended."""
    for number, there in rows.items():
        if number not in asked_for:
            yield Finding(MADE_UP, number, f"never asked for, and there as {there[0].job}")
        yield from findings(number, single([f"{row.job} {row.state}" for row in there]))
        yield from findings(number, *(over(row.job, row.state, row.ended) for row in there))


def ending(crashes: int) -> str:
    """Of a job that ended otherwise than it should have: a finding, unless it crashed as often as the limit says."""
    return FAILED if quarantined(crashes, dead=True) else POISON


def _completions(evidence: Evidence, lines: dict[str, list[Line]]) -> Iterator[Finding]:
    """One completion per job, by its last fence, of an attempt that did reach its end."""
    known, attempts = {row.job: row.number for row in evidence.rows}, Attempts()
    latest = {job: max(line.fence for line in some) for job, some in lines.items() if some}
    for one in evidence.tries:
        latest[one.job] = max(latest.get(one.job, 0), one.fence)
    ends = [(one.job, one.fence, one.outcome) for one in evidence.tries]
    ends += [(row.job, row.fence, row.outcome) for row in evidence.rows if row.ended and row.outcome is not None]
    for job, fence, outcome in ends:
        success = attempts.succeed(job) if outcome == "succeeded" else None
        yield from findings(known.get(job, 0), attempts.end((job, fence)), success)
    for row in evidence.rows:
        if row.ended:
            yield from findings(row.number, final(row.job, row.fence, latest.get(row.job, 0)))
        if row.outcome == "succeeded":
            reached = any(line.fence == row.fence and line.word == END for line in lines.get(row.job, ()))
            yield from findings(row.number, proven((row.job, row.fence), reached))


def spans(lines: list[Line]) -> list[Span]:
    """The attempts of one job, in the order in which they started."""
    found: dict[int, Span] = {}
    for line in lines:
        old = found.get(line.fence)
        start, last = (old.start, max(old.last, line.at)) if old else (line.at, line.at)
        found[line.fence] = Span(line.fence, line.node, start, last, line.word == END or bool(old and old.ended))
    return sorted(found.values(), key=lambda span: span.start)


def _overlaps(lines: dict[str, list[Line]], excused: Callable[[Span, Span], bool]) -> Iterator[Finding]:
    for job, all_lines in lines.items():
        number, begun = all_lines[0].number, Attempts()
        yield from findings(number, *(begun.begin((job, line.fence)) for line in all_lines if line.word == START))
        for new, beside in meetings(spans(all_lines)):
            for old in beside:
                late = f"ran {old.last - new.start:.3f} s into attempt {new.fence} on {new.node}"
                text = f"{job}: attempt {old.fence} on {old.node} {late}"
                yield Finding(EXCUSED if excused(old, new) else OVERLAP, number, text)


def _starts(evidence: Evidence) -> Iterator[Finding]:
    for line in evidence.lines:
        order = evidence.told.get(line.number)
        if line.word == START and order and order.due:
            yield from findings(line.number, early(line.wall, order.due, BLINK), about=f"{line.job} started ")


def accepted(evidence: Evidence) -> int:
    return sum(order.verdict == OK for order in evidence.told.values())


def ended(evidence: Evidence) -> int:
    return sum(row.ended for row in evidence.rows)
