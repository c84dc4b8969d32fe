"""The answer is lost: what was done is done, and may be asked for again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable

import pytest

from rota.clock import ManualClock
from rota.errors import StoreUnavailable
from rota.model.job import Claimed, Verdict
from rota.model.lifecycle import State
from rota.model.outcome import Succeeded
from rota.model.principal import SYSTEM
from tests.contracts.world import BOOM, Actor, World
from tests.servers.postgres import shared_server
from tests.servers.proxy import Proxy
from tests.store.postgres.ranking import LIMIT, Place, settled, until, until_so

# -- the answer is lost -----------------------------------------------------------------------------------------------


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    async with Proxy("127.0.0.1", shared_server().port) as proxy:
        yield proxy


@pytest.fixture
async def far(world: World, place: Place, proxy: Proxy, clock: ManualClock) -> World:
    """The same place, by way of the proxy."""
    store = await place.store(place.through(proxy.port), clock=clock)
    return World(store, world.backend, clock, world.chance)


async def unanswered(proxy: Proxy, call: Awaitable[object], to: bytes) -> None:
    """The call is carried out, and its answer is lost with the connection."""
    proxy.drop_replies(to=to)
    task = asyncio.ensure_future(call)
    async with asyncio.timeout(LIMIT):
        await proxy.reply_lost()
    assert not task.done()
    proxy.mend()
    with pytest.raises(StoreUnavailable) as caught:
        await task
    assert caught.value.passing


async def over(world: World, claimed: Claimed) -> bool:
    return await world.state(claimed.job_id) is not State.RUNNING


async def test_finish_may_be_repeated(world: World, far: World, proxy: Proxy) -> None:
    actor = await far.node()
    jobs = await world.several(2)
    success, failure = await actor.claim()
    done = Succeeded('"marker"')
    await unanswered(proxy, actor.finish(success, done), to=b"marker")
    await until_so(lambda: over(world, success))
    assert await actor.finish(success, done) is Verdict.ALREADY
    await unanswered(proxy, actor.finish(failure, BOOM), to=b"COMMIT\0")
    assert await actor.finish(failure, BOOM) is Verdict.ALREADY
    assert await actor.finish(failure, done) is Verdict.STALE
    assert await world.states(*sorted(jobs, key=lambda job: job != success.job_id)) == [
        State.SUCCEEDED, State.SCHEDULED,
    ]  # fmt: skip
    assert [len((await world.info(job)).attempts) for job in jobs] == [1, 1]


async def test_an_order_with_a_key_may_be_repeated(world: World, far: World, proxy: Proxy) -> None:
    job = far.job(key="marker")
    await unanswered(proxy, far.submit(job), to=b"marker")
    again = far.job(key="marker")
    assert again.id != job.id
    assert await far.submit(again) == [job.id]
    assert list(await world.all()) == [job.id]


async def test_a_claim_whose_answer_was_lost_shows_in_the_next_renewal(
    world: World, far: World, proxy: Proxy, place: Place
) -> None:
    actor = await far.node()
    jobs = await world.several(2)
    await unanswered(proxy, actor.claim(), to=actor.incarnation.encode())
    await until(lambda: place.value("SELECT count(*) FROM jobs WHERE node IS NOT NULL") == 2)
    news = await actor.renew()
    assert {ref.job_id for ref in news.holds} == set(jobs)
    assert await actor.claim() == []


async def test_a_registration_may_be_repeated(world: World, far: World, proxy: Proxy, place: Place) -> None:
    actor = Actor(far, "anna", "incarnation", far.store)
    await unanswered(proxy, far.store.register(SYSTEM, actor.node, []), to=b"COMMIT\0")
    await settled(lambda: far.store.register(SYSTEM, actor.node, []))
    assert (await settled(actor.renew)).known
    assert await place.held("incarnation")
    assert [node.id for node in await world.store.nodes(SYSTEM)] == ["anna"]


async def test_a_silent_server_does_not_keep_a_renewal_waiting(
    far: World, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is time for several tries within a lease, each on a connection of its own."""
    from rota.store.postgres import store

    assert store.RENEWAL_LIMIT <= 3
    actor = await far.node()
    await actor.renew()
    monkeypatch.setattr(store, "RENEWAL_LIMIT", 0.2)
    proxy.freeze()
    with pytest.raises(StoreUnavailable, match="does not answer"):
        await asyncio.wait_for(actor.renew(), LIMIT)
    monkeypatch.undo()
    proxy.thaw()
    assert (await settled(actor.renew)).known
