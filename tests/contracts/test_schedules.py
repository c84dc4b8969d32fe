"""Schedules: kept, replaced, paused, resumed, removed, set aside; each change only on what its maker has seen."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from rota.errors import NotAllowed
from rota.model.principal import LOCAL, SYSTEM
from rota.model.times import HOUR, MINUTE, SECOND, instant
from rota.model.trigger.policies import Overlap
from rota.model.trigger.records import FireKind, ScheduleFilter, StoredSchedule
from rota.model.trigger.rules import Every
from rota.model.trigger.skipped import Skipped, SkipReason
from rota.store.base import Store
from rota.store.values import Topic
from tests.contracts.timetables import (
    NAME,
    behind,
    events,
    fires_at,
    gone,
    history,
    keep,
    minutely,
    move_on,
    new,
    skipped,
    standing,
    step,
    tick,
)
from tests.contracts.world import ALICE, BOB, World

# -- kept -------------------------------------------------------------------------------------------------------------


async def test_a_schedule_comes_out_as_it_went_in(world: World) -> None:
    now = world.clock.now()
    wanted = new(minutely(who=ALICE, overlap=Overlap.QUEUE), now - 5, app="billing")
    assert await world.store.put_schedule(ALICE, wanted, None)
    info = await standing(world, who=ALICE)
    assert info == StoredSchedule(
        owner="alice", name=NAME, revision=info.revision, timing=wanted.timing, work=wanted.work, app="billing",
        created_at=now, changed_at=now, handled=now - 5, next_at=wanted.next_at, fired=0,
    )  # fmt: skip
    assert not info.paused


async def test_one_whose_maker_has_a_fast_clock_begins_now(world: World) -> None:
    """A little fast: as worked out. Far ahead: it is looked at, so that nothing in between is lost."""
    now = world.clock.now()
    for name, ahead, next_at in (("a", 1_000, now + MINUTE), ("b", 5 * MINUTE, now)):
        assert await world.store.put_schedule(LOCAL, new(minutely(name), now + ahead), None)
        info = await standing(world, name)
        assert (info.handled, info.next_at) == (now, next_at)
        again = new(minutely(name, overlap=Overlap.SKIP), now + ahead)
        if ahead < SECOND:
            assert await world.store.put_schedule(LOCAL, again, info.revision)
            info = await standing(world, name)
            assert (info.handled, info.next_at) == (now, next_at)


@pytest.mark.parametrize("name", ["x", "n" * 200, "naïve ☃ 𝄞", "a'; --", '["json"]', "%s :name ?1 $1"])
async def test_a_name_may_be_any_text(world: World, name: str) -> None:
    await keep(world, name)
    await tick(world, name)
    info = await standing(world, name)
    assert (info.name, info.fired) == (name, 1)
    assert await world.store.pause_schedule(LOCAL, name, "n")
    assert await world.store.remove_schedule(LOCAL, name, info.revision + 1, info.handled, [])
    assert len(await history(world, name)) == 1


async def test_a_name_that_is_taken_stays_as_it_is(world: World) -> None:
    await keep(world)
    world.clock.advance(1)
    async with world.unchanged():
        assert not await world.store.put_schedule(LOCAL, new(minutely(rule=Every(HOUR)), world.clock.now()), None)


async def test_two_users_may_have_schedules_of_one_name(world: World) -> None:
    mine, hers = await keep(world), await keep(world, who=ALICE)
    assert (mine.owner, hers.owner) == ("local", "alice")
    assert [info.owner for info in await world.store.schedules(SYSTEM, ScheduleFilter())] == ["alice", "local"]


async def test_of_two_that_are_new_at_once_one_is_kept(world: World, another: Store) -> None:
    wanted = new(minutely(), world.clock.now())
    answers = await asyncio.gather(*(store.put_schedule(LOCAL, wanted, None) for store in (world.store, another) * 5))
    assert answers.count(True) == 1
    assert len(await events(world)) == 1


# -- replaced ---------------------------------------------------------------------------------------------------------


async def test_it_is_replaced_by_who_knows_its_revision(world: World) -> None:
    before = await keep(world)
    await tick(world)
    world.clock.advance(10)
    now = world.clock.now()
    wanted = new(minutely(rule=Every(HOUR), overlap=Overlap.SKIP), now, app="other")
    assert await world.store.put_schedule(LOCAL, wanted, before.revision)
    info = await standing(world)
    assert info.revision > before.revision
    assert (info.timing, info.work, info.app) == (wanted.timing, wanted.work, "other")
    assert (info.created_at, info.changed_at, info.handled) == (before.created_at, now, now)
    assert (info.next_at, info.fired) == (wanted.next_at, 1)
    assert info.last_fire == before.next_at


@pytest.mark.parametrize("off", [-1, 1])
async def test_it_is_not_replaced_by_who_has_seen_another_revision(world: World, off: int) -> None:
    info = await keep(world)
    async with world.unchanged():
        wanted = new(minutely(rule=Every(HOUR)), world.clock.now())
        assert not await world.store.put_schedule(LOCAL, wanted, info.revision + off)


async def test_what_is_not_there_is_not_replaced(world: World) -> None:
    async with world.unchanged():
        assert not await world.store.put_schedule(LOCAL, new(minutely(), world.clock.now()), 1)


async def test_it_is_not_replaced_while_something_is_due_that_was_not_handled(world: World) -> None:
    info = await keep(world)
    world.clock.advance(60)
    wanted = new(minutely(rule=Every(HOUR)), world.clock.now())
    async with world.unchanged():
        assert not await world.store.put_schedule(LOCAL, wanted, info.revision)
    await move_on(world)
    assert await world.store.put_schedule(LOCAL, wanted, info.revision)


async def test_the_cursor_never_moves_back(world: World) -> None:
    info = await keep(world)
    earlier = new(minutely(), info.handled - HOUR, next_at=info.next_at)
    assert await world.store.put_schedule(LOCAL, earlier, info.revision)
    assert (await standing(world)).handled == info.handled


async def test_a_replacement_clears_what_was_broken_and_leaves_a_pause(world: World) -> None:
    info = await keep(world)
    await world.store.pause_schedule(LOCAL, NAME, "holidays")
    paused = await standing(world)
    assert await world.store.set_aside_schedule(SYSTEM, "local", NAME, paused.revision, "no such zone")
    wanted = new(minutely(rule=Every(HOUR)), world.clock.now())
    assert await world.store.put_schedule(LOCAL, wanted, paused.revision)
    after = await standing(world)
    assert (after.broken, after.next_at) == (None, wanted.next_at)
    assert (after.paused_at, after.paused_by, after.note) == (info.created_at, "local", "holidays")


async def test_of_two_edits_at_once_one_takes_hold(world: World, another: Store) -> None:
    info = await keep(world)
    wanted = [new(minutely(rule=Every((2 + n) * MINUTE)), world.clock.now()) for n in range(6)]
    stores = [world.store, another] * 3
    answers = await asyncio.gather(
        *(store.put_schedule(LOCAL, one, info.revision) for store, one in zip(stores, wanted, strict=True))
    )
    assert answers.count(True) == 1
    assert (await standing(world)).timing == wanted[answers.index(True)].timing


# -- paused and resumed -----------------------------------------------------------------------------------------------


async def test_a_pause_says_who_when_and_why(world: World) -> None:
    before = await keep(world, who=ALICE)
    world.clock.advance(1)
    paused_at = world.clock.now()
    assert await world.store.pause_schedule(ALICE, NAME, "holidays")
    info = await standing(world, who=ALICE)
    assert info.paused
    assert (info.paused_at, info.paused_by, info.note) == (paused_at, "alice", "holidays")
    assert info.revision > before.revision
    assert (info.handled, info.next_at) == (before.handled, before.next_at)
    world.clock.advance(1)
    assert await world.store.pause_schedule(ALICE, NAME, "illness")
    again = await standing(world, who=ALICE)
    assert (again.paused_at, again.note) == (paused_at, "illness"), "it has been paused since then"
    assert again.revision > info.revision


async def test_a_note_may_be_any_text(world: World) -> None:
    await keep(world)
    for note in ("", "naïve ☃", "x" * 10_000, "with\0NUL"):
        assert await world.store.pause_schedule(LOCAL, NAME, note)
        assert (await standing(world)).paused


async def test_the_pause_ends(world: World) -> None:
    before = await keep(world)
    await world.store.pause_schedule(LOCAL, NAME, "holidays")
    paused = await standing(world)
    assert await world.store.resume_schedule(LOCAL, NAME, paused.revision, world.clock.now())
    info = await standing(world)
    assert (info.paused_at, info.paused_by, info.note) == (None, None, None)
    assert (info.handled, info.next_at) == (before.handled, before.next_at)
    assert info.revision > paused.revision


async def test_it_is_not_resumed_unseen(world: World) -> None:
    before = await keep(world)
    await world.store.pause_schedule(LOCAL, NAME, "holidays")
    async with world.unchanged():
        assert not await world.store.resume_schedule(LOCAL, NAME, before.revision, world.clock.now())


async def test_it_is_not_resumed_while_something_fell_into_the_pause_that_was_not_handled(world: World) -> None:
    await keep(world)
    await world.store.pause_schedule(LOCAL, NAME, "holidays")
    paused = await standing(world)
    world.clock.advance(150)
    async with world.unchanged():
        assert not await world.store.resume_schedule(LOCAL, NAME, paused.revision, world.clock.now())
    assert await move_on(world) == []
    assert await world.store.resume_schedule(LOCAL, NAME, paused.revision, world.clock.now())
    assert [(count, reason) for _, _, count, reason in await skipped(world)] == [(2, "paused")]


async def test_one_that_was_set_aside_gets_another_chance_at_once(world: World) -> None:
    info = await keep(world)
    await world.store.set_aside_schedule(SYSTEM, "local", NAME, info.revision, "no such zone")
    world.clock.advance(600)
    assert await world.store.resume_schedule(LOCAL, NAME, info.revision, world.clock.now())
    after = await standing(world)
    assert (after.broken, after.next_at) == (None, world.clock.now())
    assert after.handled == info.handled


# -- removed ----------------------------------------------------------------------------------------------------------


async def test_what_is_removed_leaves_its_history(world: World) -> None:
    await keep(world)
    _, (job,) = await tick(world)
    info = await standing(world)
    skip = Skipped(info.handled + 1, info.handled + 2, 2, SkipReason.REMOVED)
    assert await world.store.remove_schedule(LOCAL, NAME, info.revision, info.handled, [skip])
    assert await gone(world)
    found = await history(world)
    assert [(instant(one.fire), one.count, one.reason, one.job_id) for one in found] == [
        (info.handled + 1, 2, SkipReason.REMOVED, None),
        (info.last_fire, 1, None, job),
    ]
    assert (await world.info(job)).schedule == NAME


async def test_it_is_not_removed_by_who_has_not_seen_it_as_it_is(world: World) -> None:
    info = await keep(world)
    skip = [Skipped(info.handled, info.handled, 1, SkipReason.REMOVED)]
    async with world.unchanged():
        assert not await world.store.remove_schedule(LOCAL, NAME, info.revision + 1, info.handled, skip)
        assert not await world.store.remove_schedule(LOCAL, NAME, info.revision, info.handled - 1, skip)
        assert not await world.store.remove_schedule(LOCAL, "another", info.revision, info.handled, skip)


# -- set aside --------------------------------------------------------------------------------------------------------


async def test_what_was_set_aside_is_not_looked_at_again(world: World) -> None:
    info = await keep(world)
    assert await world.store.set_aside_schedule(SYSTEM, "local", NAME, info.revision, "no such zone")
    after = await standing(world)
    assert (after.broken, after.next_at, after.revision) == ("no such zone", None, info.revision)
    assert await world.store.coming_schedules(SYSTEM, world.clock.now() + HOUR, 10) == ([], None)
    assert (await events(world))[-1] == ("schedule.set_aside", "local", NAME, {"reason": "no such zone"})
    async with world.unchanged():
        assert not await world.store.set_aside_schedule(SYSTEM, "local", NAME, info.revision, "once more")
        assert await world.store.advance(SYSTEM, [step(info)]) == [None]


async def test_what_has_been_changed_meanwhile_is_not_set_aside(world: World) -> None:
    info = await keep(world)
    await world.store.pause_schedule(LOCAL, NAME, "")
    async with world.unchanged():
        assert not await world.store.set_aside_schedule(SYSTEM, "local", NAME, info.revision, "no such zone")


async def test_the_reason_may_be_any_text(world: World) -> None:
    info = await keep(world)
    assert await world.store.set_aside_schedule(SYSTEM, "local", NAME, info.revision, "it has a \0 in it, and ☃")
    assert "☃" in ((await standing(world)).broken or "")
    assert (await events(world))[-1][0] == "schedule.set_aside"


# -- to come ----------------------------------------------------------------------------------------------------------


async def test_the_earliest_come_first_up_to_an_instant_and_a_limit(world: World) -> None:
    now = world.clock.now()
    for name, later in (("c", 3), ("a", 1), ("d", 4), ("b", 2)):
        await world.store.put_schedule(LOCAL, new(minutely(name), now, next_at=now + later * SECOND), None)

    async def coming(until: int, limit: int) -> tuple[list[str], int | None]:
        found, upcoming = await world.store.coming_schedules(SYSTEM, until, limit)
        return [info.name for info in found], upcoming

    assert await coming(now, 10) == ([], now + SECOND)
    assert await coming(now + 2 * SECOND - 1, 10) == (["a"], now + 2 * SECOND)
    assert await coming(now + 2 * SECOND, 10) == (["a", "b"], now + 3 * SECOND)
    assert await coming(now + 9 * SECOND, 10) == (["a", "b", "c", "d"], None)
    some, upcoming = await coming(now + 9 * SECOND, 2)
    assert some == ["a", "b"]
    assert upcoming is not None
    assert upcoming <= now + 3 * SECOND, "those that were left out must not be looked at too late"


async def test_one_that_has_ended_does_not_come(world: World) -> None:
    await world.store.put_schedule(LOCAL, new(minutely(), world.clock.now(), next_at=None), None)
    assert await world.store.coming_schedules(SYSTEM, world.clock.now() + HOUR, 10) == ([], None)


async def test_one_that_is_broken_does_not_hide_the_others(world: World) -> None:
    await keep(world, "bad")
    await keep(world, "good")
    behind(world, "UPDATE schedules SET timing = '{', work = 'garbage' WHERE name = 'bad'")
    found, _ = await world.store.coming_schedules(SYSTEM, world.clock.now() + HOUR, 10)
    assert {info.name for info in found} == {"bad", "good"}
    assert len(await world.store.schedules(LOCAL, ScheduleFilter())) == 2


# -- looking ----------------------------------------------------------------------------------------------------------


async def test_they_are_listed_by_owner_and_name_in_pages(world: World) -> None:
    for who in (ALICE, LOCAL):
        for name in ("b", "a", "c"):
            await keep(world, name, who)
    seen: list[tuple[str, str]] = []
    after = None
    while page := await world.store.schedules(SYSTEM, ScheduleFilter(after=after, limit=2)):
        assert len(page) <= 2
        seen += [(info.owner, info.name) for info in page]
        after = seen[-1]
    assert seen == [(owner, name) for owner in ("alice", "local") for name in "abc"]
    rest = await world.store.schedules(LOCAL, ScheduleFilter(after=("local", "a")))
    assert [info.name for info in rest] == ["b", "c"]


async def test_they_are_found_by_name_and_app(world: World) -> None:
    for name, app in (("a", None), ("b", "one"), ("c", "two"), ("d", "one")):
        await world.store.put_schedule(LOCAL, new(minutely(name), world.clock.now(), app=app), None)

    async def found(names: tuple[str, ...] | None = None, app: str | None = None) -> list[str]:
        return [info.name for info in await world.store.schedules(LOCAL, ScheduleFilter(names=names, app=app))]

    assert await found(app="one") == ["b", "d"]
    assert await found(("d", "a", "none")) == ["a", "d"]
    assert await found(("a", "b"), "one") == ["b"]
    assert await found(()) == []


# -- principals -------------------------------------------------------------------------------------------------------


async def test_nobody_touches_the_schedule_of_another(world: World) -> None:
    info = await keep(world, who=ALICE)
    world.clock.advance(60)
    store = world.store
    async with world.unchanged():
        assert not await store.put_schedule(BOB, new(minutely(who=BOB), world.clock.now()), info.revision)
        assert not await store.pause_schedule(BOB, NAME, "mine")
        assert not await store.resume_schedule(BOB, NAME, info.revision, 0)
        assert not await store.remove_schedule(BOB, NAME, info.revision, info.handled, [])
        fires = fires_at(info, info.handled + MINUTE)
        assert await store.make_fires(BOB, NAME, FireKind.MANUAL, fires) is None
        assert await store.advance(BOB, [step(info, info.handled + MINUTE)]) == [None]
    assert await store.advance(ALICE, [step(info, info.handled + MINUTE)]) != [None], "one moves on one's own"


async def test_nobody_sees_the_schedules_and_fires_of_another(world: World) -> None:
    await keep(world, who=ALICE)
    world.clock.advance(60)
    await move_on(world, who=ALICE)
    assert await world.store.schedules(BOB, ScheduleFilter()) == []
    assert await world.store.fires(BOB, "alice", NAME, 2**62, 10) == []
    assert len(await world.store.fires(ALICE, "alice", NAME, 2**62, 10)) == 1
    assert len(await world.store.fires(SYSTEM, "alice", NAME, 2**62, 10)) == 1


async def test_what_services_do_is_not_for_people(world: World) -> None:
    info = await keep(world)
    async with world.unchanged():
        with pytest.raises(NotAllowed):
            await world.store.coming_schedules(LOCAL, world.clock.now(), 10)
        assert not await world.store.set_aside_schedule(ALICE, "local", NAME, info.revision, "why")
        with pytest.raises(NotAllowed):
            await world.store.release(LOCAL, 10)
    assert await world.store.set_aside_schedule(LOCAL, "local", NAME, info.revision, "why"), "but its owner may"


# -- told -------------------------------------------------------------------------------------------------------------


async def test_every_change_is_told_once_and_with_who_made_it(world: World) -> None:
    info = await keep(world, who=ALICE)
    await world.store.put_schedule(ALICE, new(minutely(who=ALICE), world.clock.now()), info.revision)
    await world.store.pause_schedule(ALICE, NAME, "")
    await world.store.resume_schedule(ALICE, NAME, info.revision + 2, world.clock.now())
    await world.store.remove_schedule(ALICE, NAME, info.revision + 3, info.handled, [])
    await world.store.pause_schedule(ALICE, NAME, "it is gone")
    kinds = ("saved", "saved", "paused", "resumed", "removed")
    more: tuple[dict[str, str], ...] = ({"how": "added"}, {"how": "changed"}, {}, {}, {})
    assert await events(world) == [
        (f"schedule.{kind}", "alice", NAME, {"by": "alice"} | data) for kind, data in zip(kinds, more, strict=True)
    ]


async def test_every_change_wakes_the_schedulers(world: World) -> None:
    heard: list[int] = []
    end = world.store.listen(frozenset({Topic.SCHEDULE}), lambda: heard.append(1))
    info = await keep(world)
    deeds: list[Callable[[], Awaitable[bool]]] = [
        lambda: world.store.put_schedule(LOCAL, new(minutely(), world.clock.now()), info.revision),
        lambda: world.store.pause_schedule(LOCAL, NAME, ""),
        lambda: world.store.resume_schedule(LOCAL, NAME, info.revision + 2, world.clock.now()),
        lambda: world.store.remove_schedule(LOCAL, NAME, info.revision + 3, info.handled, []),
    ]
    for deed in deeds:
        heard.clear()
        assert await deed()
        assert heard
    end()


async def test_a_renewal_tells_of_what_was_left_lying(world: World) -> None:
    actor = await world.node()
    await keep(world)
    heard: list[int] = []
    end = world.store.listen(frozenset({Topic.SCHEDULE}), lambda: heard.append(1))
    await actor.renew()
    assert not heard
    world.clock.advance(60)
    await actor.renew()
    assert heard
    end()
