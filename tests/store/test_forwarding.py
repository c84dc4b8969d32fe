"""A store that passes every call on, and what a subclass may change. (The contracts run on one: `forwarded`.)"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Sequence
from copy import copy
from typing import Any, assert_type

import pytest

from rota.clock import Chance, ManualClock
from rota.errors import NotAllowed
from rota.model.job import JobInfo
from rota.model.principal import LOCAL, SYSTEM, Principal
from rota.store.base import Store
from rota.store.forwarding import MADE_OF_VERBS, ForwardingStore, innermost, passed_on
from rota.store.sqlite import SqliteStore
from rota.store.verbs import NODE, verbs

VERBS = verbs(Store)


@pytest.fixture
async def inner() -> AsyncIterator[SqliteStore]:
    store = SqliteStore(":memory:", ManualClock(), Chance(1), inline=True)
    await store.migrate()
    yield store
    await store.close()


class Recording:
    """In the place of a store: answers each call with the call."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *args, **named: (name, args, named)


@pytest.mark.parametrize("name", passed_on())
def test_calls_are_passed_on_as_they_are(name: str) -> None:
    store: Any = ForwardingStore.around(Recording())  # type: ignore[arg-type]
    assert getattr(store, name)("a", 2, c=[3]) == (name, ("a", 2), {"c": [3]})


def test_nothing_of_the_contract_is_left_out() -> None:
    assert (
        VERBS.keys() | Store.__abstractmethods__ | {"heard", "carry_wakes", "services", "doubt"} <= passed_on().keys()
    )
    assert not inspect.isabstract(ForwardingStore)
    left = {name for name, _ in inspect.getmembers(Store, inspect.isfunction) if name[0] != "_"} - passed_on().keys()
    assert left == MADE_OF_VERBS


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_stays_what_it_was_declared(name: str) -> None:
    found: Any = getattr(ForwardingStore, name)
    assert found.verb is VERBS[name]
    assert inspect.signature(found) == inspect.signature(getattr(Store, name))


async def test_the_inner_store_checks_once(inner: SqliteStore) -> None:
    store: Any = ForwardingStore.around(inner)
    assert [name for name in VERBS if hasattr(getattr(ForwardingStore, name), "method")] == []
    for name in [name for name, verb in VERBS.items() if verb.by is NODE]:
        with pytest.raises(NotAllowed):
            await getattr(store, name)(LOCAL, *["x"] * (len(inspect.signature(getattr(Store, name)).parameters) - 2))


class Counting(ForwardingStore):
    """Answers one verb itself, and looks at another."""

    def __init__(self, inner: Store, limit: int = 3) -> None:
        super().__init__(inner)
        self.limit, self.asked = limit, 0

    async def promote_jobs(self, who: Principal, /, ids: Sequence[str]) -> int:
        return min(len(ids), self.limit)

    async def get_many(self, who: Principal, /, ids: Sequence[str]) -> list[JobInfo | None]:
        self.asked += 1
        return await self.inner.get_many(who, ids)


async def test_a_subclass_answers_for_itself_behind_the_checks(inner: SqliteStore) -> None:
    store = Counting.around(inner, limit=2)
    assert_type(store, Counting)
    assert await store.promote_jobs(SYSTEM, ["a", "b", "c"]) == 2
    assert await store.promote_jobs(SYSTEM, []) == 0
    with pytest.raises(NotAllowed):
        await store.promote_jobs(LOCAL, ["a"])
    assert await store.promote(SYSTEM, 10) == (0, None), "the rest is passed on"


async def test_what_is_made_of_verbs_sees_those_of_the_subclass(inner: SqliteStore) -> None:
    store = Counting.around(inner)
    assert await store.get(LOCAL, "x") is None
    assert store.asked == 1


def test_what_only_some_stores_have_is_found_through_it(inner: SqliteStore) -> None:
    store: Any = ForwardingStore.around(ForwardingStore.around(inner))
    assert store.path == ":memory:"
    assert getattr(store, "principal", None) is None
    assert not hasattr(store, "_writer"), "what is private stays so"
    assert innermost(store) is inner
    assert innermost(inner) is inner


def test_it_can_be_copied(inner: SqliteStore) -> None:
    """Attributes are asked for before the copy has its inner store."""
    assert copy(ForwardingStore.around(inner)).inner is inner
