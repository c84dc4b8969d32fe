"""Compares the heap of due jobs with the store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple, TypeVar

from rota.hot.heap import HORIZON, PAGE, DueHeap
from rota.model.principal import SYSTEM
from rota.model.times import Instant
from rota.store.base import Store
from rota.store.hints import ScheduledJob

T = TypeVar("T", bound=tuple[object, ...])
EXAMPLES = 10


class HeapCheck(NamedTuple):
    scheduled: int  # jobs of the store that are due within the horizon
    entries: int  # of the heap
    missing: list[ScheduledJob]  # in the heap, or there at a later time; the first ones
    missing_count: int
    idle: list[ScheduledJob]  # entries without such a job; harmless
    idle_count: int


async def check(store: Store, heap: DueHeap) -> HeapCheck:
    """Walks both in the order of time. Raises HotAway or HotRefused. On a busy store some jobs are on their way, and
    count as differences. An entry may be earlier than its job: a delay counts from the store's clock, which nobody else
    knows to the microsecond."""
    now = store.now()
    until = now + HORIZON
    scheduled = entries = missing_count = 0
    missing: list[ScheduledJob] = []
    unmatched: dict[str, ScheduledJob] = {}  # entries so far
    async for at, wanted, found in _by_time(_scheduled(store, now, until), _entries(heap, until)):
        scheduled, entries = scheduled + len(wanted), entries + len(found)
        unmatched |= {job: ScheduledJob(at, job) for job in sorted(found)}
        lacking = sorted(job for job in wanted if unmatched.pop(job, None) is None)
        missing_count += len(lacking)
        missing += [ScheduledJob(at, job) for job in lacking[: EXAMPLES - len(missing)]]
    return HeapCheck(scheduled, entries, missing, missing_count, list(unmatched.values())[:EXAMPLES], len(unmatched))


async def _scheduled(store: Store, now: Instant, until: Instant) -> AsyncIterator[ScheduledJob]:
    after = ScheduledJob(now, "")
    while page := await store.scheduled_jobs(SYSTEM, after, until, PAGE):
        for job in page:
            yield job
        after = page[-1]


async def _entries(heap: DueHeap, until: Instant) -> AsyncIterator[ScheduledJob]:
    async for entry in heap.entries():
        if entry.at > until:
            return
        yield ScheduledJob(entry.at, entry.job)


async def _by_time(
    left: AsyncIterator[ScheduledJob], right: AsyncIterator[ScheduledJob]
) -> AsyncIterator[tuple[Instant, set[str], set[str]]]:
    """The ids of both sides at each instant."""
    sides = (left, right)
    heads = [await anext(side, None) for side in sides]
    while left_over := [head.at for head in heads if head is not None]:
        at = min(left_over)
        found: tuple[set[str], set[str]] = (set(), set())
        for index, side in enumerate(sides):
            while (head := heads[index]) is not None and head.at == at:
                found[index].add(head.id)
                heads[index] = await anext(side, None)
        yield at, *found
