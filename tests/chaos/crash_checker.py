"""Holds what jobs noted against how crashes are counted, what their checkpoints say, and what outlived whom.

A crash has a cause, or it is a finding. Causes are: the job killed the process that it ran in, one that shared it did,
or somebody struck that process or something above it. Who killed what is known by pids.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.chaos import checker
from tests.chaos.checker import BLINK, Finding, Span, findings
from tests.chaos.evidence import Evidence, Fault, Row
from tests.chaos.figures import NEVER
from tests.chaos.saves import NOTHING, REFUSED, SAVED, SAVING, SAW, Save
from tests.chaos.witness import CRASH, SHADOW, Line
from tests.checks import checkpoints, crashes
from tests.checks.breach import BACK, HASTY, MISCOUNTED, SPARED

CAUSELESS = "crash without cause"
VICTIM = "victim twice"  # of those that shared its process: after the first time it must have one of its own
STALE = "stale attempt heard"
OUTLIVED = "outlived its controller"
BAD = (MISCOUNTED, CAUSELESS, SPARED, VICTIM, HASTY, BACK, STALE, OUTLIVED)

POISON = "poison"  # the kind of orders that always crash
LEASE = 10.0
# From a strike to the word in the database that something crashed by it: nodes that are stopped are the slowest.
REACH = 15.0
# What a tree that must go has for it.
GOING = 1.0
# Of faults that strike all that a node runs. Of the others only those processes are struck that they name.
WHOLE = ("forkserver", "keeper", "kill", "pause", "sleep")
STRIKES = (*WHOLE, "process", "host", "host stopped")


@dataclass
class Run:
    """One attempt, as far as it was witnessed, and how it ended in the database."""

    job: str
    fence: int
    lines: list[Line] = field(default_factory=list)
    outcome: str | None = None
    ended: float = 0.0  # by the monotonic clock

    @property
    def start(self) -> float:
        return min(line.at for line in self.lines)

    @property
    def last(self) -> float:
        return max(line.at for line in self.lines)

    @property
    def pids(self) -> set[int]:
        """Not of what it left behind."""
        return {line.pid for line in self.lines if line.word != SHADOW}


def check(evidence: Evidence, excused: Callable[[Span, Span], bool]) -> list[Finding]:
    runs = runs_of(evidence)
    return [
        *checker.check(evidence, excused),
        *counts(evidence, runs),
        *_poison(evidence),
        *_causes(evidence, runs),
        *waits(evidence, runs),
        *_states(evidence),
        *_stale(evidence, runs),
        *_survivors(evidence, runs),
    ]


def runs_of(evidence: Evidence) -> dict[str, list[Run]]:
    """By job, in the order of their fences."""
    found: dict[tuple[str, int], Run] = {}
    for line in evidence.lines:
        found.setdefault((line.job, line.fence), Run(line.job, line.fence)).lines.append(line)
    behind = evidence.lines[0].wall - evidence.lines[0].at if evidence.lines else 0.0
    for one in evidence.tries:
        run = found.setdefault((one.job, one.fence), Run(one.job, one.fence))
        run.outcome, run.ended = one.outcome, one.at - behind
    for row in evidence.rows:
        if row.ended and row.outcome is not None:
            run = found.setdefault((row.job, row.fence), Run(row.job, row.fence))
            run.outcome, run.ended = row.outcome, row.at - behind
    jobs: dict[str, list[Run]] = defaultdict(list)
    for (job, _), run in sorted(found.items()):
        jobs[job].append(run)
    return jobs


def _numbers(evidence: Evidence) -> dict[str, int]:
    return {row.job: row.number for row in evidence.rows}


def crashed(runs: list[Run]) -> list[Run]:
    return [run for run in runs if run.outcome == "crashed"]


# -- how it is counted ------------------------------------------------------------------------------------------------
def counts(evidence: Evidence, jobs: dict[str, list[Run]]) -> Iterator[Finding]:
    for row in evidence.rows:
        runs = jobs.get(row.job, [])
        counted = crashes.counted(row.crashes, row.failures, [run.outcome for run in runs])
        yield from findings(row.number, counted, crashes.bounded(row.crashes), about=f"{row.job}: ")


def _poison(evidence: Evidence) -> Iterator[Finding]:
    for row in evidence.rows:
        order = evidence.told.get(row.number)
        if order and order.kind.startswith(POISON) and row.ended and not _quarantined(row):
            text = f"{row.job} is {row.state} by {row.outcome} after {row.crashes} crashes"
            yield Finding(SPARED, row.number, text)


def _quarantined(row: Row) -> bool:
    return (row.state, row.outcome, row.crashes) == ("failed", "crashed", crashes.LIMIT)


def waits(evidence: Evidence, jobs: dict[str, list[Run]]) -> Iterator[Finding]:
    numbers = _numbers(evidence)
    for job, runs in jobs.items():
        count = 0
        for run, following in itertools.pairwise(runs):
            count += run.outcome == "crashed"
            if run.outcome == "crashed" and run.lines and following.lines:
                breach = crashes.paused(count, following.start - run.last, slack=BLINK)
                yield from findings(numbers.get(job, 0), breach, about=f"{job}: ")


# -- why it crashed ---------------------------------------------------------------------------------------------------
def _causes(evidence: Evidence, jobs: dict[str, list[Run]]) -> Iterator[Finding]:
    numbers = _numbers(evidence)
    suicides = [line for line in evidence.lines if line.word == CRASH]
    faults = evidence.of(*STRIKES)
    for job, runs in jobs.items():
        by_neighbours = 0
        for run in crashed(runs):
            if any(line.word == CRASH for line in run.lines):
                continue
            if any(line.pid in run.pids and line.at >= run.start for line in suicides):
                by_neighbours += 1
            elif not any(_strikes(fault, run) for fault in faults) and not _unseen(run, suicides):
                text = f"{job}: attempt {run.fence} crashed, and nobody had touched {run.pids or 'it'}"
                yield Finding(CAUSELESS, numbers.get(job, 0), text)
        if by_neighbours > 1:
            yield Finding(VICTIM, numbers.get(job, 0), f"{job} crashed {by_neighbours} times because a neighbour did")


def _strikes(fault: Fault, run: Run) -> bool:
    soon = fault.at - BLINK <= run.ended <= max(fault.at, fault.until) + REACH
    if not run.pids:  # it died before it could say a word, and so where is not known
        return soon
    if fault.kind in WHOLE:
        return soon and fault.node == run.lines[0].node and run.start <= fault.at + GOING
    return bool(run.pids & set(fault.pids)) and run.start <= max(fault.at, fault.until) + GOING


def _unseen(run: Run, suicides: list[Line]) -> bool:
    """Struck by a neighbour before it could say a word."""
    return not run.pids and any(line.at - BLINK <= run.ended <= line.at + REACH for line in suicides)


# -- what was saved ---------------------------------------------------------------------------------------------------
def _states(evidence: Evidence) -> Iterator[Finding]:
    numbers = _numbers(evidence)
    jobs: dict[str, list[Save]] = defaultdict(list)
    for save in evidence.saves:
        jobs[save.job].append(save)
    for job, saves in jobs.items():
        for saw in saves:
            if saw.word != SAW:
                continue
            before = [one for one in saves if one.fence < saw.fence and one.at < saw.at]
            asked = {one.state for one in before if one.word == SAVING}
            kept = {one.state for one in before if one.word == SAVED}
            breach = checkpoints.found(None if saw.state == NOTHING else saw.state, saw.fence, asked, kept)
            yield from findings(numbers.get(job, 0), breach, about=f"{job}: attempt {saw.fence}: ")


def _stale(evidence: Evidence, jobs: dict[str, list[Run]]) -> Iterator[Finding]:
    """What an attempt asks for when the next one has begun must be refused, and its progress is nobody's."""
    numbers = _numbers(evidence)
    asked = {(one.job, one.state): one.at for one in evidence.saves if one.word == SAVING}
    for save in evidence.saves:
        after = [run.start for run in jobs.get(save.job, []) if run.fence > save.fence and run.lines]
        if save.word == SAVED and after and asked.get((save.job, save.state), save.at) > min(after) + BLINK:
            text = f"{save.job}: {save.state} was kept for attempt {save.fence} while a later one ran"
            yield Finding(STALE, numbers.get(save.job, 0), text)
    fences = {row.job: row.fence for row in evidence.rows}
    for told in evidence.progress:
        if told.text != str(told.fence) or told.fence > fences.get(told.job, told.fence):
            text = f"{told.job}: the progress of attempt {told.fence} was told by {told.text!r}"
            yield Finding(STALE, numbers.get(told.job, 0), text)


def refusals(evidence: Evidence) -> int:
    return sum(save.word == REFUSED for save in evidence.saves)


# -- what outlived whom -----------------------------------------------------------------------------------------------
def _survivors(evidence: Evidence, jobs: dict[str, list[Run]]) -> Iterator[Finding]:
    numbers = _numbers(evidence)
    limits = [(fault, fault.at + GOING) for fault in evidence.of("kill")]
    limits += [(fault, fault.at + LEASE + GOING) for fault in evidence.of("pause")]
    for fault, limit in limits:
        for job, runs in jobs.items():
            for run in runs:
                if not run.lines or run.lines[0].node != fault.node or not run.start < fault.at < run.last:
                    continue
                if run.last > limit:
                    late = f"{run.last - limit:.3f} s too long after the {fault.kind} of {fault.node}"
                    yield Finding(OUTLIVED, numbers.get(job, 0), f"{job}: attempt {run.fence} lived {late}")


# -- figures ----------------------------------------------------------------------------------------------------------
def recoveries(evidence: Evidence, chosen: Callable[[Run], bool] = lambda run: True) -> list[float]:
    """From the last word of each attempt that was the first of its job to crash, to the next one's start, if that is
    chosen. (A host that was stopped is given time on purpose, and what crashes in it later was silent for long.)"""
    patient = {pid for fault in evidence.of("host stopped", "nap") for pid in fault.pids}
    found: list[float] = []
    for runs in runs_of(evidence).values():
        first = next((place for place, run in enumerate(runs) if run.outcome == "crashed"), None)
        if first is None or not runs[first].lines or runs[first].pids & patient:
            continue
        after = [run for run in runs[first + 1 :] if run.lines]
        if not after:
            found.append(NEVER)
        elif chosen(after[0]):
            found.append(after[0].start - runs[first].last)
    return found


def had_to_wait(evidence: Evidence, run: Run) -> bool:
    """For a keeper or fork server that was new, and had to import everything first, or that was stopped."""
    struck = evidence.of("forkserver", "keeper", "forkserver stopped", "keeper stopped")
    there = [fault for fault in struck if fault.node == run.lines[0].node]
    return any(fault.at <= run.start <= max(fault.at, fault.until) + REACH for fault in there)
