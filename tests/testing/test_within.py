"""Orders in a transaction of the code under test: at once in memory, part of the transaction on PostgreSQL."""

from __future__ import annotations

import asyncpg
import psycopg
import pytest

import rota
from rota import testing
from rota.errors import InvalidInput
from tests.store.postgres.backends import migrated_database

app = rota.App("sqlite:///never-made.db", user="me")


@app.task
async def add(a: int, b: int = 1) -> int:
    return a + b


async def test_in_memory_any_connection_will_do() -> None:
    connection = object()
    async with testing.harness(app) as rota_test:
        rota_test.fake_command("true")
        job = await add.within(connection).submit(1)
        await app.submit_command(["true"], within=connection)
        async with app.workflow("both", within=connection) as flow:
            last = flow.add(add, a=2, after=flow.add(add, a=1))
        await app.schedule("hourly", add, every="1h", args={"a": 5}, within=connection)
        await rota_test.drain()
        assert (await job.result(), await last.result()) == (2, 3)
        assert (len(rota_test.orders), rota_test.assert_submitted(add, a=2).workflow) == (4, flow.id)
        await rota_test.advance("1h")
        (fire,) = await rota.Schedule(app, "hourly").history()
        assert fire.state == "succeeded"


def test_in_memory_without_a_loop() -> None:
    connection = object()
    with testing.harness(app, eager=True) as rota_test:
        assert add.within(connection).submit_sync(1).info_sync().result == 2
        add.within(connection).submit_many_sync([{"a": 2}, {"a": 3}])
        with app.workflow(within=connection) as flow:
            flow.add(add, a=4)
        app.schedule_sync("hourly", add, every="1h", args={"a": 5}, within=connection)
        assert [order.args["a"] for order in rota_test.submitted(add)] == [1, 2, 3, 4]


async def test_sync_code_with_a_connection_inside_a_loop() -> None:
    async with testing.harness(app) as rota_test:
        job = add.within(object()).submit_sync(1)
        await rota_test.drain()
        assert await job.result() == 2


async def test_on_postgresql_the_transaction_decides() -> None:
    with migrated_database() as url:
        connection = await asyncpg.connect(url)
        async with testing.harness(app, store=url, eager=True) as rota_test:
            with pytest.raises(InvalidInput, match="within"):
                await add.within(connection).submit(0)
            async with connection.transaction():
                kept = await add.within(connection).submit(1)
            undone = connection.transaction()
            await undone.start()
            await add.within(connection).submit(2)
            await undone.rollback()
            await rota_test.drain()
            assert await kept.result() == 2
            assert [order.args["a"] for order in rota_test.orders] == [1, 2], "recorded when given, kept or not"
            assert await app.jobs().count() == 1
        await connection.close()


def test_on_postgresql_without_a_loop() -> None:
    with (
        migrated_database() as url,
        psycopg.connect(url) as connection,
        testing.harness(app, store=url) as rota_test,
    ):
        job = add.within(connection).submit_sync(1)
        connection.commit()
        rota_test.drain()
        assert (job.result_sync(), len(rota_test.orders)) == (2, 1)
