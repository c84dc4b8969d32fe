"""Edits by version: one that names the version which it replaces happens only if no other edit came between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import date

import pytest

from rota.errors import ChangedMeanwhile
from rota.model.feedback import Feedback
from rota.model.job import shared
from rota.model.limits import Limit, Rate
from rota.model.times import SECOND
from rota.model.trigger.calendars import Calendar
from rota.model.versions import ABSENT, QueueSettings, calendar_version, limit_version, queue_version
from tests.contracts.world import ALICE, BOB, OLGA, World

OLD, NEW = Calendar("c", (date(2027, 1, 1),)), Calendar("c", (date(2027, 2, 2),))


async def refused(world: World, edit: Callable[[], Awaitable[object]]) -> None:
    async with world.unchanged():
        with pytest.raises(ChangedMeanwhile):
            await edit()


async def test_a_calendar_is_replaced_and_removed_by_version(world: World) -> None:
    store = world.store
    await refused(world, lambda: store.put_calendar(ALICE, OLD, calendar_version(NEW)))
    await store.put_calendar(ALICE, OLD, ABSENT)
    await refused(world, lambda: store.put_calendar(ALICE, NEW, ABSENT))
    await store.put_calendar(BOB, NEW, ABSENT)  # the names of users are their own
    await store.put_calendar(ALICE, NEW, calendar_version(OLD))
    await refused(world, lambda: store.remove_calendar(ALICE, "c", calendar_version(OLD)))
    assert await store.remove_calendar(ALICE, "c", calendar_version(NEW)) == []
    assert await store.calendars(BOB, "bob") == [NEW]


async def test_a_limit_is_replaced_and_removed_by_version(world: World) -> None:
    store, old, new = world.store, Limit("db", 5), Limit("db", None, Rate(60, 60 * SECOND))
    await refused(world, lambda: store.set_limit(ALICE, old, limit_version(new)))
    await store.set_limit(ALICE, old, ABSENT)
    await refused(world, lambda: store.set_limit(ALICE, new, ABSENT))
    await store.set_limit(ALICE, new, limit_version(old))
    await refused(world, lambda: store.remove_limit(ALICE, "db", limit_version(old)))
    assert await store.remove_limit(ALICE, "db", limit_version(new))


async def version(world: World) -> str:
    found = [info for info in await world.store.queues(OLGA) if info.name == "q"]
    return queue_version(QueueSettings(**shared(found[0], QueueSettings)) if found else QueueSettings())


async def test_the_settings_of_a_queue_have_one_version(world: World) -> None:
    store, first = world.store, await version(world)
    await store.set_step(OLGA, "q", SECOND, first)
    await refused(world, lambda: store.set_feedback(OLGA, "q", Feedback(), first))
    second = await version(world)
    await world.one(ALICE, queue="q")
    assert await version(world) == second  # jobs are no edit
    await store.set_feedback(OLGA, "q", Feedback(), second)
    third = await version(world)
    await store.pause_queue(OLGA, "q", "why")
    await refused(world, lambda: store.set_step(OLGA, "q", None, third))


async def test_of_edits_at_the_same_time_one_happens(world: World) -> None:
    calendars = [Calendar("c", (date(2027, 1, day),)) for day in range(1, 9)]
    answers = await asyncio.gather(
        *(world.store.put_calendar(ALICE, one, ABSENT) for one in calendars), return_exceptions=True
    )
    assert [type(one) for one in answers].count(ChangedMeanwhile) == 7
    assert await world.store.calendars(ALICE, "alice") == [calendars[answers.index(None)]]
