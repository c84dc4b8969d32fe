"""SQL functions: installed when their text changed, while nodes of other code call them."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace

import pytest

from rota.clock import Chance, ManualClock
from rota.errors import SchemaTooNew, StoreError
from rota.model.job import Verdict
from rota.model.lifecycle import State
from rota.store.postgres.database import in_schema
from rota.store.postgres.migrate import FoundSchema, KnownSchema
from tests.contracts.world import World
from tests.store.postgres.backends import Postgres
from tests.store.postgres.migration_lint import KNOWN, MIX, NEWEST, NEXT, with_next
from tests.store.postgres.ranking import Place

EMPTY_SCHEMA = True  # see conftest.py

ONE = "\nCREATE OR REPLACE FUNCTION rota.one() RETURNS integer LANGUAGE sql AS 'SELECT 1';\n"
TWO = "\nCREATE OR REPLACE FUNCTION rota.one() RETURNS integer LANGUAGE sql AS 'SELECT 2';\n"
TEXT = "\nCREATE OR REPLACE FUNCTION rota.one() RETURNS text LANGUAGE sql AS 'SELECT ''1''';\n"
EXPAND = f"-- works with: {NEWEST}\nCREATE TABLE rota.more ();"
CONTRACT = "DROP TABLE rota.more;"


def code(extra: str, version: str = KNOWN.code) -> KnownSchema:
    """Code with the tables of today and one more function."""
    return replace(KNOWN, functions=KNOWN.functions + extra, code=version)


async def migrate(place: Place, known: KnownSchema) -> tuple[int, int]:
    store = await place.store(opened=False, known=known)
    return await store.migrate()


def one(place: Place) -> object:
    """The result of the extra function; None: there is none."""
    exists = "SELECT EXISTS (SELECT FROM pg_proc WHERE proname = 'one' AND pronamespace = %s::text::regnamespace)"
    return place.value("SELECT one()") if place.value(exists, place.schema) else None


# -- the files --------------------------------------------------------------------------------------------------------


def test_each_function_is_defined_once_and_can_be_replaced() -> None:
    names = re.findall(r"^CREATE OR REPLACE FUNCTION rota\.(\w+)\(", KNOWN.functions, re.MULTILINE)
    assert len(names) == len(set(names)) == len(re.findall(r"^CREATE\b", KNOWN.functions, re.MULTILINE))
    assert not re.search(r"^\s*(CREATE|DROP|ALTER) (?!OR REPLACE FUNCTION)", KNOWN.functions, re.MULTILINE)


async def test_each_function_is_valid(place: Place) -> None:
    """They are installed without a look at their bodies, since they call each other."""
    await place.store()
    with place.connect() as db:
        db.execute("SET check_function_bodies = on")
        db.execute(in_schema(KNOWN.functions, place.schema).encode())


# -- within one schema version ----------------------------------------------------------------------------------------


async def test_they_are_installed_when_their_text_changed_and_not_otherwise(place: Place) -> None:
    written = "SELECT xmin::text FROM pg_proc WHERE proname = 'clock' AND pronamespace = %s::text::regnamespace"
    assert await migrate(place, code(ONE)) == (0, NEWEST)
    first = place.value(written, place.schema)
    assert await migrate(place, code(ONE)) == (NEWEST, NEWEST)
    assert (one(place), place.value(written, place.schema)) == (1, first)
    assert await migrate(place, code(TWO)) == (NEWEST, NEWEST)
    assert one(place) == 2
    assert place.value(written, place.schema) != first


@pytest.mark.parametrize(
    ("before", "after", "left"), [(ONE, "", None), (ONE, TEXT, "1"), ("", ONE, 1), (TEXT, "", None)]
)
@pytest.mark.slow
async def test_development_reshapes_them(place: Place, before: str, after: str, left: object) -> None:
    await migrate(place, code(before))
    await migrate(place, code(after))
    assert one(place) == left
    store = await place.store(known=code(after))
    assert [finding for finding in await store.examine() if not finding.ok] == []


async def test_an_older_release_takes_nothing_back(place: Place) -> None:
    await migrate(place, code(ONE, "1.2.9"))
    await migrate(place, code(TWO, "1.2.10"))
    for older in ("1.2.9", "1.2", "0.9.9"):
        old = await place.store(known=code(ONE, older))
        assert one(place) == 2
        assert [finding for finding in await old.examine() if not finding.ok] == []


async def test_a_newer_release_keeps_what_the_older_one_calls(place: Place) -> None:
    await migrate(place, code(ONE, "1.2.3"))
    store = await place.store(known=code(MIX, "1.2.4"))
    assert one(place) == 1
    assert [finding for finding in await store.examine() if not finding.ok] == []


async def test_a_newer_release_must_not_change_a_signature(place: Place) -> None:
    await migrate(place, code(ONE, "1.2.3"))
    with pytest.raises(StoreError, match="return type"):
        await migrate(place, code(TEXT, "1.2.4"))
    assert one(place) == 1
    assert place.value("SELECT code FROM schema_versions ORDER BY version DESC") == "1.2.3"


@pytest.mark.slow
async def test_jobs_run_while_functions_are_replaced(
    place: Place, backend: Postgres, clock: ManualClock, chance: Chance
) -> None:
    store = await place.store(clock=clock)
    world = World(store, backend, clock, chance)
    jobs = await world.several(200)
    actor = await world.node()
    over = False

    async def work() -> None:
        nonlocal over
        while claimed := await actor.claim(5):
            for job in claimed:
                assert await actor.finish(job) is Verdict.APPLIED
            await world.one()
            jobs.pop()
            if not jobs:
                break
        over = True

    async def replace_functions() -> None:
        for number in range(1000):
            await migrate(place, code(TWO if number % 2 else ONE))
            if over and number > 2:
                break

    await asyncio.gather(work(), replace_functions())
    assert {info.state for info in (await world.all()).values()} <= {State.SUCCEEDED, State.READY}


async def test_a_long_reader_is_not_waited_for(place: Place) -> None:
    await place.store()
    with place.connect() as db:
        db.execute("BEGIN")
        db.execute("SELECT count(*), one.clock FROM jobs, clock(NULL) AS one GROUP BY 2")
        async with asyncio.timeout(5):
            await migrate(place, code(ONE))
    assert one(place) == 1


# -- across versions --------------------------------------------------------------------------------------------------


async def test_expand_then_contract(place: Place) -> None:
    """The next version adds; old nodes keep the functions they call. The one after clears up, once they are gone."""
    old = await place.store(known=code(ONE))
    expanded = with_next(EXPAND)
    assert await migrate(place, expanded) == (NEWEST, NEWEST + 1)
    assert one(place) == 1, "old nodes may call it"
    await old.open()
    assert await old.migrate() == (NEWEST + 1, NEWEST + 1)
    assert place.value("SELECT functions FROM schema_versions ORDER BY version DESC LIMIT 1") == expanded.digest
    contracted = with_next(EXPAND, CONTRACT)
    assert await migrate(place, contracted) == (NEWEST + 1, NEWEST + 2)
    assert one(place) is None
    for verb in (old.open, old.migrate):
        with pytest.raises(SchemaTooNew):
            await verb()


async def test_a_step_beside_old_nodes_must_not_change_a_signature(place: Place) -> None:
    await migrate(place, code(ONE))
    with pytest.raises(StoreError, match="return type"):
        await migrate(place, with_next(EXPAND, functions=KNOWN.functions + TEXT))
    assert one(place) == 1
    assert place.value("SELECT max(version) FROM schema_versions") == NEWEST
    assert await migrate(place, with_next("CREATE TABLE rota.more ();", functions=KNOWN.functions + TEXT))
    assert one(place) == "1"


async def test_tables_functions_and_triggers_are_made_in_this_order(place: Place) -> None:
    """A function may take a row of a new table, and a trigger calls a new function."""
    table = f"-- works with: {NEWEST}\nCREATE TABLE rota.more (i int);\n\n-- after functions\n\n"
    trigger = "CREATE TRIGGER written BEFORE INSERT ON rota.more FOR EACH ROW EXECUTE FUNCTION rota.mix();"
    uses = "\nCREATE OR REPLACE FUNCTION rota.i(one rota.more) RETURNS integer LANGUAGE sql AS 'SELECT one.i';\n"
    known = with_next(NEXT, table + trigger, functions=KNOWN.functions + MIX + uses)
    assert await migrate(place, known) == (0, NEWEST + 2)
    assert place.value("INSERT INTO more VALUES (7) RETURNING i(more)") == 7


# -- the decision -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "lacks", "shared"),
    [
        (FoundSchema(), True, False),
        (FoundSchema(1, 1, "x", "2.0.0"), True, True),
        (FoundSchema(2, 1, "x", "2.0.0"), True, False),
        (FoundSchema(2, 1, "x", "1.9.0"), True, True),
        (FoundSchema(2, 1, "x", "2.0.1"), False, True),
        (FoundSchema(3, 1, "x", "2.0.0"), False, False),
    ],
)
def test_the_decision(found: FoundSchema, lacks: bool, shared: bool) -> None:
    known = KnownSchema(((1, "SELECT 1"), (2, "-- works with: 1\nSELECT 1")), "", "2.0.0")
    assert (found.lacks(known), found.shared(known)) == (lacks, shared)
    assert not found._replace(version=2, functions=known.digest).lacks(known)


async def test_doctor_tells_of_functions_that_differ(place: Place) -> None:
    await migrate(place, code(ONE))
    store = await place.store(opened=False)
    await store.open()
    bad = {finding.name: finding.text for finding in await store.examine() if not finding.ok}
    assert list(bad) == ["functions"]
    assert "rota migrate" in bad["functions"]
    await store.migrate()
    assert [finding for finding in await store.examine() if not finding.ok] == []


async def test_a_candidate_takes_back_nothing_of_its_release(place: Place) -> None:
    await migrate(place, code(TWO, "1.2.0"))
    await migrate(place, code(ONE, "1.2.0rc1"))
    assert one(place) == 2
    await migrate(place, code(ONE, "1.2.1rc1"))
    assert one(place) == 1


# -- functions of other people ----------------------------------------------------------------------------------------
async def test_functions_of_other_people_in_the_schema_are_left_alone(place: Place) -> None:
    with place.connect() as db:
        db.execute(f"CREATE SCHEMA {place.schema}".encode())
        db.execute(f"CREATE FUNCTION {place.schema}.mine() RETURNS integer LANGUAGE sql AS 'SELECT 42'".encode())
        sums = f"CREATE AGGREGATE {place.schema}.sums(int) (sfunc = int4pl, stype = int, initcond = '0')"
        db.execute(sums.encode())
    await migrate(place, KNOWN)
    await migrate(place, code(ONE))
    assert (place.value("SELECT mine()"), place.value("SELECT sums(7)")) == (42, 7)
    assert one(place) == 1
    await migrate(place, KNOWN)
    assert one(place) is None, "ours go when no file defines them"


async def test_other_arguments_are_refused_beside_other_nodes(place: Place) -> None:
    """A second signature would make calls of the first ambiguous."""
    await migrate(place, code("", "1.2.3"))
    changed = KNOWN.functions.replace("FUNCTION rota.clock(given bigint)", "FUNCTION rota.clock(given numeric)")
    assert changed != KNOWN.functions
    with pytest.raises(StoreError, match=r"other arguments of functions that nodes may call: .*clock\(numeric\)"):
        await migrate(place, replace(KNOWN, functions=changed, code="1.2.4"))
    assert place.value("SELECT clock(7)") == 7
