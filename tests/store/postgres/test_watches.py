"""The beginning of a watch on PostgreSQL: orders that did not see it come before the event that says so."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import rota
from rota.model.events import expand
from rota.model.principal import LOCAL
from rota.store.base import Store
from rota.store.postgres import PostgresStore
from rota.store.postgres import store as postgres_store
from tests.store.postgres.drivers import ASYNC, by_asyncpg


async def told(store: Store) -> list[tuple[str, str]]:
    rows = await store.events(LOCAL, 0, 1_000)
    events = [one for row in rows for one in expand(row.seq, row.at, row.kind, row.owner, row.subject, row.data)]
    return [(one.kind, one.subject) for one in events if one.kind in ("job.ordered", "watch.began")]


async def test_a_watch_begins_once_older_transactions_have_ended(
    app: rota.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_store, "LONGEST_WRITE", 60.0)
    store = (await app._core.client()).store
    assert isinstance(store, PostgresStore)
    begun, outlast = asyncio.Event(), store._outlast_writers

    async def wait() -> None:
        begun.set()
        await outlast()

    monkeypatch.setattr(store, "_outlast_writers", wait)
    async with by_asyncpg() as connection:
        unseen = await app.submit_command(["true"], within=connection)
        watching = asyncio.create_task(store.watch(LOCAL))
        await begun.wait()
        seen = await app.submit_command(["true"])
        assert not watching.done()
        assert await told(store) == [("job.ordered", seen.id)]
    await watching
    assert await told(store) == [("job.ordered", seen.id), ("watch.began", "local")]
    assert unseen.id not in {subject for _, subject in await told(store)}


async def test_a_transaction_that_stays_open_does_not_hold_a_watch_up_for_ever(
    app: rota.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_store, "LONGEST_WRITE", 0.1)
    store = (await app._core.client()).store
    async with by_asyncpg() as connection:
        await app.submit_command(["true"], within=connection)
        async with asyncio.timeout(30):
            await store.watch(LOCAL)
    assert await told(store) == [("watch.began", "local")]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("driver", ASYNC)
async def test_orders_in_transactions_of_callers_are_told_with_their_commit(app: rota.App, driver: str) -> None:
    store = (await app._core.client()).store
    await store.watch(LOCAL)
    welcome: Any = app.welcome  # type: ignore[attr-defined]
    async with ASYNC[driver]() as connection:
        plain = await app.submit_command(["true"], within=connection)
        keyed = await welcome.within(connection).submit(user_id=7, key="k")
        assert await told(store) == [("watch.began", "local")]
    assert sorted(await told(store)) == sorted(
        [("watch.began", "local"), ("job.ordered", plain.id), ("job.ordered", keyed.id)]
    )
