"""Walks over all jobs that fit a filter, and changes of many jobs.

A change goes page by page and names the number of jobs so far. Jobs that are ordered, or end again, after a walk has
begun are newer than its cursor, so every walk ends, and a job that is replayed and fails again is not replayed twice.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence

import msgspec

from rota.clients.jobs import PAGE, JobsClient
from rota.errors import InvalidInput
from rota.model import rank
from rota.model.job import JobInfo
from rota.model.lifecycle import INITIAL, TERMINAL, JobEvent, State, sources
from rota.model.options import check_reason
from rota.store.values import Cancelling, JobFilter

Act = Callable[[Sequence[str]], Awaitable[Sequence[bool]]]
BY_PLACE = ("id", "finished")  # orders in which a page costs only itself; others sort all jobs for each
LARGEST_SORTED = 1_000


class Changes(msgspec.Struct, frozen=True):
    """How many jobs were found, and how many of them were changed; the others had moved on meanwhile."""

    matched: int = 0
    changed: int = 0


class Change(msgspec.Struct, frozen=True):
    """A change of many jobs: the states in which a job can be changed, and the call that does it."""

    name: str
    states: frozenset[State]
    act: Act

    def filter(self, query: JobFilter) -> JobFilter:
        """The jobs of the query that can be changed. A query without a condition is refused: it is more often a
        variable that happens to be None than the wish to change all jobs."""
        if query == JobFilter(limit=query.limit):
            expected = "at least one condition; `state=` with several states is one"
            raise InvalidInput(f"{self.name} many jobs", "no condition", expected)
        states = tuple(State) if query.states is None else query.states
        return msgspec.structs.replace(query, states=tuple(state for state in states if state in self.states))


def cancelling(client: JobsClient, reason: str) -> Change:
    check_reason(reason)

    async def act(ids: Sequence[str]) -> list[bool]:
        answers = await client.cancel(ids, reason)
        return [answer in (Cancelling.CANCELLED, Cancelling.REQUESTED) for answer in answers]

    return Change("cancel", sources(JobEvent.CANCEL), act)


def retrying(client: JobsClient) -> Change:
    return Change("retry", sources(JobEvent.REPLAY) | {State.SCHEDULED}, client.retry)


def replaying(client: JobsClient) -> Change:
    return Change("replay", sources(JobEvent.REPLAY), client.replay)


def purging(client: JobsClient) -> Change:
    return Change("purge", TERMINAL, client.purge)


def reprioritising(client: JobsClient, priority: int) -> Change:
    chosen = rank.priority(priority)  # refused also if no job fits
    return Change("reprioritise", INITIAL, lambda ids: client.reprioritise(ids, chosen))


def page_size(query: JobFilter) -> int:
    """How many jobs a page of a walk should have."""
    return PAGE if query.order.field in BY_PLACE else LARGEST_SORTED


async def pages(client: JobsClient, query: JobFilter, wanted: int | None = None) -> AsyncIterator[list[JobInfo]]:
    """All jobs that fit. Empty pages are left out. `wanted`: the caller takes no more jobs than that."""
    size = page_size(query)
    query = msgspec.structs.replace(query, limit=size if wanted is None else min(wanted, size))
    while True:
        page = await client.page(query)
        if page.jobs:
            yield page.jobs
        if page.last is None:
            return
        query = msgspec.structs.replace(query, after=page.last)


async def changes(client: JobsClient, query: JobFilter, change: Change) -> AsyncGenerator[Changes, None]:
    """Changes all jobs that fit and can be changed, in no order of the caller's; yields the numbers so far after each
    page."""
    matched = changed = 0
    query = msgspec.structs.replace(query, sort=None)
    async for page in pages(client, change.filter(query)):
        answers = await change.act([job.id for job in page])
        matched, changed = matched + len(page), changed + sum(answers)
        yield Changes(matched, changed)
