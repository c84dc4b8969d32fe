"""Large families are deleted in short writes, and what they mean to each other is not lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from rota.model.lifecycle import State
from rota.model.principal import LOCAL, SYSTEM
from rota.model.times import DAY
from rota.store.postgres import graph as on_postgres
from rota.store.sqlite import graph as on_sqlite
from rota.store.values import JobFilter, Retention
from rota.store.walks import Walk
from tests.contracts.world import DONE, World

PIECE, CHILDREN = 200, 1_500


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many edges each write may look after that is not the end of a job."""
    seen: list[int] = []

    def watched(settle: Callable[..., Any], place: int) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            seen.extend(args[place:])
            return settle(*args)

        return call

    for module, place in ((on_postgres, 2), (on_sqlite, 1)):
        monkeypatch.setattr(module, "settle", watched(module.settle, place))
        monkeypatch.setattr(module, "PIECE", PIECE)
    return seen


async def family(world: World) -> str:
    """An ended parent, most of whose children have not been looked after."""
    parent = await world.one()
    await world.submit(*(world.child(parent) for _ in range(CHILDREN)))
    actor = await world.node()
    await actor.run(DONE, parent)
    assert await states(world) == {State.READY, State.BLOCKED}
    return parent


async def states(world: World) -> set[State]:
    ready = await world.store.find(SYSTEM, JobFilter(states=(State.READY,), limit=1))
    blocked = await world.store.find(SYSTEM, JobFilter(states=(State.BLOCKED,), limit=1))
    return {one.state for one in (*ready, *blocked)}


async def test_a_purge_goes_in_pieces(world: World, asked: list[int]) -> None:
    parent = await family(world)
    asked.clear()
    assert await world.store.purge(LOCAL, [parent]) == [True]
    assert await states(world) == {State.READY}
    assert set(asked) == {PIECE}
    assert len(asked) >= (CHILDREN - 500) / PIECE / 4, "(on SQLite each write looks after 500 by itself)"


async def test_a_prune_goes_in_pieces_and_says_that_there_is_more(world: World, asked: list[int]) -> None:
    parent = await family(world)
    asked.clear()
    world.clock.advance(1)
    rounds = 0
    while await world.store.get(SYSTEM, parent) is not None:
        assert await world.store.prune(SYSTEM, Retention(0, 0, DAY, DAY), 100), "or the janitor would rest"
        rounds += 1
    assert rounds > 1
    assert set(asked) == {PIECE}
    assert await states(world) == {State.READY}


async def test_workflows_whose_jobs_are_kept_are_looked_at_once_an_hour(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    went = Walk.went

    def watched(self: Walk, looked: int, last: Sequence[str]) -> bool:
        looks.append(looked)
        return went(self, looked, last)

    monkeypatch.setattr(Walk, "went", watched)
    keep = Retention(0, DAY, DAY, DAY)
    for _ in range(3):
        await world.store.prune(SYSTEM, keep, 100)
    once = len(looks)
    assert once in (2, 3), "one for each of its tables"
    world.clock.advance(3601)
    await world.store.prune(SYSTEM, keep, 100)
    assert len(looks) == 2 * once
