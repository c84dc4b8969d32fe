"""The client for events: pages without loss or repetition, filters by workflow and schedule."""

from __future__ import annotations

from typing import Any

from rota.clients.events import EventsClient, EventSelection
from rota.model.events import EventFilter, EventPlace
from rota.model.job import Membership
from rota.model.principal import LOCAL, SYSTEM
from tests.contracts.world import DONE, World, settled

WORKFLOW = "01900000-0000-7000-8000-000000000001"
ALL = EventFilter()


async def ended(world: World, count: int, **changes: Any) -> list[str]:
    """Jobs that end together, so that one entry tells of all."""
    actor = await world.node()
    jobs = await world.several(count, **changes)
    claimed = [one for one in await actor.claim() if one.job_id in jobs]
    await world.store.finish(SYSTEM, [settled(one, DONE) for one in claimed])
    return jobs


async def walk(world: World, which: EventFilter, limit: int) -> list[str]:
    client, selection = EventsClient(world.store, LOCAL), EventSelection(world.store, LOCAL, which)
    after, found = EventPlace(0), []
    for _ in range(100):
        page = await client.page(after, selection, limit)
        assert len(page.events) <= limit
        found += [event.subject for event in page.events]
        after = page.last
    return found


async def test_an_entry_of_many_jobs_is_an_event_for_each(world: World) -> None:
    jobs = await ended(world, 5) + await ended(world, 3)
    which = EventFilter(kinds=("job.succeeded",))
    for limit in (1, 2, 3, 100):
        assert sorted(await walk(world, which, limit)) == sorted(jobs)
        assert len(await walk(world, which, limit)) == 8


async def test_jobs_of_one_workflow(world: World) -> None:
    await ended(world, 2)
    member = Membership(WORKFLOW, "plan")
    mine = await ended(world, 2, workflow=member)
    assert sorted(await walk(world, EventFilter(workflow=WORKFLOW), 10)) == sorted(mine)
    assert await walk(world, EventFilter(schedule="none"), 10) == []


async def test_following_ends_when_all_is_told(world: World) -> None:
    jobs = await ended(world, 4)
    client = EventsClient(world.store, LOCAL)
    told = [event async for event in client.follow(EventPlace(0), ALL, follow=False)]
    assert {event.subject for event in told if event.of_job} == set(jobs)
    assert {event.data["task"] for event in told if event.of_job} == {"true"}
