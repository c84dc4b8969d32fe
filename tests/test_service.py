"""The loop around a service: sleeping, waking, backing off, stopping."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from rota.clock import Chance
from rota.service import Loop

FOR_EVER = 3600.0


class Scripted:
    """A service that does what the test says, tick by tick."""

    name = "scripted"

    def __init__(self, *delays: float | Exception) -> None:
        self._delays = list(delays)
        self.ticks = 0
        self.ticked = asyncio.Event()

    async def tick(self) -> float:
        self.ticks += 1
        self.ticked.set()
        delay = self._delays.pop(0) if self._delays else FOR_EVER
        if isinstance(delay, Exception):
            raise delay
        return delay

    async def until(self, ticks: int) -> None:
        async with asyncio.timeout(10):
            while self.ticks < ticks:
                self.ticked.clear()
                await self.ticked.wait()


def start(service: Scripted, failed: Callable[[str, Exception], None] | None = None) -> tuple[Loop, asyncio.Task[None]]:
    loop = Loop(service, Chance(1), failed or (lambda name, error: None), longest_back_off=0.01)
    return loop, asyncio.create_task(loop.run())


async def test_it_sleeps_until_it_is_woken() -> None:
    service = Scripted()
    loop, task = start(service)
    await service.until(1)
    for _ in range(10):
        await asyncio.sleep(0)
    assert service.ticks == 1
    loop.wake()
    await service.until(2)
    loop.stop()
    await task


async def test_it_ticks_again_when_its_delay_is_over() -> None:
    service = Scripted(0.0, 0.001, 0.0)
    loop, task = start(service)
    await service.until(4)
    loop.stop()
    await task


async def test_a_wake_up_during_a_tick_is_not_lost() -> None:
    service = Scripted()
    loop, task = start(service)
    original = service.tick

    async def tick() -> float:
        delay = await original()
        if service.ticks == 1:
            loop.wake()
        return delay

    service.tick = tick  # type: ignore[method-assign]
    await service.until(2)
    loop.stop()
    await task


async def test_errors_are_told_and_survived() -> None:
    told: list[tuple[str, str]] = []
    service = Scripted(ValueError("one"), ValueError("two"), FOR_EVER)
    loop, task = start(service, lambda name, error: told.append((name, str(error))))
    await service.until(3)
    loop.stop()
    await task
    assert told == [("scripted", "one"), ("scripted", "two")]


async def test_wake_ups_do_not_shorten_a_back_off() -> None:
    service = Scripted(ValueError("away"))
    loop = Loop(service, Chance(1), lambda name, error: None, longest_back_off=FOR_EVER)
    task = asyncio.create_task(loop.run())
    await service.until(1)
    for _ in range(20):
        loop.wake()
        await asyncio.sleep(0)
    assert service.ticks == 1
    loop.stop()
    await asyncio.wait_for(task, 10)
