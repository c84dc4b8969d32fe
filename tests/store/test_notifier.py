"""The bell alone, in virtual time: one notification at a time, none swallowed, and a bound on how many."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from rota.store.notifier import BURST, LAST_LIMIT, PER_SECOND, Notifier
from rota.store.values import Topic
from tests.sim.loop import SimLoop

READY, DUE, CANCEL, NEWS = Topic.READY, Topic.DUE, Topic.CANCEL, Topic.NEWS


class Server:
    """Takes notifications, each for so many seconds; or for ever, until it is let go on."""

    def __init__(self, takes: float = 0.0) -> None:
        self._takes = takes
        self.rung: list[tuple[float, str]] = []  # when each began
        self.under_way = self.most = 0
        self.busy, self.free = asyncio.Event(), asyncio.Event()
        self.free.set()

    async def ring(self, letters: str) -> None:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        self.rung.append((asyncio.get_running_loop().time(), letters))
        self.busy.set()
        try:
            await asyncio.sleep(self._takes)
            await self.free.wait()
        finally:
            self.under_way -= 1

    @property
    def letters(self) -> list[str]:
        return [letters for _, letters in self.rung]


def in_virtual_time(play: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def test() -> None:
        loop = SimLoop()
        try:
            loop.run_until_complete(play())
            assert not loop.crashed
        finally:
            loop.close()

    test.__name__, test.__doc__ = play.__name__, play.__doc__
    return test


@in_virtual_time
async def test_a_single_one_leaves_at_once() -> None:
    server = Server()
    bell = Notifier(server.ring)
    bell.ring({READY})
    await server.busy.wait()
    assert server.rung == [(0.0, "r")]


@in_virtual_time
async def test_what_comes_while_one_is_on_its_way_goes_out_together() -> None:
    server = Server()
    server.free.clear()
    bell = Notifier(server.ring)
    bell.ring({READY})
    await server.busy.wait()
    for topic in (DUE, NEWS, DUE, READY):
        bell.ring({topic})
        await asyncio.sleep(1)
    assert server.letters == ["r"], "one at a time, however long it takes"
    server.free.set()
    await bell.close()
    assert server.letters == ["r", "dnr"]


@in_virtual_time
async def test_the_next_leaves_as_soon_as_the_last_has_gone() -> None:
    """No timer stands between them while there are not hundreds of them in a second."""
    server = Server(takes=0.009)
    bell = Notifier(server.ring)
    for _ in range(1_000):
        bell.ring({READY})
        await asyncio.sleep(0.001)
    await bell.close()
    began = [at for at, _ in server.rung]
    pauses = [later - earlier for earlier, later in itertools.pairwise(began)]
    assert server.most == 1
    assert max(pauses) == pytest.approx(0.009, abs=0.0011)


@in_virtual_time
async def test_orders_with_time_between_them_have_one_each() -> None:
    server = Server(takes=0.001)
    bell = Notifier(server.ring)
    for number in range(400):
        begun = asyncio.get_running_loop().time()
        bell.ring({READY})
        await asyncio.sleep(0.005)
        assert server.rung[number:] == [(begun, "r")]


@in_virtual_time
async def test_thousands_in_a_second_stay_within_the_budget() -> None:
    server = Server()
    bell = Notifier(server.ring)
    for _ in range(20_000):
        bell.ring({READY, NEWS})
        await asyncio.sleep(0.0002)
    await bell.close()
    assert PER_SECOND * 4 <= len(server.rung) <= BURST + PER_SECOND * 4 + 1
    began = [at for at, _ in server.rung]
    longest = max(later - earlier for earlier, later in itertools.pairwise(began))
    assert longest == pytest.approx(1 / PER_SECOND, abs=0.0003), "nobody waits for longer than that"


@pytest.mark.parametrize("pause", [0.0, 0.0001, 0.001, 0.003, 0.02, 0.5])
@pytest.mark.parametrize("takes", [0.0, 0.0007, 0.05])
def test_the_last_is_never_swallowed(pause: float, takes: float) -> None:
    @in_virtual_time
    async def play() -> None:
        server = Server(takes)
        bell = Notifier(server.ring)
        for _ in range(BURST + 30):
            bell.ring({READY})
            last = asyncio.get_running_loop().time()
            await asyncio.sleep(pause)
        await asyncio.sleep(1)
        began = [at for at, _ in server.rung]
        assert last <= began[-1] <= last + max(takes, 1 / PER_SECOND) + 0.001

    play()


@pytest.mark.parametrize("then", [{DUE}, set()])
def test_the_end_of_the_loop_sends_what_is_left(then: set[Topic]) -> None:
    """asyncio.run() cancels what is under way: it is sent again, since nobody knows how far it had come."""
    server = Server(takes=0.01)

    async def order() -> None:
        bell = Notifier(server.ring)
        bell.ring({READY})
        await server.busy.wait()
        if then:
            bell.ring(then)

    asyncio.run(order())
    assert server.letters == ["r", "".join(sorted({READY} | then))]
    assert not server.under_way


@in_virtual_time
async def test_one_that_hangs_holds_up_nobody() -> None:
    server = Server()
    server.free.clear()
    bell = Notifier(server.ring)
    bell.ring({READY})
    await bell.close()
    task = bell._task
    assert task is not None
    await asyncio.wait([task])
    assert asyncio.get_running_loop().time() <= 2 * LAST_LIMIT
