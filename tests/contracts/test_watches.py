"""Watches: orders and starts are told while somebody listens, and what was not told is said."""

from __future__ import annotations

from typing import Any

from rota.model.events import BEGAN, EventInfo, expand
from rota.model.job import Membership
from rota.model.principal import SYSTEM, Principal
from rota.model.retry import Retry
from rota.model.times import SECOND, iso
from rota.store.base import Store
from rota.store.carriers.watches import LIFE
from tests.contracts.admission import mutex
from tests.contracts.timetables import NAME, behind, keep, step
from tests.contracts.world import ALICE, BOB, BOOM, FATAL, PLENTY, World

ORDERED, STARTED = "job.ordered", "job.started"


async def told(world: World, *kinds: str, who: Principal = ALICE) -> list[EventInfo]:
    rows = await world.store.events(who, 0, PLENTY)
    found = [one for row in rows for one in expand(row.seq, row.at, row.kind, row.owner, row.subject, row.data)]
    return [one for one in found if one.kind in kinds]


async def subjects(world: World, kind: str) -> list[str]:
    return [one.subject for one in await told(world, kind)]


async def test_nobody_watches_and_nothing_is_told(world: World) -> None:
    actor = await world.node()
    await world.one(ALICE)
    await actor.run()
    assert await told(world, ORDERED, STARTED, BEGAN) == []


async def test_orders_and_starts_are_told_while_somebody_watches(world: World) -> None:
    actor = await world.node("here")
    before = await world.one(ALICE, queue="other")
    await world.store.watch(ALICE)
    first, second = await world.several(2, ALICE)
    await actor.run(job_id=first)
    await actor.run(job_id=second)
    events = await told(world, ORDERED, STARTED)
    assert [(one.kind, one.subject) for one in events] == [
        (ORDERED, first), (ORDERED, second), (STARTED, first), (STARTED, second),
    ]  # fmt: skip
    assert before not in {one.subject for one in events}
    about: dict[str, Any] = {"queue": "default", "task": "true"}
    assert events[0].data == about
    assert events[2].data == about | {"attempt": 1, "node": "here"}
    assert {one.user for one in events} == {"alice"}


async def test_every_way_to_order_is_told(world: World) -> None:
    await world.store.watch(ALICE)
    ordered = await world.several(120, ALICE)  # PostgreSQL copies so many
    ordered += await world.submit(world.job(key="once"), who=ALICE)
    await world.submit(world.job(key="once"), who=ALICE)  # a repeat is no order
    ordered += await world.submit(world.job(requirements=mutex("k")), who=ALICE)
    parent = world.job(workflow=Membership(world.chance.job_id(world.clock.now()), "flow"))
    ordered += await world.submit(parent, world.child(parent.id, workflow=parent.workflow), who=ALICE)
    ordered += await world.submit(world.job(delay=3600 * SECOND), who=ALICE)
    info = await keep(world, who=ALICE)
    world.clock.advance(30)
    await world.store.watch(ALICE)
    world.clock.advance(30)
    plan = step(info, info.handled + 60 * SECOND)
    assert await world.store.advance(SYSTEM, [plan])
    ordered.append(plan.fires[0].job.id)
    assert sorted(await subjects(world, ORDERED)) == sorted(ordered)
    (fired,) = await told(world, "schedule.fired")
    assert (fired.subject, fired.data["job"]) == (NAME, ordered[-1])


async def test_every_way_to_start_is_told(world: World) -> None:
    actor = await world.node()
    await world.store.watch(ALICE)
    ahead = await world.one(ALICE)
    claimed = await actor.ahead(ahead)
    assert await subjects(world, STARTED) == [], "it is only claimed"
    await actor.store.start(SYSTEM, [claimed.ref])
    assert await subjects(world, STARTED) == [ahead]
    await actor.store.start(SYSTEM, [claimed.ref])
    assert await subjects(world, STARTED) == [ahead], "once"
    await actor.finish(claimed)
    keyed = await world.one(ALICE, requirements=mutex("k"))
    await world.store.admit(SYSTEM, PLENTY)
    await actor.run(job_id=keyed)
    again = await world.one(ALICE, retry=Retry(1, "1s", 0))
    await actor.run(BOOM, again)
    world.clock.advance(1)
    await world.promote()
    await actor.run(job_id=again)
    assert await subjects(world, STARTED) == [ahead, keyed, again, again]
    assert [one.data["attempt"] for one in await told(world, STARTED)] == [1, 1, 1, 2]


async def test_a_replay_is_no_order(world: World) -> None:
    actor = await world.node()
    await world.store.watch(ALICE)
    parent = world.job()
    child = world.child(parent.id)
    await world.submit(parent, child, who=ALICE)
    await actor.run(FATAL, parent.id)
    await world.settle()
    await world.store.replay(ALICE, [parent.id])
    await world.promote()
    await actor.run(job_id=parent.id)
    assert await subjects(world, ORDERED) == sorted([parent.id, child.id])
    assert await subjects(world, STARTED) == [parent.id, parent.id]


async def test_only_jobs_of_who_watches_are_told(world: World) -> None:
    actor = await world.node()
    await world.store.watch(ALICE)
    hers, his = await world.one(ALICE), await world.one(BOB)
    await actor.claim()
    assert [one.subject for one in await told(world, ORDERED, STARTED)] == [hers, hers]
    assert await world.store.events(BOB, 0, PLENTY) == []
    everything = await told(world, ORDERED, STARTED, who=SYSTEM)
    assert his not in {one.subject for one in everything}


async def test_a_watch_that_is_renewed_says_nothing_more(world: World) -> None:
    await world.store.watch(ALICE)
    for _ in range(4):
        world.clock.advance(LIFE / SECOND - 1)
        await world.store.watch(ALICE)
    await world.one(ALICE)
    assert [one.kind for one in await told(world, BEGAN, ORDERED)] == [BEGAN, ORDERED]


async def test_the_first_watch_says_that_nothing_was_told_before(world: World) -> None:
    await world.store.watch(ALICE)
    (began,) = await told(world, BEGAN)
    assert (began.user, began.subject) == ("alice", "alice")
    assert began.data == {"since": None, "kinds": [ORDERED, STARTED]}


async def test_after_a_pause_the_next_watch_says_since_when_nothing_was_told(world: World) -> None:
    await world.store.watch(ALICE)
    over = world.clock.now() + LIFE
    world.clock.advance(LIFE / SECOND - 0.000_001)
    last = await world.one(ALICE)
    world.clock.advance(0.000_001)
    await world.one(ALICE)  # nobody listens any more
    world.clock.advance(1_000)
    await world.store.watch(ALICE)
    first = await world.one(ALICE)
    events = await told(world, BEGAN, ORDERED)
    assert [one.kind for one in events] == [BEGAN, ORDERED, BEGAN, ORDERED]
    assert [events[1].subject, events[3].subject] == [last, first]
    assert events[2].data["since"] == iso(over)


async def test_a_watch_whose_beginning_was_cut_off_begins_again(world: World) -> None:
    """Its process died before all older transactions had ended: some orders may be missing."""
    await world.store.watch(ALICE)
    over = world.clock.now() + LIFE
    world.clock.advance(1_000)
    await world.store.watch(ALICE)
    behind(world, "UPDATE watches SET since = NULL")
    await world.store.watch(ALICE)
    began = await told(world, BEGAN)
    assert [one.data["since"] for one in began] == [None, iso(over), iso(over)]


async def test_another_process_renews_the_same_watch(world: World, another: Store) -> None:
    await world.store.watch(ALICE)
    world.clock.advance(30)
    await another.watch(ALICE)
    world.clock.advance(45)
    await world.one(ALICE)
    assert [one.kind for one in await told(world, BEGAN, ORDERED)] == [BEGAN, ORDERED]
