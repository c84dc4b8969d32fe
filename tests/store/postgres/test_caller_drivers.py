"""Connections that callers bring: which ones are refused, with what words, and what is left of their transactions."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import asyncpg
import psycopg
import psycopg2
import pytest
from django.db import transaction
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session

import rota
from rota.errors import InvalidInput, RotaError, SchemaMissing, SchemaTooNew, StoreDenied
from rota.store.postgres.caller_drivers import literal
from rota.store.values import JobFilter
from tests.servers.postgres import fresh_schema_name, shared_server
from tests.store.postgres.drivers import alchemy, by_asyncpg, django_connection


@pytest.fixture
async def app() -> AsyncIterator[rota.App]:
    schema = fresh_schema_name()
    async with rota.App(f"{shared_server().url()}?schema={schema}") as app:
        await app._core.client()
        yield app
    shared_server().execute(f"DROP SCHEMA {schema} CASCADE")


async def order(app: rota.App, connection: Any) -> rota.Job[Any]:
    return await app.submit_command(["true"], within=connection)


def order_sync(app: rota.App, connection: Any) -> rota.Job[Any]:
    return app.submit_command_sync(["true"], within=connection)


async def count(app: rota.App) -> int:
    return len(await (await app._core.client()).find(JobFilter()))


async def test_connections_without_a_transaction(app: rota.App) -> None:
    """The job would exist at once, whatever becomes of the caller's other work."""
    plain = await asyncpg.connect(shared_server().url())
    with pytest.raises(InvalidInput, match="inside a transaction"):
        await order(app, plain)
    with pytest.raises(InvalidInput, match="a sync one"):
        order_sync(app, plain)
    await plain.close()
    with psycopg.connect(shared_server().url(), autocommit=True) as own:
        with pytest.raises(InvalidInput, match="inside a transaction"):
            order_sync(app, own)
        with pytest.raises(InvalidInput, match="an async one"):
            await order(app, own)
    second = psycopg2.connect(shared_server().url())
    second.autocommit = True
    with pytest.raises(InvalidInput, match="inside a transaction"):
        order_sync(app, second)
    second.close()
    for name in ("psycopg", "psycopg2"):
        engine = create_engine(alchemy(name), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection, pytest.raises(InvalidInput, match="inside a transaction"):
            order_sync(app, connection)
        engine.dispose()
    for name in ("psycopg", "asyncpg"):
        waiting = create_async_engine(alchemy(name), isolation_level="AUTOCOMMIT")
        async with waiting.connect() as one:
            with pytest.raises(InvalidInput, match="inside a transaction"):
                await order(app, one)
        await waiting.dispose()
    assert await count(app) == 0


def with_django(app: rota.App) -> None:
    connection = django_connection()
    with pytest.raises(InvalidInput, match=r"transaction\.atomic"):
        order_sync(app, connection)
    with pytest.raises(InvalidInput, match="no statement has failed"):
        spoil_and_order(app, connection)
    connection.close()


def spoil_and_order(app: rota.App, connection: Any) -> None:
    with transaction.atomic(using="rota"):
        transaction.set_rollback(True, using="rota")
        order_sync(app, connection)


async def test_django(app: rota.App) -> None:
    await asyncio.to_thread(with_django, app)
    assert await count(app) == 0


async def test_transactions_that_have_failed(app: rota.App) -> None:
    async with await psycopg.AsyncConnection.connect(shared_server().url()) as waiting:
        with pytest.raises(psycopg.errors.DivisionByZero):
            await waiting.execute("SELECT 1 / 0")
        with pytest.raises(InvalidInput, match="no statement has failed; roll it back"):
            await order(app, waiting)
        await waiting.rollback()
        await order(app, waiting)
    connection = await asyncpg.connect(shared_server().url())
    await connection.execute("BEGIN")
    with pytest.raises(asyncpg.DivisionByZeroError):
        await connection.execute("SELECT 1 / 0")
    with pytest.raises(InvalidInput, match="no statement has failed"):
        await order(app, connection)
    await connection.close()
    engine = create_engine(alchemy("psycopg2"))
    with Session(engine) as session:
        with pytest.raises(Exception, match="division by zero"):
            session.execute(text("SELECT 1 / 0"))
        with pytest.raises(InvalidInput, match="no statement has failed"):
            order_sync(app, session)
    engine.dispose()
    assert await count(app) == 1


async def test_closed_connections(app: rota.App) -> None:
    connection = await asyncpg.connect(shared_server().url())
    await connection.close()
    with pytest.raises(InvalidInput, match="an open connection"):
        await order(app, connection)
    for connect in (psycopg.connect, psycopg2.connect):
        with connect(shared_server().url()) as sync:
            pass
        sync.close()
        with pytest.raises(InvalidInput, match="an open connection"):
            order_sync(app, sync)
    engine = create_engine(alchemy("psycopg"))
    with engine.connect() as closed:
        pass
    with pytest.raises(InvalidInput, match="can be used"):
        order_sync(app, closed)
    with pytest.raises(InvalidInput, match="can be used"):
        order_sync(app, Session())
    engine.dispose()


WRONG: dict[str, Callable[[], Any]] = {
    "address": lambda: "postgresql://u:secret@h/db",
    "nothing": object,
    "engine": lambda: create_engine(alchemy("psycopg")),
    "cursor": lambda: psycopg2.connect(shared_server().url()).cursor(),
    "dsn": lambda: {"password": "secret"},
}


@pytest.mark.parametrize("what", WRONG)
async def test_things_that_are_no_connection(app: rota.App, what: str) -> None:
    with pytest.raises(InvalidInput, match="asyncpg, psycopg or psycopg2") as refused:
        await order(app, WRONG[what]())
    assert "secret" not in str(refused.value)
    with pytest.raises(InvalidInput, match="Django"):
        order_sync(app, WRONG[what]())


async def test_other_databases_than_postgresql(app: rota.App) -> None:
    engine = create_engine("sqlite://")
    with engine.connect() as connection, pytest.raises(InvalidInput, match=r"sqlite\+pysqlite.*PostgreSQL"):
        order_sync(app, connection)
    engine.dispose()


async def refuse(app: rota.App, kind: type[RotaError], words: str) -> None:
    """The transaction can be used afterwards."""
    async with by_asyncpg() as connection:
        with pytest.raises(kind, match=words):
            await order(app, connection)
        assert await connection.fetchval("SELECT 1") == 1


async def test_a_schema_that_was_never_migrated() -> None:
    app = rota.App(f"{shared_server().url()}?schema=nobody_made_it")
    await refuse(app, SchemaMissing, "has no schema 'nobody_made_it'.*rota migrate")
    name = fresh_schema_name()
    shared_server().execute(f"CREATE SCHEMA {name}")
    await refuse(rota.App(f"{shared_server().url()}?schema={name}"), SchemaMissing, f"no schema '{name}' with rota")
    shared_server().execute(f"DROP SCHEMA {name}")


async def test_a_schema_of_a_newer_rota(app: rota.App) -> None:
    schema = app.settings.store.rpartition("=")[2]
    shared_server().execute(f"UPDATE {schema}.schema_versions SET version = version + 900, works_with = 900")
    await refuse(app, SchemaTooNew, r"has schema 9\d\d\b")


async def test_rights(app: rota.App) -> None:
    role = f"{app.settings.store.rpartition('=')[2]}_guest"
    shared_server().execute(f"CREATE ROLE {role}")
    async with by_asyncpg() as connection:
        await connection.execute(f"SET ROLE {role}")
        with pytest.raises(StoreDenied, match="may not write"):
            await order(app, connection)
        await connection.execute("RESET ROLE")
        await order(app, connection)
    assert await count(app) == 1
    shared_server().execute(f"DROP ROLE {role}")


async def test_transactions_that_may_not_write(app: rota.App) -> None:
    connection = await asyncpg.connect(shared_server().url())
    async with connection.transaction(readonly=True):
        with pytest.raises(InvalidInput, match="may write"):
            await order(app, connection)
    await connection.close()


async def test_wrong_input_is_refused_before_anything_is_sent(app: rota.App) -> None:
    async with by_asyncpg() as connection:
        with pytest.raises(InvalidInput):
            await app.submit_command(["true"], within=connection, priority=77)
        with pytest.raises(InvalidInput):
            await app.submit_http("GET", "nowhere", within=connection)
        with pytest.raises(InvalidInput):
            await app.schedule("s", ["true"], cron="61 * * * *", within=connection)
        await order(app, connection)
    assert await count(app) == 1


@pytest.mark.slow
def test_django_on_psycopg2() -> None:
    """In a process of its own: Django chooses once."""
    schema = fresh_schema_name()
    program = f"""
import sys
sys.modules["psycopg"] = None  # Django takes psycopg2 if there is no psycopg
import django, rota
from django.conf import settings
settings.configure(DATABASES={{"default": {{
    "ENGINE": "django.db.backends.postgresql", "HOST": "127.0.0.1", "PORT": {shared_server().port},
    "USER": "postgres", "NAME": "postgres"}}}})
django.setup()
from django.db import connection, transaction
app = rota.App("{shared_server().url()}?schema={schema}")
app.sync(app._core.client())
with transaction.atomic():
    with app.workflow("two", within=connection) as flow:
        flow.add(["true"], after=flow.add(["true"]))
    app.schedule_sync("nightly", ["true"], cron="0 3 * * *", within=connection)
assert type(connection.connection).__module__ == "psycopg2.extensions", type(connection.connection)
print(len(app.sync(flow.jobs())), [one.name for one in app.sync(app.schedules())])
connection.close()
app.close_sync()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("2 ['nightly']\n", "")
    shared_server().execute(f"DROP SCHEMA {schema} CASCADE")


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])) | st.none()))
def test_texts_as_literals(texts: list[str | None]) -> None:
    with shared_server().connect() as connection:
        row = connection.execute("SELECT %s::text[]", [literal(texts)]).fetchone()
    assert row == (texts,)


def test_other_literals() -> None:
    assert [literal(one) for one in (None, True, 7, "a", [1, None, True])] == [
        None,
        "true",
        "7",
        "a",
        '{"1",NULL,"true"}',
    ]
