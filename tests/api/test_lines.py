"""Lines of far-away workers: what they say, and what follows when one is closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from rota.api import lines as lines_
from rota.api.far_workers import FarWorkers
from rota.config import Settings
from rota.model.lifecycle import State
from rota.model.node import NodeInfo, NodeState
from rota.model.principal import SYSTEM
from rota.model.times import SECOND
from rota.telemetry.events import Bus, Event, NodeDied
from tests.api.far import Far, worker_key
from tests.contracts.world import World

GRACE = 0.05


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_, "GRACE", int(GRACE * SECOND))


class Place:
    def __init__(self, world: World) -> None:
        self.world, self.bus, self.died = world, Bus(), asyncio.Event()
        self.bus.subscribe(self._hear)
        self.door = FarWorkers(world.store, world.clock, Settings(), self.bus)
        self.far = Far(self.door, worker_key(), "inc1", "far")

    def _hear(self, event: Event) -> None:
        if isinstance(event, NodeDied):
            assert event.why == "its line was closed"
            self.died.set()

    async def open(self, line: str) -> AsyncIterator[bytes]:
        """A line that the worker has renewed with."""
        pieces = self.door.lines.pieces(self.far.incarnation, line, "here")
        assert await anext(pieces) == b"open here\n"
        await self.far.renew(line)
        return pieces

    async def state(self) -> NodeState:
        return (await self.world.store.nodes(SYSTEM, past=True))[0].state

    async def quiet(self) -> None:
        """Waits until no notice is under way."""
        while await self.door.lines.settled(self.far.incarnation):
            pass


@pytest.fixture
async def place(world: World) -> Place:
    place = Place(world)
    await place.far.join()
    return place


async def close(pieces: AsyncIterator[bytes]) -> None:
    await pieces.aclose()  # type: ignore[attr-defined]


async def test_a_closed_line_lets_others_have_the_jobs_of_its_worker(place: Place) -> None:
    job = await place.world.one()
    await place.far.take()
    await close(await place.open("line1"))
    assert await place.world.state(job) is State.RUNNING, "not before the grace is over"
    await asyncio.wait_for(place.died.wait(), 10)
    assert await place.world.state(job) is State.READY
    assert not (await place.far.renew()).news.known


async def test_a_worker_that_has_renewed_without_a_line_is_left_alone(place: Place) -> None:
    await close(await place.open("line1"))
    await place.far.renew()
    await place.quiet()
    assert await place.state() is NodeState.LIVE


async def test_a_worker_that_renews_during_the_grace_is_left_alone(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = place.door.lines.named

    async def then_renewed(incarnation: str, line: str) -> NodeInfo | None:
        found = await named(incarnation, line)
        await place.far.renew()
        return found

    monkeypatch.setattr(place.door.lines, "named", then_renewed)
    await close(await place.open("line1"))
    await place.quiet()
    assert await place.state() is NodeState.LIVE


async def test_a_worker_with_another_line_is_left_alone(place: Place) -> None:
    first = await place.open("line1")
    second = await place.open("line2")
    await close(first)
    await place.quiet()
    assert await place.state() is NodeState.LIVE
    await close(second)
    await asyncio.wait_for(place.died.wait(), 10)


async def test_a_line_that_no_renewal_has_named_says_nothing(place: Place) -> None:
    pieces = place.door.lines.pieces(place.far.incarnation, "line1", "here")
    await anext(pieces)
    await close(pieces)
    await place.quiet()
    assert await place.state() is NodeState.LIVE


async def test_a_server_that_stops_ends_its_lines_with_a_word_and_takes_nobody_over(place: Place) -> None:
    pieces = await place.open("line1")
    waiting = asyncio.ensure_future(anext(pieces))
    await asyncio.sleep(0)
    closed = await place.open("line2")
    await close(closed)
    closing = asyncio.ensure_future(place.door.lines.close())
    said = [await waiting, *[piece async for piece in pieces]]
    await closing
    assert said[-1] == b"end\n"
    await place.quiet()
    assert await place.state() is NodeState.LIVE


async def test_the_end_of_a_server_is_not_that_of_the_worker_whose_line_it_ends(place: Place) -> None:
    pieces = await place.open("line1")
    waiting = asyncio.ensure_future(anext(pieces))
    await asyncio.sleep(0)
    closing = asyncio.ensure_future(place.door.lines.close())
    assert [await waiting, *[piece async for piece in pieces]][-1] == b"end\n"
    await closing
    await place.quiet()
    assert await place.state() is NodeState.LIVE


async def test_a_line_tells_of_work_and_of_cancels(place: Place) -> None:
    pieces = await place.open("line1")
    await place.world.one()
    assert b"r" in await asyncio.wait_for(anext(pieces), 10)
    job, _ = await place.far.take()
    await place.world.store.cancel(SYSTEM, [job.job_id], "enough")
    said = b""
    while b"c" not in said:
        said += await asyncio.wait_for(anext(pieces), 10)
    await close(pieces)


async def test_a_quiet_line_has_a_pulse(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_, "PULSE", 0.01)
    pieces = await place.open("line1")
    while await asyncio.wait_for(anext(pieces), 10) != b".\n":
        pass
    await close(pieces)


async def test_the_next_start_of_a_killed_worker_waits_for_its_id(place: Place) -> None:
    await close(await place.open("line1"))
    await asyncio.sleep(0)
    again = await Far(place.door, place.far.grant, "inc2", "far").join()
    assert (await again.renew()).news.known
    assert place.died.is_set()
