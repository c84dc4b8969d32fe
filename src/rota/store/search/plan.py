"""What a search can make use of, before anything is read: bounds of ids and of times, and small sets of jobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rota.model.query.tree import All, Condition, How, Term
from rota.model.times import DAY, HOUR, MINUTE, Instant
from rota.store.values import JobFilter

# An id begins with the time at which its client made it. It may be so much ahead of the store's clock, and so much
# older than the order: a job beyond that may be missed by searches for a time of ordering. The id of a fire begins with
# the time of the fire, which may be years ago if it was made up for: these are looked for in the table of fires (LATE).
# A list that ends at a time begins `AHEAD` behind it, with jobs that don't fit, so this is no longer than clocks need.
AHEAD, BEHIND = 5 * MINUTE, DAY
# The fires in the index for those that were made up for: a little less than what is looked for.
LATE = 20 * HOUR
LOWEST, HIGHEST = "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"


def id_at(moment: Instant) -> str:
    """The lowest id of that time."""
    stamp = f"{min(max(moment // 1000, 0), (1 << 48) - 1):012x}"
    return f"{stamp[:8]}-{stamp[8:]}-0000-0000-000000000000"


def time_of(job_id: str) -> Instant:
    try:
        return int(job_id[:8] + job_id[9:13], 16) * 1000
    except ValueError:  # an id of another making
        return 0


class Span(NamedTuple):
    """A range of instants; None: open. Both ends belong to it."""

    low: Instant | None = None
    high: Instant | None = None

    def __and__(self, other: Span) -> Span:
        lows = [one for one in (self.low, other.low) if one is not None]
        highs = [one for one in (self.high, other.high) if one is not None]
        return Span(max(lows, default=None), min(highs, default=None))

    @property
    def given(self) -> bool:
        return self.low is not None or self.high is not None


class Bounds(NamedTuple):
    """What every job that fits has in common."""

    created: Span
    finished: Span
    owner: str | None
    schedule: str | None
    workflow: str | None  # its id or its name
    ids: tuple[str, ...] | None
    running: bool
    group: str | None  # of errors
    tasks: tuple[str, ...] | None  # the tasks of all of them

    @property
    def highest(self) -> str:
        """No job that fits has a higher id: it was ordered before it ended."""
        highs = [one.high for one in (self.created, self.finished) if one.high is not None]
        return id_at(min(highs) + AHEAD) if highs else HIGHEST

    @property
    def lowest(self) -> str:
        return LOWEST if self.created.low is None else id_at(self.created.low - BEHIND)


def bounds(query: JobFilter) -> Bounds:
    terms = list(needed_terms(query.where)) if query.where is not None else []
    exact = {term.field: term.value for term in terms if term.how is How.IS and isinstance(term.value, str)}
    whole = exact.get("id") if len(exact.get("id", "")) == len(LOWEST) else None
    return Bounds(
        created=span_of(terms, "created") & _half_open(query.created_after, query.created_before),
        finished=span_of(terms, "finished") & _half_open(query.ended_after, query.ended_before),
        owner=exact.get("user"),
        schedule=query.schedule or exact.get("schedule"),
        workflow=query.workflow or exact.get("workflow"),
        ids=query.ids if query.ids is not None else (whole,) if whole else None,
        group=query.group or exact.get("group"),
        tasks=(exact["task"],) if "task" in exact else query.tasks,
        running=exact.get("state") == "running" or query.states == ("running",),
    )


def needed_terms(condition: Condition) -> Iterator[Term]:
    """Terms that everything must fit that fits the condition."""
    match condition:
        case Term():
            yield condition
        case All(of):
            for one in of:
                yield from needed_terms(one)
        case _:
            pass


def _half_open(after: Instant | None, before: Instant | None) -> Span:
    return Span(after, None if before is None else before - 1)


def span_of(terms: list[Term], field: str) -> Span:
    span = Span()
    for term in terms:
        if term.field == field and isinstance(term.value, int):
            span &= _OF[term.how](term.value) if term.how in _OF else Span()
    return span


_OF = {
    How.IS: lambda at: Span(at, at),
    How.BELOW: lambda at: Span(None, at - 1),
    How.AT_MOST: lambda at: Span(None, at),
    How.ABOVE: lambda at: Span(at + 1, None),
    How.AT_LEAST: lambda at: Span(at, None),
}
