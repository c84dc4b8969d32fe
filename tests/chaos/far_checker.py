"""Holds a run with far-away workers against what their clients and jobs say: orders, attempts, keys, crashes, cancels,
keys of orders, and output."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.chaos import checker, crash_checker
from tests.chaos.asides import CANCEL, CLASH, DONE
from tests.chaos.checker import Finding, Span
from tests.chaos.evidence import Evidence, Row
from tests.chaos.key_checker import crowds
from tests.chaos.witness import START
from tests.checks.breach import FAILED

CLASHED = "key used twice"  # the key of an order was taken for other work
DEAF = "cancel ignored"  # it ended otherwise, or started more than a second after the answer
MUTILATED = "output lost"  # of an attempt that succeeded: lines are missing, double or in another order
UNFINISHED = "failure made up"  # no job of these runs fails by itself
BAD = (CLASHED, DEAF, MUTILATED, UNFINISHED)
BITES = 1.0  # seconds after the answer to a cancel


def check(evidence: Evidence, excused: Callable[[Span, Span], bool]) -> list[Finding]:
    runs = crash_checker.runs_of(evidence)
    return [
        *(one for one in checker.check(evidence, excused) if not _was_cancelled(evidence, one)),
        *crowds(evidence),
        *crash_checker.counts(evidence, runs),
        *crash_checker.waits(evidence, runs),
        *_failures(evidence),
        *_cancels(evidence),
        *_clashes(evidence),
        *_output(evidence),
    ]


def _was_cancelled(evidence: Evidence, finding: Finding) -> bool:
    """The end that it was asked to have is not a failure. Without an answer it may be cancelled or not."""
    asked = any(one.word == CANCEL and one.number == finding.number for one in evidence.asides)
    return finding.kind == FAILED and asked and "cancelled" in {row.state for row in _rows(evidence, finding.number)}


def _rows(evidence: Evidence, number: int) -> list[Row]:
    return [row for row in evidence.rows if row.number == number]


def _failures(evidence: Evidence) -> Iterator[Finding]:
    """I23: what happens to servers and links is no failure of a job."""
    for one in evidence.tries:
        if one.outcome in ("failed", "timed_out"):
            yield Finding(UNFINISHED, 0, f"{one.job}: attempt {one.fence} is recorded as {one.outcome}")
    for row in evidence.rows:
        if row.failures or row.outcome in ("failed", "timed_out"):
            text = f"{row.job} {row.state} by {row.outcome} with {row.failures} failures"
            yield Finding(UNFINISHED, row.number, text)


def _cancels(evidence: Evidence) -> Iterator[Finding]:
    for one in evidence.asides:
        if one.word != CANCEL or one.answer != DONE:
            continue
        for row in _rows(evidence, one.number):
            if row.state != "cancelled":
                yield Finding(DEAF, one.number, f"{row.job} was cancelled, and is {row.state}")
        for line in evidence.lines:
            if line.number == one.number and line.word == START and line.at > one.at + BITES:
                text = f"{line.job} started {line.at - one.at:.3f} s after it was cancelled"
                yield Finding(DEAF, one.number, text)


def _clashes(evidence: Evidence) -> Iterator[Finding]:
    for one in evidence.asides:
        if one.word == CLASH and one.answer == DONE:
            yield Finding(CLASHED, one.number, "its key was accepted for other work")


def _output(evidence: Evidence) -> Iterator[Finding]:
    """Every attempt of `recite` that succeeded has its numbered lines, and the last says how many there were."""
    for row in evidence.rows:
        order = evidence.told.get(row.number)
        if row.outcome != "succeeded" or order is None or order.kind != "linger":
            continue
        lines = evidence.said.get((row.job, row.fence), "").splitlines()
        start = f"{row.number} {row.fence}"
        wanted = [*(f"{start} {place}" for place in range(1, len(lines))), f"{start} of {len(lines) - 1}"]
        if lines != wanted:
            yield Finding(MUTILATED, row.number, f"{row.job}: attempt {row.fence} has said {lines[:30]}")
