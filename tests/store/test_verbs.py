"""Verbs: declared once in the contract, checked before every store, carried out by functions that fit."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, assert_type

import pytest

from rota.clock import Chance, ManualClock
from rota.errors import NotAllowed
from rota.model.job import Claimed, JobInfo, Kind, Verdict
from rota.model.lifecycle import State
from rota.model.outcome import Settlement
from rota.model.principal import SYSTEM, Principal, with_address
from rota.store.base import Store
from rota.store.postgres import PostgresStore
from rota.store.postgres import reads as postgres_reads
from rota.store.sqlite import SqliteStore
from rota.store.sqlite import work as sqlite_work
from rota.store.verbs import Caller, reads, verbs, writes

BOB, OLGA, ADA = Principal("bob"), Principal("olga", operator=True), with_address("ada")
VERBS = verbs(Store)
STORES: list[type[Store]] = [SqliteStore, PostgresStore]
REFUSED: dict[Principal, set[Caller]] = {
    BOB: {Caller.OPERATOR, Caller.ADMIN, Caller.NODE},
    OLGA: {Caller.ADMIN, Caller.NODE},
    ADA: {Caller.NODE},
    SYSTEM: set(),
}


def method(store: type[object], name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(store, name)
    return found


def arguments(name: str) -> list[Any]:
    """Something that is not empty for each parameter after store and principal."""
    return ["x" for _ in list(inspect.signature(method(Store, name)).parameters)[2:]]


# -- the contract -----------------------------------------------------------------------------------------------------


def test_every_method_that_takes_a_principal_is_declared() -> None:
    takes = {
        name
        for name, member in inspect.getmembers(Store, inspect.isfunction)
        if "who" in inspect.signature(member).parameters
    }
    assert set(VERBS) == takes - {"find", "get"}, "which are `page` and `get_many`"
    assert len(VERBS) > 60


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_says_what_it_does(name: str) -> None:
    declared, contract = VERBS[name], method(Store, name)
    assert declared.name == contract.__name__ == name
    assert contract.__doc__
    assert inspect.iscoroutinefunction(contract)
    assert list(inspect.signature(contract).parameters)[:2] == ["self", "who"]
    who = inspect.signature(contract).parameters["who"]
    assert who.kind is inspect.Parameter.POSITIONAL_ONLY
    if declared.by is not Caller.ANYONE:
        assert not declared.owner, "whoever may call it sees all rows"


def test_refusals_are_worded_for_people() -> None:
    assert VERBS["take_over"].refusal == "take over jobs or nodes"
    assert VERBS["note"].refusal == "take notes of jobs or nodes"
    assert VERBS["pause_queue"].refusal == "pause a queue, which concerns everyone's jobs: it is for operators"


# -- what stores make of it -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("name", VERBS)
def test_both_stores_carry_it_out(store: type[Store], name: str) -> None:
    assert not inspect.isabstract(store)
    found: Any = method(store, name)
    assert found.verb is VERBS[name], "its checks come first"
    assert found.__doc__ == method(Store, name).__doc__
    assert inspect.signature(found) == inspect.signature(method(Store, name))
    carrier = getattr(found.method, "carrier", None)
    if carrier is None:  # a method of the store: mypy holds it against the contract
        return
    assert found.method.access is VERBS[name].access
    wanted = list(inspect.signature(method(Store, name)).parameters.values())[2:]
    given = [one for one in list(inspect.signature(carrier).parameters.values())[1:] if one.name != "who"]
    assert [(one.name, one.default) for one in given] == [(one.name, one.default) for one in wanted]


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("who", REFUSED, ids=lambda who: who.user)
@pytest.mark.parametrize("name", VERBS)
async def test_it_refuses_exactly_those_it_is_not_for(store: type[Store], who: Principal, name: str) -> None:
    """There is no store behind it: whoever is let in meets nothing."""
    declared = VERBS[name]
    call = method(store, name)(object(), who, *arguments(name))
    if declared.by in REFUSED[who]:
        with pytest.raises(NotAllowed, match=f"^user '{who.user}' may not {declared.refusal}"):
            await call
    elif declared.owner and who is not SYSTEM:
        assert await call == declared.nothing(), "the rows of another"
    else:
        with pytest.raises(AttributeError, match=r"'(object|str)' object has no attribute"):
            await call


BATCHES = [name for name, declared in VERBS.items() if declared.batch]


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("name", BATCHES)
async def test_an_empty_batch_is_answered_at_once(store: type[Store], name: str) -> None:
    declared = VERBS[name]
    assert declared.batch is not None
    given = arguments(name)
    given[declared.batch.position] = ()
    assert await method(store, name)(object(), SYSTEM, *given) == declared.nothing()
    named = dict(zip(list(inspect.signature(method(Store, name)).parameters)[2:], given, strict=True))
    assert await method(store, name)(object(), SYSTEM, **named) == declared.nothing()
    if declared.by is Caller.NODE:
        with pytest.raises(NotAllowed):
            await method(store, name)(object(), BOB, *given)


async def test_rows_of_another_are_answered_at_once() -> None:
    assert {name for name, declared in VERBS.items() if declared.owner} == {"calendars", "fires", "set_aside_schedule"}
    for store in STORES:
        assert await method(store, "calendars")(object(), BOB, "alice") == []
        assert await method(store, "fires")(object(), BOB, "alice", "nightly", 0, 1) == []
        assert await method(store, "set_aside_schedule")(object(), BOB, "alice", "nightly", 1, "why") is False
        with pytest.raises(AttributeError):  # his own: the store is asked
            await method(store, "calendars")(object(), BOB, owner="bob")


async def test_who_overrides_a_verb_can_not_lift_its_checks() -> None:
    class Lenient(SqliteStore):
        async def finish(self, who: Principal, /, settlements: Sequence[Settlement]) -> list[Verdict]:
            return [Verdict.APPLIED]

    lenient: Any = Lenient.finish
    assert await lenient(object(), SYSTEM, ["x"]) == [Verdict.APPLIED]
    with pytest.raises(NotAllowed):
        await lenient(object(), BOB, ["x"])


# -- types ------------------------------------------------------------------------------------------------------------


async def test_each_store_has_the_types_of_the_contract() -> None:
    store = SqliteStore(":memory:", ManualClock(), Chance(), inline=True)
    await store.migrate()
    assert_type(await store.get(BOB, "x"), JobInfo | None)
    assert_type(await store.counts(BOB), dict[State, int])
    assert_type(await store.claim(SYSTEM, "inc", wants={}, kinds=list(Kind), start={}), list[Claimed])
    assert_type(await store.replay(BOB, ["x"]), list[bool])
    await store.close()


if TYPE_CHECKING:  # mypy refuses each of these: an ignore that it does not need is an error

    async def wrong_calls(sqlite: SqliteStore, postgres: PostgresStore) -> None:
        await sqlite.counts("bob")  # type: ignore[arg-type]
        await postgres.get(BOB, job_id=7)  # type: ignore[arg-type]
        await sqlite.replay(BOB, ["x"], agian=True)  # type: ignore[call-arg]
        await postgres.finish(BOB)  # type: ignore[call-arg]

    class WrongSqlite(SqliteStore):
        start = writes(sqlite_work.finish)  # type: ignore[arg-type]

    class WrongPostgres(PostgresStore):
        find = reads(postgres_reads.get_many)  # type: ignore[arg-type]
