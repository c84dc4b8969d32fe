"""What it costs to find tasks that no node offers, and to set their jobs aside: not by how many jobs wait."""

from __future__ import annotations

from rota.model.job import Spec
from rota.model.times import HOUR, SECOND
from rota.store.carriers import offers
from rota.store.offers import Unoffered
from rota.store.postgres import PostgresStore
from rota.store.postgres.database import Unit
from tests.contracts.world import World, offer
from tests.store.postgres.backends import Postgres
from tests.store.postgres.plans import Seen, observe

JOBS, PIECE = 3_000, 20


async def fill(world: World, backend: Postgres) -> None:
    """With statistics of its own: the schema was another test's before, and autovacuum may have counted then."""
    await world.node(tasks=offer("known"))
    for task in ("known", "new"):
        await world.several(JOBS, task=task, spec=Spec.function(task))
    with backend.connection() as db:
        db.execute("ANALYZE jobs")
    world.clock.advance(HOUR // SECOND)


async def test_tasks_are_found_without_looking_at_their_jobs(
    world: World, store: PostgresStore, backend: Postgres
) -> None:
    await fill(world, backend)

    async def look(unit: Unit) -> None:
        assert [one.task for one in await offers.unoffered(unit)] == ["new"]

    seen = await observed(store, look)
    assert seen["unoffered"].indexes == {"jobs_ready_by_task"}
    assert seen["unoffered"].visited <= 10


async def test_setting_aside_costs_by_what_it_ends(world: World, store: PostgresStore, backend: Postgres) -> None:
    await fill(world, backend)

    async def act(unit: Unit) -> None:
        assert await offers.set_aside(unit, Unoffered("default", "new", 0), HOUR, PIECE) == PIECE

    seen = await observed(store, act)
    assert seen["set_aside_unoffered"].indexes == {"jobs_ready_by_task", "jobs_pkey"}
    assert seen["set_aside_unoffered"].visited <= 4 * PIECE


async def observed(store: PostgresStore, deed: object) -> dict[str, Seen]:
    database = store._database
    found = await observe(database, database.pools().work, deed, {})  # type: ignore[arg-type]
    return {one.name: one for one in found}
