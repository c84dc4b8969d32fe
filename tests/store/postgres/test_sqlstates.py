"""Errors of every class that PostgreSQL has, at every write of an attempt: its end and its output stay as they were."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import asyncpg
import asyncpg.exceptions
import pytest

from rota.errors import InvalidInput, RotaError, StoreDenied, StoreError, StoreUnavailable
from rota.model.lifecycle import State
from rota.model.outcome import Succeeded
from rota.refusals import CERTAIN
from rota.store.postgres import PostgresStore
from rota.store.postgres.errors import translated
from tests.contracts.attempts import SAID, perform, said
from tests.contracts.world import World

_CODES = {str(code) for kind in vars(asyncpg.exceptions).values() if (code := getattr(kind, "sqlstate", None))}
# With one that nobody knows; without those that say that all is well.
CODES = sorted({*_CODES, "ZZ999"} - {code for code in _CODES if code[:2] in ("00", "01", "02")})
CLASSES = sorted({code[:2] for code in CODES})
WRITES = ("finish", "append_output", "note")


def error(code: str, **fields: str) -> asyncpg.PostgresError:
    found: asyncpg.PostgresError = asyncpg.PostgresError.new({"S": "ERROR", "C": code, "M": "injected", **fields})
    return found


class Trouble:
    """Refuses the next writes of each kind with these codes, one after the other."""

    def __init__(self, store: PostgresStore) -> None:
        self.left: dict[str, list[str]] = {}
        self._call = store._database.call

    def begin(self, codes: Sequence[str]) -> None:
        self.left = {verb: list(codes) for verb in WRITES}

    async def call(self, pool: Any, work: Callable[..., Awaitable[Any]], *args: Any, **named: Any) -> Any:
        if codes := self.left.get(work.__name__):
            return await self._call(pool, self._refuse, codes.pop(0))
        return await self._call(pool, work, *args, **named)

    async def _refuse(self, unit: Any, code: str) -> None:
        await unit.connection.fetchval("SELECT 1")
        raise error(code)


@pytest.fixture
def trouble(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> Trouble:
    monkeypatch.setattr("rota.refusals.FIRST_PAUSE", 0.0)
    trouble = Trouble(store)
    monkeypatch.setattr(store._database, "call", trouble.call)
    return trouble


async def ends_well(world: World, trouble: Trouble, codes: Sequence[str]) -> None:
    actor = await world.node()
    job = await world.one()
    (child,) = await world.submit(world.child(job))
    claimed = await actor.claim(1)
    trouble.begin(codes)
    async with asyncio.timeout(20):
        await perform(world.store, claimed, Succeeded('"done"'))
    assert not any(trouble.left.values())
    info = await world.info(job)
    assert (info.state, info.result, await world.state(child)) == (State.SUCCEEDED, "done", State.READY)
    assert await said(world.store, job) == SAID


@pytest.mark.sampled(6)
@pytest.mark.parametrize("group", CLASSES)
async def test_an_end_and_an_output_stay_what_they_were(world: World, trouble: Trouble, group: str) -> None:
    await ends_well(world, trouble, [code for code in CODES if code[:2] == group])


@pytest.mark.parametrize("code", ["22001", "22021", "23502", "54000"])
async def test_values_that_are_blamed_for_a_while(world: World, trouble: Trouble, code: str) -> None:
    """As often as makes certain, and once more for what is written without them."""
    await ends_well(world, trouble, [code] * (CERTAIN + 1))


# -- what each says to whom it may concern ----------------------------------------------------------------------------


def said_of(code: str, **fields: str) -> RotaError:
    with pytest.raises(RotaError) as caught, translated("the server"):
        raise error(code, **fields)
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("code", "fields"),
    [("22001", {}), ("22003", {}), ("22021", {}), ("23502", {}), ("23514", {"n": "jobs_fence_check"}),
     ("54000", {"F": "nbtutils.c"}), ("54000", {"F": "hio.c"})],
)  # fmt: skip
def test_values_are_blamed_where_only_they_can_be_at_fault(code: str, fields: dict[str, str]) -> None:
    assert isinstance(said_of(code, **fields), InvalidInput)


@pytest.mark.parametrize(
    ("code", "fields"),
    [("23514", {}), ("54000", {"F": "varsup.c"}), ("53200", {}), ("58030", {}), ("57P01", {}), ("40001", {})],
)
def test_a_server_in_trouble_blames_no_values(code: str, fields: dict[str, str]) -> None:
    """23514 without a rule: no partition for the row. 54000 of varsup.c: no transaction numbers are left."""
    assert isinstance(said_of(code, **fields), StoreUnavailable)


@pytest.mark.parametrize("code", ["28P01", "28000", "3D000", "42501"])
def test_who_is_not_let_in_is_told_to_look_at_the_address(code: str) -> None:
    told = said_of(code)
    assert isinstance(told, StoreDenied)
    assert (told.passing, told.whole) == (False, True)
    assert "check the address, the user and its rights" in str(told)


@pytest.mark.parametrize("code", ["XX000", "XX001", "42P01", "ZZ999", "23505", "P0001"])
def test_anything_else_is_told_as_it_is(code: str) -> None:
    told = said_of(code)
    assert type(told) is StoreError
    assert (told.passing, told.whole) == (False, False)
    assert "injected" in str(told)


async def test_a_real_missing_partition_is_the_server_s_trouble(world: World, store: PostgresStore) -> None:
    """Nothing of the kind can happen while there is a partition for the rest."""
    unit: Any
    async with store._database.unit(store._database.pools().work) as unit:
        await unit.connection.execute("CREATE TEMPORARY TABLE days (day int) PARTITION BY RANGE (day)")
    with pytest.raises(StoreUnavailable, match="no partition"):
        async with store._database.unit(store._database.pools().work) as unit:
            await unit.connection.execute("INSERT INTO days VALUES (7)")
