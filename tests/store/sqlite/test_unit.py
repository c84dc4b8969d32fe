"""Shared carriers on SQLite: a coroutine is carried out at once, and values become what SQLite takes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from rota.clock import ManualClock
from rota.store import sql_files
from rota.store.carriers.unit import Unit
from rota.store.sqlite import migrate
from rota.store.sqlite.database import MEMORY, Database
from rota.store.sqlite.unit import at_once
from rota.store.values import Topic

ROWS = sql_files.in_sqlite("SELECT * FROM unnest(:names::text[], :numbers::bigint[]) AS given(name, number)")
NAMES = "SELECT value FROM json_each(:names)"


@pytest.fixture
def db() -> Iterator[Database]:
    database = Database(MEMORY, ManualClock(), 0)
    migrate.migrate(database)
    database._queries = {**database._queries, "rows": ROWS, "names": NAMES}
    yield database
    database.close()


def test_a_carrier_is_carried_out_and_answers(db: Database) -> None:
    async def carrier(unit: Unit, names: list[str], last: str = "z") -> list[str]:
        await unit.begin()
        unit.topics.add(Topic.READY)
        return [*[name for (name,) in await unit.rows("names", names=names)], last]

    assert at_once(carrier)(db, ["a", "b"]) == ["a", "b", "z"]
    assert at_once(carrier)(db, [], last="end") == ["end"]
    assert db.topics == {Topic.READY}


def test_columns_become_rows(db: Database) -> None:
    async def carrier(unit: Unit, columns: dict[str, list[object]]) -> list[tuple[object, object]]:
        return [tuple(row) for row in await unit.rows("rows", columns)]

    assert at_once(carrier)(db, {"names": ["a", "b"], "numbers": [1, None]}) == [("a", 1), ("b", None)]
    assert at_once(carrier)(db, {"names": [], "numbers": []}) == []
    with pytest.raises(ValueError, match="shorter"):
        at_once(carrier)(db, {"names": ["a"], "numbers": []})


def test_an_error_goes_to_the_caller(db: Database) -> None:
    async def carrier(unit: Unit) -> None:
        raise KeyError("this one")

    with pytest.raises(KeyError, match="this one"):
        at_once(carrier)(db)


async def test_a_carrier_must_not_wait_for_anything_else(db: Database) -> None:
    cleared: list[str] = []

    async def impatient(unit: Unit) -> None:
        try:
            await asyncio.sleep(0)
        finally:
            cleared.append("yes")

    with pytest.raises(RuntimeError, match="impatient waits for something that is not the store"):
        at_once(impatient)(db)
    assert cleared == ["yes"]


def test_a_carrier_keeps_its_name_and_parameters() -> None:
    async def carrier(unit: Unit, who: str) -> None:
        """Its text."""

    made = at_once(carrier)
    assert (made.__name__, made.__doc__) == ("carrier", "Its text.")


@pytest.mark.parametrize("count", [0, 1, 3, 4, 21, 64, 149])
def test_rows_are_inserted_in_few_statements(db: Database, count: int) -> None:
    db._queries = {**db._queries, "insert": "INSERT INTO wanted (name, number) VALUES (?, ?)"}
    db.connection.execute("CREATE TEMP TABLE wanted (name TEXT, number INTEGER)")
    rows = [(f"row {number}", number) for number in range(count)]
    db.insert("insert", rows)
    assert list(db.connection.execute("SELECT name, number FROM wanted ORDER BY rowid")) == rows
