"""Migrations: safe at any time from anywhere, and never backwards."""

from __future__ import annotations

import asyncio

import pytest

from rota.clock import ManualClock
from rota.errors import SchemaMissing, SchemaTooNew
from rota.model.principal import LOCAL, SYSTEM
from rota.store.base import Store
from rota.store.values import JobFilter
from tests.contracts.world import World
from tests.store.backends import Backend


async def test_a_new_store_is_brought_up_to_date(raw: Store) -> None:
    before, after = await raw.migrate()
    assert before == 0
    assert after >= 1
    await raw.open()
    assert await raw.find(LOCAL, JobFilter()) == []


async def test_migrating_again_changes_nothing(world: World) -> None:
    await world.one(key="k")
    await world.node()
    async with world.unchanged():
        before, after = await world.store.migrate()
    assert before == after
    await world.store.open()


async def test_a_store_that_was_never_migrated_says_so(raw: Store) -> None:
    with pytest.raises(SchemaMissing, match="rota migrate") as caught:
        await raw.open()
    assert caught.value.found == 0
    assert caught.value.needed >= 1
    await raw.migrate()
    await raw.open()


async def test_a_newer_schema_is_refused_and_left_alone(world: World) -> None:
    await world.one()
    _, known = await world.store.migrate()
    world.backend.stamp(known + 7)
    async with world.unchanged():
        for verb in (world.store.open, world.store.migrate):
            with pytest.raises(SchemaTooNew, match="newer rota") as caught:
                await verb()
            assert (caught.value.found, caught.value.known) == (known + 7, known)
        assert any(not finding.ok for finding in await world.store.examine())
    world.backend.stamp(known)
    await world.store.open()


async def test_two_migrators_at_once(raw_pair: tuple[Store, Store]) -> None:
    answers = await asyncio.gather(*(store.migrate() for store in raw_pair))
    assert {after for _, after in answers} == {max(after for _, after in answers)}
    for store in raw_pair:
        await store.open()
        assert await store.find(LOCAL, JobFilter()) == []


async def test_a_migrator_waits_for_no_reader(world: World, another: Store, backend: Backend) -> None:
    """Any process may migrate while others work."""
    actor = await world.node()
    jobs = await world.several(50)

    async def drain() -> list[str]:
        done: list[str] = []
        while claimed := await actor.claim(5):
            done += [one.job_id for one in claimed]
        return done

    async def migrate() -> None:
        for _ in range(5):
            before, after = await another.migrate()
            assert before == after

    done, _ = await asyncio.gather(drain(), migrate())
    assert done == jobs


async def test_the_clock_of_the_store(store: Store, clock: ManualClock) -> None:
    assert store.now() == clock.now()
    clock.advance(5)
    assert store.now() == clock.now()


async def test_a_healthy_store_has_nothing_to_complain_about(world: World) -> None:
    actor = await world.node()
    await world.several(3)
    await actor.claim(2)
    findings = await world.store.examine()
    assert findings
    assert [finding for finding in findings if not finding.ok] == []
    assert len({finding.name for finding in findings}) == len(findings)
    assert all(finding.text for finding in findings)


async def test_running_jobs_without_a_node_are_found(world: World) -> None:
    actor = await world.node()
    await world.one()
    await actor.take()
    world.backend.lose_node(actor.incarnation)
    assert [finding.ok for finding in await world.store.examine()].count(False) == 1


async def test_a_closed_store_may_be_closed_again(store: Store) -> None:
    await store.nodes(SYSTEM)
    await store.close()
    await store.close()
