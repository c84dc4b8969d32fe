"""A migration that others stand in the way of: it waits for them, nobody waits behind it, and it says whom it waits
for."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rota.clock import Chance, ManualClock
from rota.errors import StoreUnavailable
from rota.store.postgres import migrate
from rota.store.postgres.locks import _named
from rota.store.postgres.session import lock_number
from tests.contracts.world import World
from tests.servers.postgres import database, shared_server
from tests.store.postgres.backends import Postgres, migrated_database
from tests.store.postgres.migration_lint import NEWEST, with_next
from tests.store.postgres.ranking import LIMIT, Place

CHANGE = with_next(f"-- works with: {NEWEST}\nALTER TABLE rota.nodes ADD COLUMN colour text;")


@pytest.fixture
async def alone() -> AsyncIterator[Place]:
    """A place that no other test uses again."""
    with migrated_database() as url:
        place = Place(url)
        yield place
        await place.close()


@contextmanager
def reader(place: Place, reads: str = "SELECT count(*) FROM rota.nodes") -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(place.url, application_name="report") as db:
        db.execute(reads.encode())
        yield db


async def test_renewals_go_on_while_it_waits_for_a_long_reader(
    alone: Place, tmp_path: Path, clock: ManualClock, chance: Chance
) -> None:
    world = World(await alone.store(clock=clock), Postgres(tmp_path, clock), clock, chance)
    actor = await world.node()
    new = await alone.store(opened=False, known=CHANGE)
    told: list[str] = []
    with reader(alone) as db:
        migrating = asyncio.create_task(new.migrate(told.append))
        async with asyncio.timeout(LIMIT):
            while not told:
                assert (await actor.renew()).known
            for _ in range(200):  # it has tried again and again by then
                assert (await actor.renew()).known
        assert not migrating.done()
        pid = db.info.backend_pid
    assert told[0].startswith(
        f"waits for process {pid} of the server (user postgres, application report), in a transac"
    )
    async with asyncio.timeout(LIMIT):
        assert await migrating == (NEWEST, NEWEST + 1)
    assert (await actor.renew()).known


async def test_it_gives_up_in_the_end_and_says_why(alone: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrate, "LONGEST_WAIT", 1.0)
    monkeypatch.setattr(migrate, "LOCK_LIMIT", "2s")  # one try, with time enough to see who it is
    new = await alone.store(opened=False, known=CHANGE)
    with reader(alone) as db:
        pid = db.info.backend_pid
        with pytest.raises(StoreUnavailable) as caught:
            await new.migrate()
    assert caught.value.passing
    said = str(caught.value)
    assert "the schema stays as it was" in said
    assert f"waits for process {pid}" in said
    assert alone.value("SELECT max(version) FROM rota.schema_versions") == NEWEST
    assert await new.migrate() == (NEWEST, NEWEST + 1)


async def test_the_command_says_whom_it_waits_for() -> None:
    with database(shared_server()) as url:
        place = Place(url)
        with reader(place, f"SELECT pg_advisory_xact_lock({lock_number('rota', 'migrate')})") as db:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "rota", "migrate", "--store", url,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            assert process.stderr
            async with asyncio.timeout(2 * LIMIT):
                line = (await process.stderr.readline()).decode()
            assert line.startswith(f"rota: waits for process {db.info.backend_pid} of the server (user postgres, app")
        async with asyncio.timeout(2 * LIMIT):
            said, _ = await process.communicate()
        assert (process.returncode, f"from schema 0 to {NEWEST}" in said.decode()) == (0, True)


def test_names_can_not_break_the_line() -> None:
    assert _named(7, "a\nb", "\x1b[2J", None, None) == "process 7 of the server (user a?b, application ?[2J)"
