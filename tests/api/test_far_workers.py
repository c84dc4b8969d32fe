"""The verbs of far-away workers on a real store: whose incarnation it is, which queues, which attempts."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from rota.api import far_workers
from rota.api.far_workers import FarWorkers
from rota.config import Settings
from rota.errors import InvalidInput, NotAllowed, StoreUnavailable, TooLarge
from rota.model.graph import Edge
from rota.model.job import Ref, Verdict
from rota.model.lifecycle import JobEvent, State
from rota.model.node import FarAccess, NodeState
from rota.model.outcome import CrashRule, Usage
from rota.model.principal import LOCAL, SYSTEM
from rota.model.times import SECOND
from rota.remote import work_calls as calls
from rota.store.values import Chunk, Note, Position
from rota.telemetry.events import Bus
from tests.api.far import Far, worker_key
from tests.contracts.world import BOOM, DONE, World, settled
from tests.store.postgres.backends import Postgres
from tests.store.sqlite.backends import SqliteFile

both = pytest.mark.parametrize("world", [SqliteFile, Postgres], indirect=True, ids=["sqlite", "postgres"])


@pytest.fixture
def door(world: World) -> FarWorkers:
    return FarWorkers(world.store, world.clock, Settings(), Bus())


@pytest.fixture
async def far(door: FarWorkers) -> Far:
    return await Far(door, worker_key(), "inc1").join()


# -- a worker's day ---------------------------------------------------------------------------------------------------


@pytest.mark.sampled
@both
async def test_a_worker_claims_writes_and_finishes(world: World, far: Far) -> None:
    first = await world.one(args='{"n": 1}')
    job, ticket = await far.take()
    assert (job.job_id, job.args) == (first, '{"n": 1}')
    ref, about = job.ref, (far.incarnation, (ticket,))
    chunk = Chunk(ref.job_id, ref.fence, 0, world.clock.now(), "stdout", b"hello\0\xff")
    assert (await far.door.append_output(far.grant, calls.OutputCall(*about, (chunk,)))).verdicts == [Verdict.APPLIED]
    note = Note(ref.job_id, ref.fence, 1, None, '{"at": 7}')
    assert (await far.door.note(far.grant, calls.NoteCall(*about, (note,)))).verdicts == [Verdict.APPLIED]
    renewed = await far.renew()
    assert (renewed.news.holds, renewed.tickets) == ((ref,), (ticket,)), "the ticket of an attempt never changes"
    end = msgspec.structs.replace(settled(job, DONE), usage=Usage(SECOND, 1, 7))
    body = msgspec.json.encode(calls.FinishCall(*about, (end,)))  # as it is sent
    call = msgspec.json.decode(body, type=calls.FinishCall)
    assert (await far.door.finish(far.grant, call)).verdicts == [Verdict.APPLIED]
    assert await far.finish(job, ticket) is Verdict.ALREADY, "a repeat after a lost answer"
    assert await world.state(first) is State.SUCCEEDED
    assert [one.body for one in await world.store.output(LOCAL, first, Position(), 10)] == [b"hello\0\xff"]


@both
async def test_claimed_ahead_a_job_is_started_or_handed_back(world: World, far: Far) -> None:
    await world.several(2)
    found = await far.claim(start=0)
    first, second = (
        calls.AttemptsCall(far.incarnation, (ticket,), (job.ref,))
        for job, ticket in zip(found.jobs, found.tickets, strict=True)
    )
    (start,) = (await far.door.start(far.grant, first)).starts
    assert start.verdict is Verdict.APPLIED
    assert (await far.door.hand_back(far.grant, second)).verdicts == [Verdict.APPLIED]
    assert await world.states(found.jobs[0].job_id, found.jobs[1].job_id) == [State.RUNNING, State.READY]


async def test_the_node_is_listed_with_its_access_key(world: World, far: Far) -> None:
    (node,) = await world.store.nodes(SYSTEM)
    assert (node.id, node.roles, node.access) == ("far-inc1", ("worker",), FarAccess("k1", "anna"))


async def test_a_worker_that_leaves_gives_its_jobs_back(world: World, far: Far) -> None:
    job = await world.one()
    await far.take()
    await far.door.leave(far.grant, calls.Message(far.incarnation))
    assert await world.state(job) is State.READY
    assert not (await far.renew()).news.known
    assert (await far.claim()).jobs == []


async def test_results_of_parents_are_for_the_attempt_that_needs_them(world: World, far: Far) -> None:
    parent = await world.one()
    await far.finish(*(await far.take()))
    await world.submit(world.job(after=(Edge(parent),)))
    job, ticket = await far.take()
    (found,) = (await far.door.parents(far.grant, calls.ParentsCall(far.incarnation, job.ref, ticket))).parents
    assert found.id == parent
    assert (await far.door.parents(far.grant, calls.ParentsCall(far.incarnation, job.ref, "x"))).parents == []
    other = Ref(parent, job.fence)
    assert (await far.door.parents(far.grant, calls.ParentsCall(far.incarnation, other, ticket))).parents == []
    await far.finish(job, ticket)
    over = await far.door.parents(far.grant, calls.ParentsCall(far.incarnation, job.ref, ticket))
    assert over.parents == [], "the ticket ends with the attempt"


@both
async def test_the_next_start_of_a_worker_waits_for_a_predecessor_that_has_fallen_silent(
    world: World, far: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its server was killed with it, so nobody has seen the end of its line: the reaper finds it silent."""
    monkeypatch.setattr(far_workers, "LOOK", 0.01)
    joining = asyncio.create_task(Far(far.door, far.grant, "inc2", far.name).join())
    done, _ = await asyncio.wait([joining], timeout=0.05)
    assert not done
    (node,) = await world.store.nodes(SYSTEM)
    await world.store.take_over(SYSTEM, node.incarnation, node.beats, CrashRule())
    assert (await (await joining).renew()).news.known


@both
async def test_the_id_of_a_worker_that_renews_is_refused(
    world: World, far: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(far_workers, "LOOK", 0.01)
    joining = asyncio.create_task(Far(far.door, far.grant, "inc2", far.name).join())
    await asyncio.sleep(0)
    while not joining.done():
        await far.renew()
        await asyncio.sleep(0)
    with pytest.raises(InvalidInput, match="an id that no living node uses"):
        await joining
    far.door.patience = 0.05
    with pytest.raises(InvalidInput, match="an id that no living node uses"):
        await Far(far.door, far.grant, "inc2", far.name).join()


# -- claims that are repeated -----------------------------------------------------------------------------------------


async def test_a_repeated_claim_gets_the_same_jobs(world: World, far: Far) -> None:
    await world.several(3)
    first = await far.claim("a", count=2)
    again = await far.claim("a", count=2)
    assert [one.ref for one in again.jobs] == [one.ref for one in first.jobs]
    assert again.tickets == first.tickets
    assert len((await far.claim("b", count=2)).jobs) == 1


async def test_a_repeat_during_the_first_claim_waits_for_it(
    world: World, far: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.several(3)
    go, claim = asyncio.Event(), world.store.claim

    async def slow(*args: Any) -> Any:
        await go.wait()
        return await claim(*args)

    monkeypatch.setattr(world.store, "claim", slow)
    lost = asyncio.create_task(far.claim("a", count=2))
    await asyncio.sleep(0)
    lost.cancel()  # its caller has gone; the claim goes on
    again = asyncio.create_task(far.claim("a", count=2))
    go.set()
    assert len((await again).jobs) == 2
    assert len((await far.renew()).news.holds) == 2


async def test_a_claim_that_failed_can_be_tried_again(world: World, far: Far, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.one()

    async def fail(*_: Any) -> Any:
        raise StoreUnavailable("away")

    with monkeypatch.context() as broken:
        broken.setattr(world.store, "claim", fail)
        with pytest.raises(StoreUnavailable):
            await far.claim("a")
    assert len((await far.claim("a")).jobs) == 1


# -- what a key may not -----------------------------------------------------------------------------------------------


async def test_another_key_can_neither_renew_nor_claim_nor_leave_for_a_worker(world: World, far: Far) -> None:
    job = await world.one()
    await far.take()
    await world.one()
    thief = Far(far.door, worker_key("k2", "bob"), far.incarnation)
    before = await world.store.nodes(SYSTEM)
    assert not (await thief.renew()).news.known
    assert (await thief.claim()).jobs == []
    await thief.door.leave(thief.grant, calls.Message(far.incarnation))
    with pytest.raises(InvalidInput, match="incarnation"):
        await thief.join(id="thief")
    with pytest.raises(NotAllowed):
        await Far(far.door, thief.grant, "inc9").join(replaces=(far.incarnation,))
    assert await world.store.nodes(SYSTEM) == before
    assert await world.state(job) is State.RUNNING


async def test_a_node_of_the_store_itself_is_out_of_reach(world: World, far: Far) -> None:
    near = await world.node("near")
    thief = Far(far.door, far.grant, near.incarnation)
    assert not (await thief.renew()).news.known
    await thief.door.leave(thief.grant, calls.Message(near.incarnation))
    with pytest.raises(NotAllowed):
        await Far(far.door, far.grant, "inc9").join(replaces=(near.incarnation,))
    assert (await near.seen()).state is NodeState.LIVE


async def test_a_key_works_on_its_queues_only(world: World, door: FarWorkers) -> None:
    grant = worker_key(queues=("mail", "b-*"))
    await world.one()
    with pytest.raises(NotAllowed, match="default"):
        await Far(door, grant, "inc1").join()
    far = await Far(door, grant, "inc2").join(queues={"mail": 1, "b-1": 1})
    with pytest.raises(NotAllowed, match=r"queue 'default' with key k1: it is for mail, b-\*"):
        await far.claim()
    mail = await world.one(queue="mail")
    assert [one.job_id for one in (await far.claim(queue="mail")).jobs] == [mail]


@pytest.mark.parametrize("roles", [(), ("control",), ("worker", "control"), ("api", "worker")])
async def test_a_far_node_is_a_worker_and_nothing_else(door: FarWorkers, roles: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput, match="roles"):
        await Far(door, worker_key(), "inc1").join(roles=roles)


# -- tickets ----------------------------------------------------------------------------------------------------------


async def test_a_ticket_is_good_for_its_own_attempt_only(world: World, far: Far) -> None:
    await world.several(2)
    first, ticket = await far.take()
    second, _ = await far.take()
    other = await Far(far.door, far.grant, "inc2").join()
    stranger = await Far(far.door, worker_key("k2"), "inc3").join()
    thief = Far(far.door, worker_key("k2"), far.incarnation)
    for who, job, proof in (
        (far, second, ticket),
        (far, msgspec.structs.replace(first, fence=first.fence + 1), ticket),
        (other, first, ticket),
        (stranger, first, ticket),
        (thief, first, ticket),
        (far, first, ""),
        (far, first, ticket[:-1]),
    ):
        assert await who.finish(job, proof) is Verdict.STALE
    assert await world.states(first.job_id, second.job_id) == [State.RUNNING] * 2
    assert await far.finish(first, ticket) is Verdict.APPLIED


async def test_a_ticket_of_an_earlier_attempt_is_not_good_for_the_next(world: World, far: Far) -> None:
    await world.one()
    found = await far.claim(count=1, start=0)
    (first,), (ticket,) = found.jobs, found.tickets
    await far.door.hand_back(far.grant, calls.AttemptsCall(far.incarnation, (ticket,), (first.ref,)))
    second, other = await far.take()
    assert (second.job_id, second.fence) == (first.job_id, first.fence + 1)
    assert await far.finish(second, ticket) is Verdict.STALE
    assert await far.finish(second, other) is Verdict.APPLIED


async def test_one_wrong_ticket_does_not_hold_up_the_others(world: World, far: Far) -> None:
    await world.several(3)
    found = await far.claim()
    tickets = (found.tickets[0], "wrong", found.tickets[2])
    call = calls.FinishCall(far.incarnation, tickets, tuple(settled(job, DONE) for job in found.jobs))
    verdicts = (await far.door.finish(far.grant, call)).verdicts
    assert verdicts == [Verdict.APPLIED, Verdict.STALE, Verdict.APPLIED]


@both
async def test_a_ticket_of_a_lease_that_is_over_changes_nothing(world: World, far: Far) -> None:
    first = await world.one()
    job, ticket = await far.take()
    node = next(one for one in await world.store.nodes(SYSTEM))
    assert await world.store.take_over(SYSTEM, far.incarnation, node.beats, CrashRule()) == [first]
    about = (far.incarnation, (ticket,))
    chunk = Chunk(job.job_id, job.fence, 0, world.clock.now(), "stdout", b"late")
    async with world.unchanged():
        assert await far.finish(job, ticket) is Verdict.STALE
        assert await far.finish(job, ticket, BOOM) is Verdict.STALE
        assert (await far.door.append_output(far.grant, calls.OutputCall(*about, (chunk,)))).verdicts == [Verdict.STALE]
        assert (await far.door.hand_back(far.grant, calls.AttemptsCall(*about, (job.ref,)))).verdicts == [Verdict.STALE]
        (start,) = (await far.door.start(far.grant, calls.AttemptsCall(*about, (job.ref,)))).starts
        assert start.verdict is Verdict.STALE


async def test_all_api_nodes_of_a_store_know_each_other_s_tickets(world: World, far: Far) -> None:
    await world.one()
    job, ticket = await far.take()
    elsewhere = FarWorkers(world.store, world.clock, Settings(), Bus())
    assert (await Far(elsewhere, far.grant, far.incarnation).renew()).tickets == (ticket,)
    assert await Far(elsewhere, far.grant, far.incarnation).finish(job, ticket) is Verdict.APPLIED


# -- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"id": "a b"},
        {"incarnation": "../x"},
        {"incarnation": "x" * 65},
        {"queues": {}},
        {"queues": {"default": 0}},
        {"queues": {"a b": 1}},
        {"lease": SECOND},
        {"lease": 1 << 70},
        {"version": ""},
        {"version": "1\0"},
    ],
)
async def test_a_strange_registration_is_refused(door: FarWorkers, changes: dict[str, Any]) -> None:
    far = Far(door, worker_key(), "inc1")
    with pytest.raises(InvalidInput):
        await door.register(far.grant, far.registration(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"fence": 1 << 70},
        {"fence": -1},
        {"job_id": ""},
        {"event": JobEvent.REPLAY},
        {"event": JobEvent.HAND_BACK},
        {"delay": -1},
        {"delay": 1 << 62},
        {"failures": 2},
        {"usage": Usage(wall_time=-1)},
        {"usage": Usage(memory=-1)},
        {"exit_code": 1 << 40},
        {"result": "{"},
        {"result": '"' + "x" * (1 << 20) + '"'},
    ],
)
async def test_a_strange_end_is_refused(world: World, far: Far, changes: dict[str, Any]) -> None:
    await world.one()
    job, ticket = await far.take()
    end = msgspec.structs.replace(settled(job, DONE), **changes)
    with pytest.raises(InvalidInput):
        await far.door.finish(far.grant, calls.FinishCall(far.incarnation, (ticket,), (end,)))
    assert await far.finish(job, ticket) is Verdict.APPLIED


async def test_strange_output_and_notes_are_refused(world: World, far: Far) -> None:
    await world.one()
    job, ticket = await far.take()
    good = Chunk(job.job_id, job.fence, 0, world.clock.now(), "stdout", b"x")
    for changes, error in (
        ({"stream": "x"}, InvalidInput),
        ({"number": 1 << 64}, InvalidInput),
        ({"written_at": -1}, InvalidInput),
        ({"since": 1}, InvalidInput),
        ({"body": b"x" * (64 * 1024 + 1)}, TooLarge),
    ):
        chunk = msgspec.structs.replace(good, **changes)
        with pytest.raises(error):
            await far.door.append_output(far.grant, calls.OutputCall(far.incarnation, (ticket,), (chunk,)))
    note = Note(job.job_id, job.fence, 1, None, "{")
    with pytest.raises(InvalidInput):
        await far.door.note(far.grant, calls.NoteCall(far.incarnation, (ticket,), (note,)))
    with pytest.raises(InvalidInput, match="tickets"):
        await far.door.append_output(far.grant, calls.OutputCall(far.incarnation, (), (good,)))


async def test_slot_time_is_charged_within_the_queues_of_the_key(world: World, door: FarWorkers) -> None:
    far = await Far(door, worker_key(queues=("default",)), "inc1").join()
    await door.charge(far.grant, calls.ChargeCall(far.incarnation, (("default", "anna/f", SECOND),)))
    with pytest.raises(NotAllowed):
        await door.charge(far.grant, calls.ChargeCall(far.incarnation, (("mail", "anna/f", SECOND),)))
    with pytest.raises(InvalidInput):
        await door.charge(far.grant, calls.ChargeCall(far.incarnation, (("default", "anna/f", -1),)))
