"""The client of jobs: orders in steps, ids by their parts, and waiting that needs no polling."""

from __future__ import annotations

import asyncio

import pytest

from rota.clients import jobs as module
from rota.clients.jobs import HEAVIEST_ORDER, JobsClient
from rota.errors import InvalidInput, KeyConflict, NotFound, StoreUnavailable, WaitTimeout
from rota.model.job import NewJob
from rota.model.lifecycle import State
from rota.model.principal import LOCAL
from rota.model.times import SECOND
from rota.store.values import JobFilter
from tests.contracts.world import BOB, FATAL, World
from tests.control.stage import Troubled

LONG = 20.0


@pytest.fixture
def troubled(world: World) -> Troubled:
    return Troubled(world.store)


@pytest.fixture
def client(world: World, troubled: Troubled) -> JobsClient:
    return JobsClient(troubled.face, LOCAL, world.chance)


def some(world: World, count: int, **changes: object) -> list[NewJob]:
    return [world.job(**changes) for _ in range(count)]


# -- orders -----------------------------------------------------------------------------------------------------------
async def test_a_small_order_is_one_write_and_calls_at_once_share_it(
    world: World, client: JobsClient, troubled: Troubled
) -> None:
    answers = await asyncio.gather(*(client.submit(some(world, 2)) for _ in range(50)))
    assert sum(map(len, answers)) == 100 == len(await world.all())
    assert troubled.calls.count("submit") < 10


async def test_reads_of_single_jobs_at_once_share_queries_and_fail_alone(
    world: World, client: JobsClient, troubled: Troubled
) -> None:
    jobs = [await world.one() for _ in range(5)]
    asked = [*jobs, "nothing", "\udcff", *reversed(jobs)]
    found = await asyncio.gather(*map(client.get, asked), return_exceptions=True)
    assert [one if isinstance(one, BaseException) else one.id for one in found[:5] + found[7:]] == jobs + jobs[::-1]
    assert isinstance(found[5], NotFound)
    assert isinstance(found[6], InvalidInput | NotFound), "one that can't be looked for is set aside"
    before = len(troubled.calls)
    await asyncio.gather(*(client.get(job) for job in jobs * 40))
    assert troubled.calls[before:] == ["get_many"] * 2


async def test_nothing_is_no_order(client: JobsClient, troubled: Troubled) -> None:
    assert await client.submit([]) == []
    assert not troubled.calls


async def test_a_large_order_goes_in_steps_and_is_answered_in_its_order(
    world: World, client: JobsClient, troubled: Troubled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LARGEST_ORDER", 10)
    jobs = some(world, 35)
    assert [answer.id for answer in await client.submit(jobs)] == [job.id for job in jobs]
    assert troubled.calls.count("submit") == 4


async def test_a_heavy_order_goes_in_steps_too(world: World, client: JobsClient, troubled: Troubled) -> None:
    await client.submit(some(world, 3, args='"' + "x" * (HEAVIEST_ORDER // 2) + '"'))
    assert troubled.calls.count("submit") == 3


async def test_after_an_error_no_more_steps_are_begun_and_it_says_how_many_were_accepted(
    world: World, client: JobsClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LARGEST_ORDER", 10)
    await world.one(key="taken", args='"other"')
    jobs = some(world, 50)
    jobs[10] = world.job(key="taken")
    with pytest.raises(KeyConflict, match=r"\(\d+ of 50 jobs were accepted\)"):
        await client.submit(jobs)
    assert len(await world.all()) < 50


async def test_a_whole_order_is_all_or_nothing(world: World, client: JobsClient) -> None:
    await world.one(key="taken", args='"other"')
    with pytest.raises(KeyConflict):
        await client.submit_whole([*some(world, 5), world.job(key="taken")])
    assert len(await world.all()) == 1


# -- by id ------------------------------------------------------------------------------------------------------------
async def test_a_job_is_found_by_its_beginning_or_end(world: World, client: JobsClient) -> None:
    one, other = await world.one(), await world.one()
    assert await client.resolve(one) == one
    assert await client.resolve(one[-12:].upper()) == one
    with pytest.raises(InvalidInput, match="fits one job only"):
        await client.resolve(one[:4])
    for unknown in ("ffffffff", f"{other}0"):
        with pytest.raises(NotFound):
            await client.resolve(unknown)
    with pytest.raises(InvalidInput):
        await client.resolve("")


async def test_jobs_of_others_are_not_there(world: World, client: JobsClient) -> None:
    theirs = await world.one(who=BOB)
    with pytest.raises(NotFound):
        await client.get(theirs)
    with pytest.raises(NotFound):
        await client.resolve(theirs)
    assert await client.find(JobFilter()) == []


async def test_long_lists_of_ids_go_in_steps(
    world: World, client: JobsClient, troubled: Troubled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAGE", 3)
    jobs = await world.several(7)
    assert [bool(answer) for answer in await client.cancel(jobs, "x")] == [True] * 7
    assert set(await world.states(*jobs)) == {State.CANCELLED}
    assert await client.replay(jobs) == [True] * 7
    assert await client.reprioritise(jobs, 1) == [True] * 7
    assert {info.priority for info in (await world.all()).values()} == {1}


async def test_retry_runs_ended_jobs_again_and_hurries_waiting_ones(world: World, client: JobsClient) -> None:
    failed, done, later = await world.one(), await world.one(), await world.one(delay=3600 * SECOND)
    actor = await world.node()
    await actor.run(FATAL, failed)
    await actor.run(job_id=done)
    assert await client.retry([failed, done, later]) == [True, False, True]
    await world.promote()
    assert await world.states(failed, done, later) == [State.READY, State.SUCCEEDED, State.READY]
    assert await client.rerun([done]) == [True], "whatever became of it"


async def test_purge_deletes_what_has_ended(world: World, client: JobsClient) -> None:
    jobs = await world.several(12)
    actor = await world.node()
    for job in jobs[:11]:
        await actor.run(job_id=job)
    assert await client.purge(jobs) == [True] * 11 + [False]
    assert list(await world.all()) == jobs[11:]


async def test_a_reason_that_nobody_could_read_is_refused(world: World, client: JobsClient) -> None:
    job = await world.one()
    with pytest.raises(InvalidInput, match="reason"):
        await client.cancel([job], "x" * 100_000)
    assert await world.state(job) is State.READY


# -- waiting ----------------------------------------------------------------------------------------------------------
async def waiting(client: JobsClient, *jobs: str) -> list[asyncio.Task[object]]:
    tasks: list[asyncio.Task[object]] = [asyncio.create_task(client.wait(job)) for job in jobs]
    for _ in range(10):
        await asyncio.sleep(0)
    return tasks


async def test_a_job_that_has_ended_is_not_waited_for(world: World, client: JobsClient) -> None:
    job = await world.one()
    await (await world.node()).run()
    assert (await client.wait(job)).state is State.SUCCEEDED


async def test_many_waits_are_answered_by_few_looks(world: World, client: JobsClient, troubled: Troubled) -> None:
    jobs = await world.several(60)
    tasks = await waiting(client, *jobs, *jobs)
    actor = await world.node()
    for job in jobs:
        await actor.run(job_id=job)
    async with asyncio.timeout(LONG):
        ended = await asyncio.gather(*tasks)
    assert [info.id for info in ended] == [*jobs, *jobs]  # type: ignore[attr-defined]
    assert troubled.calls.count("page") < 60


async def test_a_wait_goes_on_while_the_store_is_away(world: World, client: JobsClient, troubled: Troubled) -> None:
    job = await world.one()
    (task,) = await waiting(client, job)
    troubled.fails["page"] = 3
    await (await world.node()).run()
    async with asyncio.timeout(LONG):
        assert (await task).state is State.SUCCEEDED  # type: ignore[attr-defined]


async def test_a_wait_for_a_job_that_is_deleted_meanwhile_ends(world: World, client: JobsClient) -> None:
    job = await world.one()
    (task,) = await waiting(client, job)
    await client.cancel([job], "x")
    await client.purge([job])
    async with asyncio.timeout(LONG):
        with pytest.raises(NotFound):
            await task


async def test_a_wait_that_takes_too_long_says_how_the_job_stands(world: World, client: JobsClient) -> None:
    job = await world.one()
    with pytest.raises(WaitTimeout, match="ready"):
        await client.wait(job, "10ms")
    assert not [task for task in asyncio.all_tasks() if task.done()], "nothing is left behind"


async def test_a_wait_that_is_cancelled_leaves_the_others_waiting(world: World, client: JobsClient) -> None:
    job = await world.one()
    gone, there = await waiting(client, job, job)
    gone.cancel()
    await (await world.node()).run()
    async with asyncio.timeout(LONG):
        assert (await there).state is State.SUCCEEDED  # type: ignore[attr-defined]
    assert gone.cancelled()


async def test_a_mistake_of_the_store_is_told_to_all_who_wait(
    world: World, client: JobsClient, troubled: Troubled
) -> None:
    jobs = await world.several(2)
    await client.get(jobs[0])
    troubled.fails["page"], troubled.error = 1, None
    tasks = [asyncio.create_task(client.wait(job)) for job in jobs]
    troubled._perhaps = _mistake  # type: ignore[method-assign]
    async with asyncio.timeout(LONG):
        for task in tasks:
            with pytest.raises(LookupError):
                await task


def _mistake(fails: object, verb: str) -> None:
    if verb == "page":
        raise LookupError("a mistake of ours")


async def test_the_first_look_may_fail(world: World, client: JobsClient, troubled: Troubled) -> None:
    job = await world.one()
    troubled.fails["get_many"] = 1
    with pytest.raises(StoreUnavailable):
        await client.wait(job)


# -- output -----------------------------------------------------------------------------------------------------------
async def test_output_comes_in_pages_and_is_followed_to_the_end(
    world: World, client: JobsClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAGE", 2)
    actor, job = await world.node(), await world.one()
    claimed = await actor.take(job)
    for number in range(5):
        await actor.say(claimed.ref, number, b"%d\n" % number)
    heard: list[bytes] = []

    async def follow() -> None:
        async for chunk in client.output(job, follow=True):
            heard.append(chunk.body)

    task = asyncio.create_task(follow())
    await actor.say(claimed.ref, 5, b"5\n")
    await actor.finish(claimed)
    async with asyncio.timeout(LONG):
        await task
    assert heard == [b"%d\n" % number for number in range(6)]
    assert [chunk.body async for chunk in client.output(job)] == heard
