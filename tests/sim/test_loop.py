"""The loop of the simulation: what happens when, and to whom."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.sim.loop import SimLoop, Stalled


@pytest.fixture
def loop() -> Iterator[SimLoop]:
    loop = SimLoop()
    yield loop
    loop.wind_up()


async def tick(seen: list[float], times: int) -> None:
    try:
        for _ in range(times):
            await asyncio.sleep(1)
            seen.append(asyncio.get_running_loop().time())
    finally:
        seen.append(-1)


def test_time_jumps_to_the_next_timer(loop: SimLoop) -> None:
    async def long() -> float:
        await asyncio.sleep(86_400)
        return loop.time()

    assert loop.run_until_complete(long()) == 86_400


def test_a_paused_process_goes_on_where_it_stopped(loop: SimLoop) -> None:
    seen: list[float] = []
    process = loop.process("p")
    loop.create_task(tick(seen, 5), context=process.context)
    loop.call_at(2.5, setattr, process, "paused", True)
    loop.call_at(4.2, loop.resume, process)
    loop.run_until_complete(asyncio.sleep(10))
    assert seen == [1, 2, 4.2, 5.2, 6.2, -1], "the third second was over while it slept"


def test_after_a_death_not_even_finally_runs(loop: SimLoop) -> None:
    seen: list[float] = []
    process = loop.process("p")
    loop.create_task(tick(seen, 5), context=process.context)
    loop.call_at(2.5, setattr, process, "dead", True)
    loop.run_until_complete(asyncio.sleep(10))
    assert seen == [1, 2]


def test_what_a_process_starts_belongs_to_it(loop: SimLoop) -> None:
    seen: list[float] = []

    async def parent() -> None:
        await asyncio.gather(tick(seen, 5), tick(seen, 5))

    process = loop.process("p")
    loop.create_task(parent(), context=process.context)
    loop.call_at(1.5, setattr, process, "dead", True)
    loop.run_until_complete(asyncio.sleep(10))
    assert seen == [1, 1]


def test_a_fuse_counts_callbacks_of_its_own_process(loop: SimLoop) -> None:
    seen: list[float] = []
    process = loop.process("p")
    loop.create_task(tick(seen, 5), context=process.context)
    loop.call_at(3.5, process.light, 1, lambda: setattr(process, "dead", True))
    loop.run_until_complete(asyncio.sleep(10))
    assert seen == [1, 2, 3]


def test_a_deadlock_is_noticed(loop: SimLoop) -> None:
    with pytest.raises(Stalled, match="everyone waits"):
        loop.run_until_complete(asyncio.Event().wait())


def test_a_tight_loop_is_noticed(loop: SimLoop) -> None:
    def spin() -> None:
        loop.call_soon(spin)

    spin()
    with pytest.raises(Stalled, match="same instant"):
        loop.run_until_complete(asyncio.sleep(1))


def test_an_error_nobody_expected_is_kept(loop: SimLoop) -> None:
    async def fail() -> None:
        raise KeyError("x")

    loop.create_task(fail())
    loop.run_until_complete(asyncio.sleep(1))
    assert loop.crashed == ["KeyError: 'x'"]
