"""Clients on connections of callers: to the database of the store, and to no other."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

import rota
from rota.errors import InvalidInput
from tests.servers.postgres import fresh_schema_name, shared_server
from tests.store.postgres.drivers import by_asyncpg


async def refuse(app: rota.App) -> None:
    """The transaction can be used afterwards."""
    async with by_asyncpg() as connection:
        with pytest.raises(InvalidInput, match=r"the database 'postgres'.*the store's database, 'rota_"):
            await app.submit_command(["true"], within=connection)
        assert await connection.fetchval("SELECT 1") == 1


@pytest.mark.slow
async def test_another_database() -> None:
    """With the same schema in it, so that only the whereabouts differ."""
    name = fresh_schema_name()
    shared_server().execute(f"CREATE DATABASE rota_{name}")
    there = f"{shared_server().url(f'rota_{name}')}?schema={name}"
    async with rota.App(f"{shared_server().url()}?schema={name}") as here, rota.App(there) as other:
        await here._core.client()
        await refuse(other)
        await refuse(other)  # with its store open
    in_a_thread = rota.App(there)
    with psycopg.connect(shared_server().url()) as connection, pytest.raises(InvalidInput, match="database 'postgres'"):
        await asyncio.to_thread(in_a_thread.submit_command_sync, ["true"], within=connection)
    await asyncio.to_thread(in_a_thread.close_sync)
    shared_server().execute(f"DROP DATABASE rota_{name} WITH (FORCE)")
    shared_server().execute(f"DROP SCHEMA {name} CASCADE")


async def test_no_connection_of_its_own_is_opened() -> None:
    name = fresh_schema_name()
    store = f"{shared_server().url()}?schema={name}"
    async with rota.App(store) as app:
        await app._core.client()
    other = rota.App(store)
    async with by_asyncpg() as connection:
        await other.submit_command(["true"], within=connection)
        job = await connection.fetchval(f"SELECT id FROM {name}.jobs")
        others = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'rota' AND query LIKE $1"
        assert await connection.fetchval(others, f"%{name}%") == 0
    assert job
    shared_server().execute(f"DROP SCHEMA {name} CASCADE")


async def test_sqlite_has_no_transactions_to_share() -> None:
    app = rota.App("sqlite:///:memory:")
    with pytest.raises(InvalidInput, match="could corrupt rota's SQLite file"):
        await app.submit_command(["true"], within=object())
    with pytest.raises(InvalidInput, match="could corrupt rota's SQLite file"):
        app.submit_http_sync("GET", "http://example.org", within=object())
    with pytest.raises(InvalidInput, match="could corrupt"):
        await app.schedule("s", ["true"], every="1h", within=object())
    with pytest.raises(InvalidInput, match="could corrupt"):
        app.workflow(within=object()).__enter__()
