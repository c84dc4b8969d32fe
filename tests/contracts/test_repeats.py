"""Repeats of writes: recognised by the store, answered as the first time, without a second effect (I13, I22)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from rota.errors import IdempotencyKeyReused, InvalidInput, RepeatInFlight
from rota.model.access_keys import NewKey
from rota.model.limits import Limit
from rota.model.principal import SYSTEM, Principal
from rota.model.repeats import Repeat
from rota.model.times import DAY, SECOND
from rota.remote.wire import calls
from rota.store.base import Store
from rota.store.deeds import Deed
from rota.store.repeats import KeptStep
from rota.store.values import Cancelling, Retention
from tests.contracts.test_audit import ANN, CALLS, KEY, bea, rows
from tests.contracts.world import World


def naming(
    verb: str, who: Principal = ANN, key: str = "k", digest: str = "d", step: int = 0, route: str = "r"
) -> Principal:
    """A principal whose next call of the verb is this write."""
    call = calls()[verb]

    def recall(content: bytes | None) -> Any:
        assert content is not None
        return call.decode_answer(content)

    repeat = Repeat(key, route, digest, DAY, call.encode_answer, recall, step)
    return Principal(who.user, operator=who.operator, admin=who.admin, key=who.key, repeat=repeat)


async def carry(store: Store, verb: str, arguments: tuple[Any, ...], who: Principal) -> Any:
    return await getattr(store, verb)(who, *arguments)


@pytest.mark.parametrize("verb", sorted(CALLS))
async def test_a_repeat_has_the_same_answer_and_changes_nothing(world: World, verb: str) -> None:
    arguments = await CALLS[verb][0](world)
    first = await carry(world.store, verb, arguments, naming(verb))
    audited = len(await rows(world))
    world.clock.advance(1)
    async with world.unchanged():
        assert await carry(world.store, verb, arguments, naming(verb)) == first
    assert len(await rows(world)) == audited, "a repeat has no audit row"


async def test_another_process_knows_it(world: World, another: Store) -> None:
    job = await world.one(ANN)
    assert await world.store.cancel(naming("cancel"), [job], "") == [Cancelling.CANCELLED]
    assert await another.cancel(naming("cancel"), [job], "") == [Cancelling.CANCELLED]
    assert await another.cancel(ANN, [job], "") == [Cancelling.ENDED]


async def test_the_same_key_for_something_else_is_refused(world: World, backend: Any) -> None:
    if not hasattr(world.store, "remote"):  # (a server makes route and digest itself)
        await world.store.set_limit(naming("set_limit"), Limit("db", 1))
        for other in (naming("set_limit", digest="other"), naming("set_limit", route="other")):
            async with world.unchanged():
                with pytest.raises(IdempotencyKeyReused):
                    await world.store.set_limit(other, Limit("db", 2))
        return
    await world.store.set_limit(naming("set_limit"), Limit("db", 1))
    with pytest.raises(IdempotencyKeyReused):
        await world.store.set_limit(naming("set_limit"), Limit("db", 2))
    with pytest.raises(IdempotencyKeyReused):
        await world.store.remove_limit(naming("remove_limit"), "db")


async def test_keys_belong_to_their_users(world: World) -> None:
    eve = Principal("eve", key="k2")
    for who in (ANN, eve):
        await world.store.set_limit(naming("set_limit", who), Limit("db", 1))
    assert [row.user for row in await rows(world)] == ["eve", "ann"]


async def test_a_write_that_failed_is_not_remembered(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(Deed, "row", fail)
        with world.backend.raises(ZeroDivisionError):
            await world.store.set_limit(naming("set_limit"), Limit("db", 1))
    await world.store.set_limit(naming("set_limit"), Limit("db", 1))
    assert len(await rows(world)) == 1


async def test_a_refusal_is_not_remembered(world: World) -> None:
    with pytest.raises(Exception, match="no user 'bea'"):
        await world.store.add_key(naming("add_key"), KEY)
    await bea(world)
    made = await world.store.add_key(naming("add_key"), KEY)
    assert await world.store.add_key(naming("add_key"), KEY) == made
    with pytest.raises(InvalidInput):
        await world.store.add_key(ANN, KEY)


async def test_the_hash_of_a_key_is_not_kept(world: World) -> None:
    await bea(world)
    new = NewKey(id="ef", hash="0123456789abcdef", user="bea", role=KEY.role)
    await world.store.add_key(naming("add_key"), new)
    assert new.hash not in repr(world.backend.contents("repeats"))


async def test_it_is_forgotten_in_time(world: World) -> None:
    await world.store.set_limit(naming("set_limit"), Limit("db", 1))
    world.clock.advance(DAY / SECOND - 1)
    await world.store.set_limit(naming("set_limit"), Limit("db", 1))
    assert len(await rows(world)) == 1
    world.clock.advance(2)
    await world.store.set_limit(naming("set_limit"), Limit("db", 1))
    assert len(await rows(world)) == 2, "the row of an expired key is replaced, also before it is pruned"
    await world.store.set_limit(naming("set_limit"), Limit("db", 1))
    assert len(await rows(world)) == 2
    for number in range(5):
        await world.store.set_limit(naming("set_limit", key=f"k{number}"), Limit("db", 1))
    keep = Retention(DAY, DAY, DAY, DAY, audit=DAY)
    world.clock.advance(DAY / SECOND - 1)
    assert await prune(world, keep) == []
    world.clock.advance(2)
    await world.store.set_limit(naming("set_limit", key="new"), Limit("db", 1))
    deleted = await prune(world, keep)
    assert sum(deleted) >= 6
    assert max(deleted) <= 2, "in batches"
    assert len(world.backend.contents("repeats")["repeats"]) == 1


async def prune(world: World, keep: Retention) -> list[int]:
    deleted: list[int] = []
    before = len(world.backend.contents("repeats")["repeats"])
    while await world.store.prune(SYSTEM, keep, 2):
        left = len(world.backend.contents("repeats")["repeats"])
        deleted.append(before - left)
        before = left
    return [number for number in deleted if number]


async def test_steps_of_a_request(world: World) -> None:
    step = KeptStep(1, "r", "d", b"\0 read later")
    store = world.store
    assert await store.seal_repeat(SYSTEM, "ann", "k", step, DAY)
    assert not await store.seal_repeat(SYSTEM, "ann", "k", KeptStep(1, "r", "d", b"other"), DAY), "the first one stays"
    assert await store.repeat_steps(SYSTEM, "ann", "k") == [step]
    assert await store.repeat_steps(SYSTEM, "bob", "k") == []
    assert await store.repeat_steps(SYSTEM, "ann", "other") == []
    world.clock.advance(DAY / SECOND)
    assert await store.repeat_steps(SYSTEM, "ann", "k") == []
    assert await store.seal_repeat(SYSTEM, "ann", "k", step, DAY)


async def test_the_steps_of_a_request_expire_together(world: World) -> None:
    for number in range(3):
        await world.store.seal_repeat(SYSTEM, "ann", "k", KeptStep(number, "r", "d", b""), DAY)
        world.clock.advance(60)
    world.clock.advance(DAY / SECOND - 181)
    assert len(await world.store.repeat_steps(SYSTEM, "ann", "k")) == 3
    world.clock.advance(1)
    assert await world.store.repeat_steps(SYSTEM, "ann", "k") == []


async def raced(tries: int, act: Callable[[int], Any]) -> list[Any]:
    """The answers of concurrent tries. Each is sent again while another is carried out, as clients do."""

    async def one(number: int) -> Any:
        while True:
            try:
                return await act(number)
            except RepeatInFlight:
                await asyncio.sleep(0.001)

    return await asyncio.gather(*(one(number) for number in range(tries)))


async def test_of_tries_at_once_one_is_carried_out(world: World, another: Store) -> None:
    """Eight tries each, through two stores on one place."""
    stores = (world.store, another)
    for turn in range(10):
        job, who = await world.one(ANN), naming("cancel", key=f"k{turn}")
        answers = await raced(8, partial(_cancel, stores, who, job))
        assert answers == [[Cancelling.CANCELLED]] * 8, "without the key seven of them had ended"
        assert len(await rows(world, deed="cancel")) == turn + 1


async def _cancel(stores: Sequence[Store], who: Principal, job: str, number: int) -> list[Cancelling]:
    return await stores[number % 2].cancel(who, [job], "")
