"""Writes that come again are carried out once, and answered as the first time."""

from __future__ import annotations

import asyncio

import pytest

from rota.api.repeats import KEPT, MOST, Repeats
from rota.clock import ManualClock

NAME = ("key", "once", b"")


class Deed:
    def __init__(self) -> None:
        self.done = 0
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def __call__(self) -> int:
        await self.go_on.wait()
        self.done += 1
        return self.done


async def test_the_same_call_again_has_the_same_answer() -> None:
    deed, repeats = Deed(), Repeats(ManualClock())
    assert [await repeats.once(NAME, deed) for _ in range(3)] == [1, 1, 1]
    assert await repeats.once(("other key", "once", b""), deed) == 2
    assert await repeats.once(("key", "twice", b""), deed) == 3
    assert await repeats.once(("key", "once", b"other arguments"), deed) == 4


async def test_a_repeat_waits_for_the_first_try() -> None:
    deed, repeats = Deed(), Repeats(ManualClock())
    deed.go_on.clear()
    first, second = (asyncio.create_task(repeats.once(NAME, deed)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    deed.go_on.set()
    assert await second == 1
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_a_try_that_failed_is_not_kept() -> None:
    deed, repeats = Deed(), Repeats(ManualClock())

    async def fail() -> None:
        raise KeyError

    with pytest.raises(KeyError):
        await repeats.once(NAME, fail)
    await asyncio.sleep(0)
    assert await repeats.once(NAME, deed) == 1


async def test_answers_are_forgotten_in_time() -> None:
    clock = ManualClock()
    deed, repeats = Deed(), Repeats(clock)
    await repeats.once(NAME, deed)
    clock.advance(KEPT + 1)
    assert await repeats.once(NAME, deed) == 2
    for number in range(MOST):
        await repeats.once(("key", str(number), b""), deed)
    assert len(repeats._kept) == MOST
