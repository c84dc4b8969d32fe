"""Holds the three witnesses against each other: what clients were told, what the jobs noted, what the database has.

Everything found is a `Finding`. Those of a kind in BAD fail the run; the others are facts that a person should see.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.chaos.evidence import Evidence, Row
from tests.chaos.told import HUNG, OK
from tests.chaos.witness import END, START, STOPPED, Line

LOST = "lost"  # accepted, and not there at the end, or not ended
DOUBLE = "doubly effective"  # one order or one attempt that counts twice
OVERLAP = "overlap"  # two attempts of one job at the same time
EXCUSED = "excused overlap"  # the machine of the older one slept past its lease: only fences help there
UNPROVEN = "unproven"  # succeeded according to rota, and the job itself has no such attempt at its end
MADE_UP = "made up"  # there, although it was refused or never asked for
FAILED = "failed"  # ended otherwise than by success, without so many crashes that this is right
EARLY = "early"  # started before it was due
STUCK = "hung call"
EXIT = "exit"  # of a process that nobody told to
LEFTOVER = "leftover"
RESOLVED_THERE, RESOLVED_NOT = "unknown: there", "unknown: not there"
POISON = "quarantined"  # as often there as its node died as the limit says

BAD = (LOST, DOUBLE, OVERLAP, UNPROVEN, MADE_UP, FAILED, EARLY, STUCK, EXIT, LEFTOVER)
CRASH_LIMIT = 3
# The words with which an attempt takes its leave.
OVER = (END, STOPPED)
# Two processes look at the same clock one after the other.
BLINK = 0.002


@dataclass(frozen=True)
class Finding:
    kind: str
    number: int
    text: str


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
        match order.verdict:
            case "ok" if not there:
                yield Finding(LOST, number, f"accepted as {', '.join(order.ids)}, and not there")
            case "ok" if not {row.job for row in there} & order.ids:
                yield Finding(LOST, number, f"accepted as {', '.join(order.ids)}, there as {there[0].job}")
            case "refused" if there:
                yield Finding(MADE_UP, number, f"refused ({order.why}), and there as {there[0].job}")
            case "unknown":
                yield Finding(RESOLVED_THERE if there else RESOLVED_NOT, number, order.why)
        if len(order.ids) > 1:
            yield Finding(DOUBLE, number, f"one key, answered with {', '.join(sorted(order.ids))}")


def _numbers(evidence: Evidence, rows: dict[int, list[Row]]) -> Iterator[Finding]:
    """Each order is at most one job, and that has ended."""
    for number, there in rows.items():
        if number not in evidence.told:
            yield Finding(MADE_UP, number, f"never asked for, and there as {there[0].job}")
        if len(there) > 1:
            yield Finding(DOUBLE, number, f"there {len(there)} times: {', '.join(f'{r.job} {r.state}' for r in there)}")
        for row in there:
            if not row.ended:
                yield Finding(LOST, number, f"{row.job} never ended: {row.state}, fence {row.fence}")
            elif row.state != "succeeded":
                kind = POISON if row.crashes >= CRASH_LIMIT else FAILED
                yield Finding(kind, number, f"{row.job} {row.state} with {row.crashes} crashes, last {row.outcome}")


def _completions(evidence: Evidence, lines: dict[str, list[Line]]) -> Iterator[Finding]:
    """One completion per job, by its last fence, of an attempt that did reach its end."""
    succeeded = Counter(row.job for row in evidence.rows if row.outcome == "succeeded")
    succeeded.update(one.job for one in evidence.tries if one.outcome == "succeeded")
    ends = Counter((one.job, one.fence) for one in evidence.tries)
    ends.update((row.job, row.fence) for row in evidence.rows if row.ended and row.outcome is not None)
    latest: dict[str, int] = {}
    for one in evidence.tries:
        latest[one.job] = max(latest.get(one.job, 0), one.fence)
    numbers = {row.job: row.number for row in evidence.rows}
    for job, count in succeeded.items():
        if count > 1:
            yield Finding(DOUBLE, numbers.get(job, 0), f"{job} succeeded {count} times")
    for (job, fence), count in ends.items():
        if count > 1:
            yield Finding(DOUBLE, numbers.get(job, 0), f"{job}: attempt {fence} ended {count} times")
    for row in evidence.rows:
        if row.ended and latest.get(row.job, 0) > row.fence:
            yield Finding(
                DOUBLE, row.number, f"{row.job} ended by fence {row.fence}, after {latest[row.job]} was given"
            )
        if row.ended and any(line.fence > row.fence for line in lines[row.job]):
            yield Finding(DOUBLE, row.number, f"{row.job} ran again after it had ended by fence {row.fence}")
        if row.outcome == "succeeded" and not any(
            line.fence == row.fence and line.word == END for line in lines[row.job]
        ):
            yield Finding(
                UNPROVEN, row.number, f"{row.job} succeeded by fence {row.fence}, which never reached its end"
            )


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
        starts = Counter(line.fence for line in all_lines if line.word == START)
        for fence, count in starts.items():
            if count > 1:
                yield Finding(DOUBLE, all_lines[0].number, f"{job}: attempt {fence} started {count} times")
        attempts = spans(all_lines)
        for index, new in enumerate(attempts):
            for old in attempts[:index]:
                if old.last > new.start:
                    text = (
                        f"{job}: attempt {old.fence} on {old.node} ran {old.last - new.start:.3f} s into "
                        f"attempt {new.fence} on {new.node}"
                    )
                    yield Finding(EXCUSED if excused(old, new) else OVERLAP, all_lines[0].number, text)


def _starts(evidence: Evidence) -> Iterator[Finding]:
    for line in evidence.lines:
        order = evidence.told.get(line.number)
        if line.word == START and order and order.due and line.wall < order.due - BLINK:
            yield Finding(EARLY, line.number, f"{line.job} started {order.due - line.wall:.3f} s before it was due")


def accepted(evidence: Evidence) -> int:
    return sum(order.verdict == OK for order in evidence.told.values())


def ended(evidence: Evidence) -> int:
    return sum(row.ended for row in evidence.rows)
