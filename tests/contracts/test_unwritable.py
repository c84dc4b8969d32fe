"""What the store can't hold is set aside, alone; and nothing else ever is."""

from __future__ import annotations

from typing import Any

import pytest

from rota.errors import InvalidInput, StoreDenied, StoreError
from rota.model.job import Verdict
from rota.model.lifecycle import State
from rota.model.outcome import Failed, Problem, Succeeded
from rota.model.principal import SYSTEM
from tests.contracts.attempts import SAID, perform, said
from tests.contracts.world import DONE, World, settled

HALF = "\ud800"  # half a character: UTF-8 has no bytes for it


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.refusals.FIRST_PAUSE", 0.0)


@pytest.mark.parametrize("bad", [Succeeded(HALF), Succeeded(exit_code=1 << 70), Failed(Problem("E", HALF))])
async def test_values_that_no_table_holds_are_set_aside_and_their_neighbours_end_well(world: World, bad: Any) -> None:
    first, second, third = await world.several(3)
    actor = await world.node()
    claimed = await actor.claim()
    await perform(world.store, claimed, Succeeded(), bad, Succeeded())
    assert await world.states(first, second, third) == [State.SUCCEEDED, State.FAILED, State.SUCCEEDED]
    info = await world.info(second)
    assert info.error is not None
    assert "its end could not be written" in str(info.error)
    for job in (first, second, third):
        assert await said(world.store, job) == SAID


@pytest.mark.parametrize("error", [StoreError("refused"), StoreDenied("no"), OSError("gone"), RuntimeError("ours")])
@pytest.mark.parametrize("verb", ["finish", "append_output", "note"])
async def test_no_trouble_of_the_store_changes_an_end(
    world: World, verb: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await world.one()
    (child,) = await world.submit(world.child(job))
    actor = await world.node()
    real, left = getattr(world.store, verb), [error] * 10

    async def troubled(*args: Any) -> Any:
        if left:
            raise left.pop()
        return await real(*args)

    monkeypatch.setattr(world.store, verb, troubled)
    await perform(world.store, await actor.claim(1))
    assert not left
    assert await world.states(job, child) == [State.SUCCEEDED, State.READY]
    assert (await world.info(job)).result == "done"
    assert await said(world.store, job) == SAID


async def test_values_are_not_to_blame_if_an_end_without_them_is_refused_as_well(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await world.one()
    actor = await world.node()
    finish, left = world.store.finish, [InvalidInput("row", "anything", "nothing")] * 4

    async def troubled(*args: Any) -> Any:
        if left:
            raise left.pop()
        return await finish(*args)

    monkeypatch.setattr(world.store, "finish", troubled)
    await perform(world.store, await actor.claim(1))
    assert await world.state(job) is State.SUCCEEDED


async def test_one_that_the_store_trips_over_keeps_nobody_waiting(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its row is damaged, say: neither its output nor its end can be written for a long time."""
    stuck, fine = await world.several(2)
    actor = await world.node()
    claimed = await actor.claim()
    real = {verb: getattr(world.store, verb) for verb in ("finish", "append_output")}

    def tripping(verb: str) -> Any:
        async def trip(who: Any, items: Any) -> Any:
            if any(one.job_id == stuck for one in items) and await world.state(fine) is not State.SUCCEEDED:
                raise StoreError("a page of it is damaged")
            return await real[verb](who, items)

        return trip

    for verb in real:
        monkeypatch.setattr(world.store, verb, tripping(verb))
    await perform(world.store, claimed)
    assert await world.states(stuck, fine) == [State.SUCCEEDED] * 2
    assert await said(world.store, stuck) == await said(world.store, fine) == SAID


async def test_a_bad_one_in_a_write_is_refused_as_such(world: World) -> None:
    """What sets it aside goes by that; see rota.refusals."""
    job = await world.one()
    actor = await world.node()
    claimed = await actor.take(job)
    with pytest.raises(InvalidInput):
        await actor.finish(claimed, Succeeded(HALF))
    assert await world.store.finish(SYSTEM, [settled(claimed, DONE)]) == [Verdict.APPLIED]
