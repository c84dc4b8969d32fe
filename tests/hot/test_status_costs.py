"""What status costs: who asks the store, who tells whom, and how much is kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rota.clock import ManualClock
from rota.hot import status
from rota.hot.local import LocalLane, LocalServer
from rota.model.job import JobInfo
from rota.model.lifecycle import State
from rota.model.principal import SYSTEM
from tests.hot.hot_world import PATIENCE, HotWorld, hot_world


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[HotWorld]:
    async with hot_world(ManualClock(), tmp_path) as world:
        yield world


async def truth(world: HotWorld, job: str) -> JobInfo | None:
    (info,) = await world.watched.inner.get_many(SYSTEM, [job])
    return info


async def test_readers_at_once_share_one_read_of_the_hot_tier_and_ask_the_store_for_nothing(
    world: HotWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = await world.node()
    jobs = [await world.one() for _ in range(4)]
    for job in jobs:
        await node.take(job)
    await world.store.glance(SYSTEM, jobs)
    await world.side.status.settled()
    reads, calls = world.side.reports.read, list[int]()

    async def counted(names: list[str]):  # type: ignore[no-untyped-def]
        calls.append(len(names))
        return await reads(names)

    monkeypatch.setattr(world.side.reports, "read", counted)
    before = world.watched.reads
    await asyncio.gather(*(world.store.glance(SYSTEM, [job]) for _ in range(20) for job in jobs))
    assert world.watched.reads == before
    assert calls == [80]


async def test_the_memory_is_bounded(tmp_path: Path) -> None:
    async with hot_world(ManualClock(), tmp_path, memory=10_000) as world:
        node = await world.node()
        jobs = [await world.one(args='{"a": "' + "x" * 1_000 + '"}') for _ in range(4)]
        for job in jobs:
            await node.take(job)
        jobs += [await world.one(args='{"a": "' + "x" * 70_000 + '"}')]
        await node.take(jobs[-1])
        for _ in range(3):
            for job in jobs:
                assert await world.shown(job) == await truth(world, job)
        assert sum(len(kept.report.content) for kept in world.server.kept().values()) <= 10_000
        assert f"d/{jobs[-1]}" not in world.server.kept()


async def test_what_is_read_often_is_renewed_together_before_it_is_too_old(
    world: HotWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "GATHER", 0.0)
    node = await world.node()
    jobs = [await world.one() for _ in range(3)]
    for job in jobs:
        await node.take(job)
    await world.store.glance(SYSTEM, jobs)
    await world.side.status.settled()
    for _ in range(5):
        world.after(1.5)
        before = world.watched.reads
        world.watched.reached.clear()
        assert None not in await world.store.glance(SYSTEM, jobs)
        async with asyncio.timeout(PATIENCE):
            await world.watched.reached.wait()
            while (renewing := world.side.status._renewing) is not None:
                await asyncio.wait([renewing])
        await world.side.status.settled()
        assert world.watched.reads == before + 3
    assert world.store.hot_counts.status_misses == 3, "nobody ever waited for the store again"


async def test_nobody_is_told_of_ends_while_nobody_reads(world: HotWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    actor = await world.node()
    for _ in range(3):
        await actor.finish(await actor.take(await world.one()))
        await world.side.status.settled()
    assert world.server.kept() == {}
    reader = await world.process()
    await reader.glance(SYSTEM, ["nothing"])
    await reader.side().status.settled()
    monkeypatch.setattr(status, "BELIEVE", -1.0)
    job = await world.one()
    await actor.finish(await actor.take(job))
    await world.side.status.settled()
    assert world.report(f"d/{job}") is not None
    world.after(status.HOLDS)
    last = await world.one()
    await actor.finish(await actor.take(last))
    await world.side.status.settled()
    assert world.report(f"d/{last}") is None
    await reader.side().close()


async def test_a_job_that_is_being_renewed_is_not_renewed_once_more(world: HotWorld) -> None:
    job = await world.one()
    await (await world.node()).take(job)
    await world.shown(job)
    world.after(1.5)
    await world.shown(job)
    world.watched.go_on.clear()
    world.watched.reached.clear()
    renewing = asyncio.create_task(world.side.status.renew())
    await world.watched.reached.wait()
    reads = world.watched.reads
    await world.store.glance(SYSTEM, [job])
    world.watched.go_on.set()
    await renewing
    await world.side.status.renew()
    assert world.watched.reads == reads


async def test_readers_elsewhere_are_told_of_every_end_also_while_one_member_is_away(tmp_path: Path) -> None:
    clock = ManualClock()
    servers = [LocalServer(clock), LocalServer(clock)]
    async with hot_world(
        clock, tmp_path, lanes=lambda: [placed(server, n) for n, server in enumerate(servers)]
    ) as world:
        actor, reader = await world.node(), await world.process()
        jobs = [await world.one() for _ in range(12)]
        claimed = [await actor.take(job) for job in jobs]
        await reader.glance(SYSTEM, jobs)
        await reader.side().status.settled()
        kept = [{name for name in server.kept() if name.startswith("d/")} for server in servers]
        assert all(kept)
        assert len(kept[0]) + len(kept[1]) == 12
        away = servers.index(next(server for server in servers if "r/" in server.kept()))
        for one in claimed[:2]:
            await actor.finish(one)
            await world.side.status.settled()
        shown = await reader.glance(SYSTEM, jobs[:2])
        assert [info and info.state for info in shown] == [State.SUCCEEDED] * 2
        servers[away].away = True
        world.side.status._looked_at = float("-inf")
        for one in claimed[2:]:
            await actor.finish(one)
        await world.side.status.settled()
        assert await reader.glance(SYSTEM, jobs) == await world.watched.inner.get_many(SYSTEM, jobs)
        await reader.side().close()


def placed(server: LocalServer, number: int) -> LocalLane:
    lane = LocalLane(server)
    lane.place = f"local-{number}"
    return lane
