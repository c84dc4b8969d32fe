"""The loop around a service: sleeping, waking, backing off, stopping."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest

from rota import service as services
from rota.clock import Chance
from rota.service import Loop, Overdue, Service, Watchdog

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


async def test_wake_ups_do_not_shorten_a_back_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "FIRST_BACK_OFF", FOR_EVER)
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


class Hanging:
    """Hangs in its first ticks; if it is stubborn, even when it is cancelled."""

    name = "hanging"

    def __init__(self, times: float = float("inf"), stubborn: bool = False) -> None:
        self._times, self._stubborn = times, stubborn
        self.ticks = 0
        self.let_go = asyncio.Event()
        self.went_on = asyncio.Event()

    async def tick(self) -> float:
        self.ticks += 1
        if self.ticks > self._times:
            self.went_on.set()
            return FOR_EVER
        while not self.let_go.is_set():
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                if not self._stubborn:
                    raise
        return FOR_EVER


class Watched:
    """Loops under a watchdog that looks all the time."""

    def __init__(self, *watched: Service, limit: float = 0.01) -> None:
        self.told: list[tuple[str, str]] = []
        self.gave_up: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.loops: list[tuple[Loop, asyncio.Task[None]]] = []
        for one in watched:
            self._serve(one, limit)
        dog = Watchdog(self.loops, lambda why: None if self.gave_up.done() else self.gave_up.set_result(why))
        dog.PERIOD = 0.001
        self._serve(dog, 10.0)

    def _serve(self, service: Service, limit: float) -> None:
        loop = Loop(service, Chance(1), self._failed, longest_back_off=0.001, limit=limit)
        self.loops.append((loop, asyncio.create_task(loop.run())))

    def _failed(self, name: str, error: Exception) -> None:
        self.told.append((name, type(error).__name__))

    async def end(self) -> None:
        for loop, _ in self.loops:
            loop.stop()
        for _, task in self.loops:
            task.cancel()
        await asyncio.wait([task for _, task in self.loops], timeout=10)


async def test_a_tick_that_hangs_is_cancelled_and_tried_again() -> None:
    service = Hanging(times=2)
    watched = Watched(service)
    await asyncio.wait_for(service.went_on.wait(), 10)
    assert watched.told == [("hanging", Overdue.__name__)] * 2
    for _ in range(20):
        await asyncio.sleep(0.001)
    assert not watched.gave_up.done()
    assert watched.loops[0][0].hung == 0
    await watched.end()


async def test_one_that_hangs_time_after_time_is_given_up() -> None:
    watched = Watched(Hanging())
    assert await asyncio.wait_for(watched.gave_up, 10) == "its hanging has hung 3 times in a row, for 0.01 s each"
    await watched.end()


async def test_one_that_can_not_be_cancelled_is_given_up() -> None:
    service = Hanging(stubborn=True)
    watched = Watched(service)
    assert await asyncio.wait_for(watched.gave_up, 10) == "its hanging has hung for 0.01 s and can't be cancelled"
    assert service.ticks == 1
    service.let_go.set()
    await watched.end()


async def test_one_that_always_fails_is_not_given_up() -> None:
    """It proves progress: the store is away, say, and it will be back."""
    service = Scripted(*[ValueError("no")] * 50)
    watched = Watched(service, limit=10.0)
    await service.until(51)
    assert watched.told == [("scripted", "ValueError")] * 50
    assert not watched.gave_up.done()
    await watched.end()


async def test_an_error_that_is_called_a_timeout_is_an_error() -> None:
    service = Scripted(*[TimeoutError()] * 4)
    watched = Watched(service, limit=10.0)
    await service.until(5)
    assert watched.told == [("scripted", "TimeoutError")] * 4
    await watched.end()


async def test_a_loop_that_has_ended_is_seen() -> None:
    class Fatal(Scripted):
        async def tick(self) -> float:
            raise KeyboardInterrupt

    watched = Watched()
    loop = Loop(Fatal(), Chance(1), lambda name, error: None)

    async def run() -> None:
        with suppress(KeyboardInterrupt):
            await loop.run()

    watched.loops.insert(0, (loop, asyncio.create_task(run())))
    assert await asyncio.wait_for(watched.gave_up, 10) == "its scripted has ended"
    await watched.end()


async def test_a_process_that_was_asleep_is_not_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its ticks are overdue when it wakes up, and have the time to be cancelled or to go on."""
    service = Hanging()
    loop = Loop(service, Chance(1), lambda name, error: None, limit=FOR_EVER)
    task = asyncio.create_task(loop.run())
    gave_up: list[str] = []
    dog = Watchdog([(loop, task)], gave_up.append)
    await asyncio.sleep(0)
    asleep = asyncio.get_running_loop().time() + 2 * FOR_EVER
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: asleep)
    for _ in range(services.LOOKS - 1):
        await dog.tick()
    monkeypatch.undo()
    service.let_go.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    for _ in range(services.LOOKS):
        await dog.tick()
    assert gave_up == []
    loop.stop()
    await task
