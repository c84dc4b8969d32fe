"""Events: a stream to be followed, or pages."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from rota.api.answers import Stream
from rota.api.event_feed import EventStream
from rota.api.pages import Limit
from rota.api.problems import Refusal
from rota.api.requests import Request
from rota.api.routes import Routes
from rota.clients.events import EventsClient, EventSelection
from rota.errors import InvalidInput
from rota.model.access import Permission
from rota.model.events import EventFilter, EventInfo, EventPlace, read_place

ROUTES = Routes("events")
Text = Annotated[str, msgspec.Meta(max_length=1_000)]
LAST_EVENT_ID = "last-event-id"


class EventQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """`after`: the id of the last event that is known; without it a stream begins with the next event, and pages with
    the first that is kept. `kind`: kinds or globs, several times. `format`: pages instead of a stream."""

    after: Annotated[str, msgspec.Meta(max_length=30)] | None = None
    kind: tuple[Text, ...] = ()
    job: Text | None = None
    task: Text | None = None
    queue: Text | None = None
    schedule: Text | None = None
    workflow: Text | None = None
    limit: Limit = 100
    format: Literal["stream", "json"] | None = None


class EventList(msgspec.Struct):
    """`next`: the parameter `after` of the next page. There may be more to come."""

    items: list[EventInfo]
    next: str


@ROUTES.get(
    "/api/v1/events",
    Permission.READ,
    "Events as a stream, or as pages with format=json",
    problems=(410,),
    takes=("Last-Event-ID",),
)
async def watch_events(request: Request[None, EventQuery]) -> Stream | EventList:
    query = request.query
    which = EventFilter(
        kinds=query.kind, job=query.job, task=query.task, queue=query.queue, schedule=query.schedule,
        workflow=query.workflow,
    )  # fmt: skip
    wants_json = "application/json" in (request.header("accept") or "")
    if query.format == "json" or (query.format is None and wants_json):
        return await _page(request, which)
    given = query.after or request.header(LAST_EVENT_ID)
    after = None if given is None else read_place(given)
    return Stream(EventStream(request.desk.events, request.principal, which).pieces(after))


async def _page(request: Request[None, EventQuery], which: EventFilter) -> EventList:
    store, who = request.desk.store, request.principal
    if request.query.after is not None:  # it goes on where a page before has ended, and expects all
        await request.desk.events.watch.renew(who, which)
    span = await store.outbox_span(who)
    after = EventPlace(span.first - 1) if request.query.after is None else read_place(request.query.after)
    if after.seq > span.last:
        raise InvalidInput("after", request.query.after, "the id of an event that has been")
    if after.seq < span.first - 1:
        goes_on = str(span.first - 1)
        raise Refusal(
            410, "events_gone", f"events behind {after.name} are not kept any more; go on with after={goes_on}",
            what="after", given=after.name, expected=f"{goes_on} or a later id",
        )  # fmt: skip
    page = await EventsClient(store, who).page(after, EventSelection(store, who, which), request.query.limit)
    return EventList(page.events, page.last.name)
