"""The verbs of a far-away worker through an API, and what becomes of lost answers."""

from __future__ import annotations

import pytest

import rota
from rota.api import workers
from rota.errors import InvalidInput, NotAllowed
from rota.model.access import Role
from rota.model.access_keys import key_text
from rota.model.graph import Edge
from rota.model.job import Kind, Verdict
from rota.model.lifecycle import State
from rota.model.node import NewNode
from rota.model.outcome import Interrupted, settle
from rota.model.principal import SYSTEM
from rota.model.retry import Retry
from rota.model.times import SECOND
from rota.remote.store import ServerStore
from rota.store.values import Chunk, Note, Position
from tests.contracts.world import DONE, OFFERED, World, settled
from tests.remote.in_process import AsgiPool, api_on, connected

NODE = NewNode("far", "inc1", ("worker",), {"default": 4}, "1.0", 10 * SECOND)
KEY = key_text("0123456789ab", bytes(32))
Far = tuple[ServerStore, AsgiPool]


@pytest.fixture
async def far(world: World) -> Far:
    store, pool = connected(api_on(world.store, world.clock, workers.ROUTES), world.clock, "anna", Role.WORKER)
    await store.worker.join(NODE, OFFERED)
    return store, pool


async def test_an_attempt_from_its_claim_to_its_end(world: World, far: Far) -> None:
    store, _ = far
    parent = await world.one()
    (first,) = await store.claim(SYSTEM, "inc1", {"default": 1}, list(Kind), {"default": 1})
    assert await store.finish(SYSTEM, [settled(first, DONE)]) == [Verdict.APPLIED]
    child = await world.one(after=(Edge(parent),))
    (ahead,) = await store.claim(SYSTEM, "inc1", {"default": 1}, list(Kind), {"default": 0})
    (start,) = await store.start(SYSTEM, [ahead.ref])
    assert start.verdict is Verdict.APPLIED
    assert [one.id for one in await store.parents(SYSTEM, child)] == [parent]
    chunk = Chunk(child, ahead.fence, 0, world.clock.now(), "stdout", b"\xff")
    assert await store.append_output(SYSTEM, [chunk]) == [Verdict.APPLIED]
    assert await store.note(SYSTEM, [Note(child, ahead.fence, 1, None, "7")]) == [Verdict.APPLIED]
    await store.charge(SYSTEM, {("default", "anna/true"): SECOND})
    assert await store.finish(SYSTEM, [settled(ahead, DONE)]) == [Verdict.APPLIED]
    assert [one.body for one in await world.store.output(SYSTEM, child, Position(), 9)] == [b"\xff"]
    await store.leave(SYSTEM, "inc1")
    assert not (await store.renew(SYSTEM, "inc1")).known


async def test_lost_answers_cost_nothing(world: World, far: Far) -> None:
    store, pool = far
    jobs = await world.several(6)
    pool.lose = 1
    found = await store.claim(SYSTEM, "inc1", {"default": 4}, list(Kind), {"default": 4})
    assert len(found) == 4
    assert len((await store.renew(SYSTEM, "inc1")).holds) == 4, "the repeat has claimed no more"
    pool.lose = 1
    verdicts = await store.finish(SYSTEM, [settled(one, DONE) for one in found])
    assert verdicts == [Verdict.ALREADY] * 4
    assert await world.states(*jobs[:4]) == [State.SUCCEEDED] * 4


async def test_attempts_that_only_the_store_knows_can_be_given_back(world: World, far: Far) -> None:
    """The answer to a claim got lost for good."""
    store, _ = far
    job = await world.one()
    await world.store.claim(SYSTEM, "inc1", {"default": 1}, list(Kind), {"default": 1})
    (ref,) = (await store.renew(SYSTEM, "inc1")).holds
    end = settle(ref.job_id, ref.fence, Retry(), 0, Interrupted("never heard of it"), 0.0)
    assert await store.finish(SYSTEM, [end]) == [Verdict.APPLIED]
    assert await world.state(job) is State.READY


async def test_what_is_not_held_is_stale(world: World, far: Far) -> None:
    store, _ = far
    await world.one()
    (theirs,) = await (await world.node()).claim()
    assert await store.finish(SYSTEM, [settled(theirs, DONE)]) == [Verdict.STALE]
    assert await store.parents(SYSTEM, theirs.job_id) == []


async def test_only_a_worker_s_key_may_join(world: World) -> None:
    store, _ = connected(api_on(world.store, world.clock, workers.ROUTES), world.clock, "anna", Role.ADMIN)
    with pytest.raises(NotAllowed, match="join as a worker"):
        await store.worker.join(NODE, OFFERED)


@pytest.mark.parametrize("roles", [{}, {"roles": "control,worker"}])
async def test_a_node_through_a_server_is_a_worker_and_nothing_else(roles: dict[str, str]) -> None:
    app = rota.App(server="http://127.0.0.1:9", key=KEY, **roles)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"expected worker: .*--roles worker"):
        await app.node()
