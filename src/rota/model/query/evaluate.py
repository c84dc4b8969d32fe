"""Decides a condition for one job, or for one line of output.

This is the oracle: stores translate conditions to SQL, and a property test compares. So each comparison is one that
SQLite and PostgreSQL can make exactly:

- A missing value fits `IS None` alone. A field of several values fits if one of them does; it is missing if there is
  none.
- Texts are compared by code points. `HAS` ignores the case of ASCII letters alone.
- In JSON a text fits texts alone, a number numbers alone; true and false are no numbers; null is missing, and so is
  what a path does not lead to. A part of a path names a member of an object, or counts items of an array from 0.
  Arrays and objects fit nothing but "not missing". Whole numbers of 64 bits are exact, all others doubles.
- An id fits by its beginning or its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any as Anything

import msgspec

from rota.model.globs import glob_fits
from rota.model.job import JobInfo
from rota.model.query.fields import FIELDS, Field, Type
from rota.model.query.normal import Leaf, all_of, any_of, opposite, replaced
from rota.model.query.tree import EVERYTHING, NOTHING, All, Any, Condition, How, Not, Term, Text
from rota.model.query.words import contains, text_fits
from rota.model.times import Instant, as_instant

Value = str | int | float | bool
_EXACT = 1 << 63


class OutputLine(msgspec.Struct, frozen=True):
    """A line of output, as conditions see it."""

    text: str
    at: Instant
    stream: str
    attempt: int
    level: str | None = None


def fits(condition: Condition, job: JobInfo, workflow: str | None = None, line: OutputLine | None = None) -> bool:
    """Whether the condition holds. `workflow`: the name of the job's workflow, if it has one. Without a line, texts
    are looked for in the job, and fields of lines are missing."""
    return holds(condition, lambda leaf: _decide(leaf, job, workflow, line))


def holds(condition: Condition, decide: Callable[[Leaf], bool]) -> bool:
    match condition:
        case All(of):
            return all(holds(one, decide) for one in of)
        case Any(of):
            return any(holds(one, decide) for one in of)
        case Not(of):
            return not holds(of, decide)
        case leaf:
            return decide(leaf)


def _decide(leaf: Leaf, job: JobInfo, workflow: str | None, line: OutputLine | None) -> bool:
    if isinstance(leaf, Text):
        return any(text_fits(leaf, text) for text in (texts_of(job) if line is None else (line.text,)))
    if FIELDS[leaf.field].of_line:
        return line_fits(leaf, line)
    return term_fits(leaf, job_values(leaf, job, workflow))


# Searches of output: one condition, decided in part for the job and in part for its lines


def needed_of_job(condition: Condition) -> Condition:
    """What every job must fit that has a line that fits: a condition on jobs alone, to select them by."""
    return _needed(condition, of_line, True)


def needed_of_line(condition: Condition) -> Condition:
    """What every line must fit, whatever its job and the number of its attempt: a condition on lines alone."""
    return _needed(condition, lambda leaf: not of_line(leaf) or _of_attempt(leaf), True)


def _of_attempt(leaf: Leaf) -> bool:
    return isinstance(leaf, Term) and leaf.field == "attempt"


def _needed(condition: Condition, unknown: Callable[[Leaf], bool], positive: bool) -> Condition:
    """A leaf that is not known may hold or not: it counts as what lets more through."""
    match condition:
        case All(of):
            return all_of(_needed(one, unknown, positive) for one in of)
        case Any(of):
            return any_of(_needed(one, unknown, positive) for one in of)
        case Not(of):
            return opposite(_needed(of, unknown, not positive))
        case leaf if unknown(leaf):
            return EVERYTHING if positive else NOTHING
        case leaf:
            return leaf


def left_for_lines(condition: Condition, job: JobInfo, workflow: str | None = None) -> Condition:
    """The condition on the lines of this job, with all that concerns the job decided. `NOTHING`: none can fit."""

    def decided(leaf: Leaf) -> Condition:
        if isinstance(leaf, Text) or of_line(leaf):
            return leaf
        return EVERYTHING if term_fits(leaf, job_values(leaf, job, workflow)) else NOTHING

    return replaced(condition, decided)


def of_line(leaf: Leaf) -> bool:
    """In a search of output: whether it is decided by the line."""
    return isinstance(leaf, Text) or FIELDS[leaf.field].of_line


def line_holds(condition: Condition, line: OutputLine) -> bool:
    """A condition on lines alone, as `left_for_lines` leaves it."""
    return holds(
        condition, lambda leaf: text_fits(leaf, line.text) if isinstance(leaf, Text) else line_fits(leaf, line)
    )


def line_fits(term: Term, line: OutputLine | None) -> bool:
    value = None if line is None else getattr(line, term.field)
    return term_fits(term, () if value is None else (value,))


# One term


def term_fits(term: Term, values: Iterable[Anything]) -> bool:
    """Whether one of the values of its field fits; `values` is empty if the field is missing."""
    found = list(values)
    if term.value is None:
        return not found
    return any(_compared(FIELDS[term.field], term.how, value, term.value) for value in found)


def _compared(field: Field, how: How, value: Anything, wanted: Value) -> bool:
    if field.type is Type.ID:
        return isinstance(wanted, str) and (value.startswith(wanted) or value.endswith(wanted))
    if field.type is Type.JSON:
        value, wanted = _exact(value), _exact(wanted)
        if _sort_of(value) is None or _sort_of(value) != _sort_of(wanted):
            return False
    elif field.ordered:
        if value not in field.words:  # a level of another library: it has no place among ours
            return False
        value, wanted = field.words.index(value), field.words.index(str(wanted))
    return _COMPARISONS[how](value, wanted)


_COMPARISONS: Mapping[How, Callable[[Anything, Anything], bool]] = {
    How.IS: lambda value, wanted: bool(value == wanted),
    How.LIKE: lambda value, wanted: glob_fits(wanted, value),
    How.HAS: contains,
    How.BELOW: lambda value, wanted: bool(value < wanted),
    How.AT_MOST: lambda value, wanted: bool(value <= wanted),
    How.ABOVE: lambda value, wanted: bool(value > wanted),
    How.AT_LEAST: lambda value, wanted: bool(value >= wanted),
}


def _sort_of(value: object) -> str | None:
    if isinstance(value, bool):
        return "truth"
    return "text" if isinstance(value, str) else "number" if isinstance(value, int | float) else None


def _exact(value: Anything) -> Anything:
    """Whole numbers beyond 64 bits are doubles."""
    if isinstance(value, int) and not -_EXACT <= value < _EXACT:
        try:
            return float(value)
        except OverflowError:
            return float("inf") if value > 0 else float("-inf")
    return value


# The values of a job


def texts_of(job: JobInfo) -> Iterator[str]:
    """Where a text without a field is looked for, each by itself."""
    yield job.task
    yield from job.labels
    if job.error is not None:
        yield job.error.message
        yield job.error.type


def job_values(term: Term, job: JobInfo, workflow: str | None = None) -> list[Anything]:
    """The values of the term's field: none if it is missing."""
    if FIELDS[term.field].type is Type.JSON:
        found = [at_path(getattr(job, term.field), term.path)]
    elif term.field == "label":
        found = list(job.labels)
    elif term.field == "workflow":
        found = [job.workflow, workflow]
    else:
        found = [_VALUES[term.field](job)]
    return [_plain(value) for value in found if value is not None]


def at_path(value: Anything, path: tuple[str, ...]) -> Anything:
    """The value that a path leads to, or None."""
    for part in path:
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and part.isascii() and part.isdigit() and (part == "0" or part[0] != "0"):
            value = value[int(part)] if len(part) < 10 and int(part) < len(value) else None
        else:
            return None
    return value


def _plain(value: Anything) -> Anything:
    return as_instant(value) if isinstance(value, datetime) else value


def _between(start: datetime | None, end: datetime | None) -> int | None:
    """Missing too if they are not of the same attempt: the end is before the start."""
    if start is None or end is None or end < start:
        return None
    return as_instant(end) - as_instant(start)


def _exit(job: JobInfo) -> int | None:
    ended = [attempt.exit_code for attempt in job.attempts if attempt.finished_at is not None]
    return ended[-1] if ended else None


_VALUES: Mapping[str, Callable[[JobInfo], Anything]] = {
    "id": lambda job: job.id,
    "name": lambda job: job.name or None,
    "state": lambda job: job.state.value,
    "kind": lambda job: job.kind.value,
    "queue": lambda job: job.queue,
    "task": lambda job: job.task,
    "user": lambda job: job.owner,
    "key": lambda job: job.key,
    "schedule": lambda job: job.schedule,
    "node": lambda job: job.node,
    "priority": lambda job: job.priority,
    "created": lambda job: job.created_at,
    "due": lambda job: job.run_at,
    "started": lambda job: job.started_at,
    "finished": lambda job: job.finished_at,
    "expires": lambda job: job.expires_at,
    "took": lambda job: _between(job.started_at, job.finished_at),
    "waited": lambda job: _between(job.run_at, job.started_at),
    "tries": lambda job: job.attempts[-1].number if job.attempts else 0,
    "failures": lambda job: job.failures,
    "crashes": lambda job: job.crashes,
    "interruptions": lambda job: job.interruptions,
    "replays": lambda job: job.replays,
    "reason": lambda job: job.reason,
    "error": lambda job: None if job.error is None else job.error.message,
    "error_type": lambda job: None if job.error is None else job.error.type,
    "group": lambda job: job.error_group,
    "exit": _exit,
}
