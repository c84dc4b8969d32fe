"""The outbox: what happened, in the order of commits, to each only what concerns them."""

from __future__ import annotations

import asyncio

from rota.model.events import EventInfo, expand
from rota.model.gates import Effect, match
from rota.model.limits import Limit
from rota.model.outcome import CrashRule
from rota.model.principal import LOCAL, SYSTEM, Principal
from rota.model.retry import Retry
from rota.model.times import DAY, SECOND
from rota.store.admission import NewGate
from rota.store.base import Store
from rota.store.values import OutboxSpan, Retention
from tests.contracts.world import ALICE, BOB, BOOM, BROKEN, DONE, FATAL, GIVEN_UP, OLGA, PLENTY, World, settled


async def kinds(world: World, after: int = 0) -> list[tuple[str, str]]:
    return [(event.kind, event.subject) for event in await world.store.events(SYSTEM, after, PLENTY)]


async def last(world: World) -> int:
    events = await world.store.events(SYSTEM, 0, PLENTY)
    return events[-1].seq if events else 0


async def test_the_life_of_a_node(world: World) -> None:
    one, two = await world.node("one"), await world.node("two")
    await one.leave()
    await two.die()
    expected = [("node.joined", "one"), ("node.joined", "two"), ("node.left", "one"), ("node.died", "two")]
    assert await kinds(world) == expected
    events = await world.store.events(SYSTEM, 0, PLENTY)
    assert [event.data["incarnation"] for event in events] == [
        one.incarnation,
        two.incarnation,
        one.incarnation,
        two.incarnation,
    ]
    assert {event.at for event in events} == {world.clock.now()}


async def test_a_node_is_named_by_its_id_whoever_says_good_bye_for_it(world: World, another: Store) -> None:
    """The process that ends a node's days need not be the one that registered it."""
    leaves, dies = await world.node("leaves"), await world.node("dies")
    before = await last(world)
    await another.leave(SYSTEM, leaves.incarnation)
    await another.take_over(SYSTEM, dies.incarnation, 0, CrashRule())
    assert await kinds(world, before) == [("node.left", "leaves"), ("node.died", "dies")]


async def test_every_way_to_the_dead_letters_is_told(world: World) -> None:
    actor = await world.node()
    failed, exhausted, broken, crashed, fine, retried = await world.several(6, retry=Retry(1, "1s", 0))
    for job, result in ((failed, FATAL), (exhausted, BOOM), (broken, BROKEN)):
        await actor.run(result, job)
    await actor.take(crashed)
    await actor.run(DONE, fine)
    await actor.run(BOOM, retried)
    before = await last(world)
    world.clock.advance(1)
    await world.promote()
    await actor.run(BOOM, exhausted)
    await actor.die(CrashRule(limit=1))
    told = [subject for kind, subject in await kinds(world) if kind == "job.failed"]
    assert told == [failed, broken, exhausted, crashed]
    event = next(e for e in await world.store.events(SYSTEM, before, PLENTY) if e.subject == exhausted)
    assert (event.owner, event.at, event.data["reason"]) == ("local", world.clock.now(), "boom")


async def test_replays_and_purges_are_recorded_with_who_did_it(world: World) -> None:
    actor = await world.node()
    job_id = await world.one(ALICE)
    await actor.run(FATAL, job_id)
    before = await last(world)
    await world.store.replay(ALICE, [job_id, "no-such-job"])
    await world.promote()
    await actor.run(FATAL, job_id)
    await world.store.purge(SYSTEM, [job_id])
    events = await world.store.events(SYSTEM, before, PLENTY)
    assert [(e.kind, e.owner, e.data.get("by")) for e in events] == [
        ("job.replayed", "alice", "alice"),
        ("job.failed", "alice", None),
        ("job.purged", "alice", "rota"),
    ]
    assert {event.subject for event in events} == {job_id}


async def test_what_was_refused_is_not_told(world: World) -> None:
    actor = await world.node()
    await world.one()
    claimed = await actor.run(FATAL)
    async with world.unchanged():
        await actor.finish(claimed, FATAL)
        await world.store.purge(BOB, [claimed.job_id])
        await world.store.replay(BOB, [claimed.job_id])


async def test_a_user_is_told_of_their_own_jobs_only(world: World) -> None:
    actor = await world.node()
    hers, his = await world.one(ALICE), await world.one(BOB)
    await actor.run(FATAL, hers)
    await actor.run(FATAL, his)
    assert [event.subject for event in await world.store.events(ALICE, 0, PLENTY)] == [hers]
    assert [event.subject for event in await world.store.events(BOB, 0, PLENTY)] == [his]
    assert await world.store.events(Principal("eve"), 0, PLENTY) == []
    assert {event.kind for event in await world.store.events(LOCAL, 0, PLENTY)} == {"node.joined"}  # for operators


async def test_reading_goes_on_from_a_position(world: World) -> None:
    for n in range(7):
        await world.node(f"n{n}")
    everything = await world.store.events(SYSTEM, 0, PLENTY)
    assert [event.seq for event in everything] == sorted({event.seq for event in everything})
    position, found = 0, []
    while page := await world.store.events(SYSTEM, position, 3):
        assert len(page) <= 3
        found += page
        position = page[-1].seq
    assert found == everything
    assert await world.store.events(SYSTEM, position, 3) == []


async def test_a_user_who_reads_page_by_page_misses_nothing(world: World) -> None:
    actor = await world.node()
    expected = []
    for n in range(12):
        owner = ALICE if n % 4 == 0 else BOB
        job_id = await world.one(owner)
        await actor.run(FATAL, job_id)
        if owner is ALICE:
            expected.append(job_id)
    position, found = 0, []
    while page := await world.store.events(ALICE, position, 1):
        found += [event.subject for event in page]
        position = page[-1].seq
    assert found == expected


async def test_a_reader_that_follows_two_writers_sees_every_event_once(world: World, another: Store) -> None:
    """The order of positions is the order of commits: what a reader has passed never gets company later."""
    actors = [await world.node(), await world.node(store=another)]
    jobs = await world.several(60)
    start = await last(world)
    writing = True
    found: list[str] = []

    async def write(n: int) -> None:
        while claimed := await actors[n].claim(1):
            await actors[n].finish(claimed[0], FATAL)

    async def follow() -> None:
        position = start
        while True:
            ended = not writing
            page = await world.store.events(SYSTEM, position, 4)
            found.extend(event.subject for event in page)
            position = page[-1].seq if page else position
            if ended and not page:
                return
            await asyncio.sleep(0)

    reader = asyncio.create_task(follow())
    await asyncio.gather(write(0), write(1))
    writing = False
    await reader
    assert len(found) == 60
    assert set(found) == set(jobs)


async def told(world: World, who: Principal = LOCAL, after: int = 0) -> list[EventInfo]:
    rows = await world.store.events(who, after, PLENTY)
    return [event for row in rows for event in expand(row.seq, row.at, row.kind, row.owner, row.subject, row.data)]


async def test_every_end_of_a_job_is_told_once_with_its_queue_and_task(world: World) -> None:
    actor = await world.node()
    done = await world.several(3)
    claimed = await actor.claim()
    await world.store.finish(SYSTEM, [settled(one, DONE) for one in claimed])
    expected = dict.fromkeys(done, "job.succeeded")
    for result, kind in ((FATAL, "job.failed"), (GIVEN_UP, "job.cancelled")):
        expected[job := await world.one()] = kind
        await actor.run(result, job)
    waiting, stopped, ahead = await world.one(delay=DAY), await world.one(), await world.one()
    running = await actor.take(stopped)
    unstarted = await actor.ahead()
    assert unstarted.job_id == ahead
    expiring = await world.one(delay=DAY, expires=DAY)
    parent = await world.one(delay=DAY)
    child = (await world.submit(world.child(parent)))[0]
    await world.store.cancel(LOCAL, [waiting, stopped, ahead, parent], "enough")
    await actor.finish(running, BOOM)
    await actor.hand_back(unstarted.ref)
    await world.settle()
    world.clock.advance(3 * DAY / SECOND)
    await world.promote()
    await world.promote()
    expected |= dict.fromkeys((waiting, stopped, ahead, expiring, parent), "job.cancelled")
    expected[child] = "job.skipped"
    events = [event for event in await told(world) if event.of_job]
    assert {event.subject: event.kind for event in events} == expected
    assert len(events) == len(expected)
    assert {(event.data["queue"], event.data["task"]) for event in events} == {("default", "true")}
    assert {event.data["reason"] for event in events if event.subject in (waiting, parent)} == {"enough"}


async def test_what_a_gate_drops_is_told(world: World) -> None:
    gate = NewGate("01900000-0000-7000-8000-000000000002", match(everything=True), Effect.DROP, "no more")
    jobs = await world.several(2)
    await world.store.close_gate(LOCAL, gate)
    while (await world.store.admit(SYSTEM, PLENTY)).more:
        pass
    await world.store.open_gate(LOCAL, gate.id)
    events = await told(world)
    assert sorted(event.subject for event in events if event.kind == "job.dropped") == sorted(jobs)
    assert [event.kind for event in events if not event.of_job] == ["gate.closed", "gate.opened"]


async def test_shared_things_are_told_to_operators_and_own_ones_to_their_owner(world: World) -> None:
    await world.store.pause_queue(OLGA, "mail", "why")
    await world.store.resume_queue(OLGA, "mail")
    await world.store.set_limit(ALICE, Limit("db", 1))
    await world.store.remove_limit(ALICE, "db")
    assert [event.kind for event in await told(world, LOCAL)] == ["queue.paused", "queue.resumed"]
    assert [event.kind for event in await told(world, ALICE)] == ["limit.set", "limit.removed"]
    assert await told(world, BOB) == []


async def test_who_comes_back_notices_that_events_are_gone(world: World) -> None:
    """Also if nobody has read them before they were deleted."""
    await world.node("read")
    seen = await last(world)
    await world.node("unread")
    world.clock.advance(2 * DAY / SECOND)
    while await world.store.prune(SYSTEM, Retention(9 * DAY, 9 * DAY, DAY, 9 * DAY), PLENTY):
        pass
    assert (await world.store.outbox_span(SYSTEM)).first > seen + 1


async def test_the_span_of_the_outbox(world: World) -> None:
    empty = await world.store.outbox_span(ALICE)
    assert empty.first == empty.last + 1
    for name in ("one", "two"):
        await world.node(name)
    span = await world.store.outbox_span(ALICE)
    assert [event.seq for event in await world.store.events(SYSTEM, 0, PLENTY)] == [span.first, span.last]
    world.clock.advance(2 * DAY / SECOND)
    while await world.store.prune(SYSTEM, Retention(9 * DAY, 9 * DAY, DAY, 9 * DAY), PLENTY):
        pass
    assert await world.store.outbox_span(ALICE) == OutboxSpan(span.last + 1, span.last)
