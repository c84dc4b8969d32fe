"""Holds what jobs wrote against what rota shows of it: all of it, in order, once, and marks for what is cut (I14)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tests.chaos import checker
from tests.chaos.checker import Finding, Span
from tests.chaos.evidence import Evidence
from tests.chaos.figures import by_job
from tests.chaos.scribbles import AT_ONCE, Scribbles, lines

MISSING = "output missing"  # written before the attempt ended, and neither there nor counted by a mark
WRONG = "output in disorder"  # double, in another order, or never written
BAD = (MISSING, WRONG)


def check(evidence: Evidence, excused: Callable[[Span, Span], bool]) -> list[Finding]:
    return [*checker.check(evidence, excused), *outputs(evidence)]


def outputs(evidence: Evidence) -> Iterator[Finding]:
    attempts = {(job, span.fence): span for job, some in by_job(evidence).items() for span in some}
    lost = {(one.job, one.fence) for one in evidence.tries if one.outcome != "succeeded"}
    lost |= {(row.job, row.fence) for row in evidence.rows if row.outcome != "succeeded"}
    for (job, fence), one in evidence.scribbles.items():
        span = attempts.get((job, fence))
        number = next((line.number for line in evidence.lines if line.job == job), 0)
        due = {stream: noted.early if (job, fence) in lost else noted.size for stream, noted in one.written.items()}
        if span is None or _stopped(evidence, span):
            due = {}
        for kind, text in _judged(one, due):
            yield Finding(kind, number, f"{job}: attempt {fence}: {text}")


def _stopped(evidence: Evidence, span: Span) -> bool:
    """Its node was stopped while it ran: what lay in its pipes is lost when its lease ends."""
    return any(f.node == span.node and f.at < span.last + 1 and span.start < f.until for f in evidence.of("pause"))


def _judged(one: Scribbles, due: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    places = dict.fromkeys(one.written, 0)
    for part in one.shown:
        if part.left_out:  # only jobs with one stream write so much
            places["stdout"] += part.left_out
            continue
        place = places.setdefault(part.stream, 0)
        if part.body != lines(part.stream, place, len(part.body)):
            yield WRONG, f"{part.stream} at {place:,}: {part.body[:60]!r}"
            return
        places[part.stream] += len(part.body)
    for stream, noted in one.written.items():
        if places[stream] < due.get(stream, 0):
            yield MISSING, f"{stream} has {places[stream]:,} of {due[stream]:,} bytes"
        if places[stream] > noted.size + AT_ONCE:
            yield WRONG, f"{stream} has {places[stream]:,} bytes; {noted.size:,} were written"
