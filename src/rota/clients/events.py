"""The client for events of one user. The HTTP API and `rota events` use it."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import NamedTuple

from rota.clients.jobs import NewsListener
from rota.model.events import EventFilter, EventInfo, EventPlace, expand, read_place
from rota.model.principal import Principal
from rota.store.base import Store
from rota.store.values import JobFilter, OutboxEvent

PAGE = 500
POLL = 0.5
RENEW = 20.0  # seconds between two requests for orders and starts: several may fail before a watch is over
# Jobs whose schedule and workflow are remembered.
MOST_KNOWN = 10_000


class EventSelection:
    """Chooses the events that fit a filter. Looks up the workflow and schedule of jobs where the filter asks for them;
    neither ever changes, so each job is looked up once."""

    def __init__(self, store: Store, who: Principal, filter_: EventFilter) -> None:
        self._store, self._who, self.filter = store, who, filter_
        self._known: OrderedDict[str, bool] = OrderedDict()

    async def of(self, events: Iterable[EventInfo]) -> list[EventInfo]:
        fitting = [event for event in events if self.filter.fits(event)]
        if not self.filter.by_membership:
            return fitting
        await self._look_up({event.subject for event in fitting if event.of_job})
        return [event for event in fitting if not event.of_job or self._known.get(event.subject, False)]

    async def _look_up(self, jobs: set[str]) -> None:
        unknown = sorted(jobs - self._known.keys())
        for start in range(0, len(unknown), PAGE):
            part = tuple(unknown[start : start + PAGE])
            query = JobFilter(ids=part, workflow=self.filter.workflow, schedule=self.filter.schedule, limit=len(part))
            found = {info.id for info in await self._store.find(self._who, query)}
            self._known |= {job: job in found for job in part}
        while len(self._known) > max(MOST_KNOWN, len(jobs)):
            self._known.popitem(last=False)


def events_after(rows: Sequence[OutboxEvent], after: EventPlace) -> list[EventInfo]:
    """The events of these entries behind a place."""
    found: list[EventInfo] = []
    for row in rows:
        events = list(expand(row.seq, row.at, row.kind, row.owner, row.subject, row.data))
        if row.seq == after.seq:
            events = [event for event in events if 0 <= after.place < read_place(event.id).place]
        found += events
    return found


class EventWatch:
    """Has orders and starts of jobs told to whoever listens (`Store.watch`), and renews it in time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._next: dict[str, float] = {}  # by user, when to renew

    async def renew(self, who: Principal, filter_: EventFilter) -> None:
        now = asyncio.get_running_loop().time()
        if filter_.watches and now >= self._next.get(who.user, 0.0):
            await self._store.watch(who)
            self._next[who.user] = now + RENEW


class EventPage(NamedTuple):
    """`last`: where the next page begins; `more`: there may be more at once."""

    events: list[EventInfo]
    last: EventPlace
    more: bool


class EventsClient:
    def __init__(self, store: Store, who: Principal) -> None:
        self._store, self._who = store, who
        self._watch = EventWatch(store)

    async def watch(self, filter_: EventFilter) -> None:
        """To be called before the first page: what the filter wants is told from now on."""
        await self._watch.renew(self._who, filter_)

    async def page(
        self, after: EventPlace, selection: EventSelection, limit: int = PAGE, until: int | None = None
    ) -> EventPage:
        """At most `limit` events that fit. `until`: only of entries up to this position."""
        # The entry of a place inside it is read again.
        rows = await self._store.events(self._who, after.seq - 1 if after.place >= 0 else after.seq, limit)
        inside = rows if until is None else [row for row in rows if row.seq <= until]
        kept = await selection.of(events_after(inside, after))
        if len(kept) > limit:
            return EventPage(kept[:limit], read_place(kept[limit - 1].id), True)
        last = EventPlace(inside[-1].seq) if inside else after
        return EventPage(kept, last, len(inside) == limit)

    async def follow(self, after: EventPlace, filter_: EventFilter, follow: bool = True) -> AsyncIterator[EventInfo]:
        """The events behind a place that fit, and with `follow` those to come."""
        selection = EventSelection(self._store, self._who, filter_)
        news = NewsListener(self._store) if follow else None
        try:
            while True:
                if follow:
                    await self.watch(filter_)
                events, after, more = await self.page(after, selection)
                for event in events:
                    yield event
                if not more and news is None:
                    return
                if not more and news is not None:
                    await news.wait(POLL)
        finally:
            if news is not None:
                news.close()

    async def now(self) -> EventPlace:
        return EventPlace((await self._store.outbox_span(self._who)).last)
