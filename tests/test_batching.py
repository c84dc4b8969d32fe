"""Items that arrive while a flush is in flight ride together in the next one."""

from __future__ import annotations

import asyncio

import pytest

from rota.batching import Batcher
from rota.errors import StoreUnavailable


class Ferry:
    """A flush that waits until it is let go, and remembers what it carried."""

    def __init__(self) -> None:
        self.trips: list[list[int]] = []
        self.gate = asyncio.Event()
        self.left = asyncio.Event()

    async def __call__(self, batch: list[int]) -> list[int]:
        self.trips.append(batch)
        self.left.set()
        await self.gate.wait()
        return [10 * item for item in batch]


async def test_what_comes_during_a_flush_rides_in_the_next() -> None:
    ferry = Ferry()
    batcher = Batcher(ferry)
    first = [batcher.put(1), batcher.put(2)]
    await ferry.left.wait()
    second = [batcher.put(3), batcher.put(4), batcher.put(5)]
    ferry.gate.set()
    assert await asyncio.gather(*first, *second) == [10, 20, 30, 40, 50]
    assert ferry.trips == [[1, 2], [3, 4, 5]]


async def test_a_batch_is_closed_when_it_is_heavy_enough() -> None:
    ferry = Ferry()
    ferry.gate.set()
    batcher = Batcher(ferry, limit=10, weigh=lambda item: item)
    await asyncio.gather(*[batcher.put(item) for item in (4, 6, 1, 50, 2, 2)])
    assert ferry.trips == [[4, 6], [1], [50], [2, 2]]


async def test_one_bad_item_does_not_hurt_the_others() -> None:
    async def flush(batch: list[int]) -> list[int]:
        if 13 in batch:
            raise ValueError("13")
        return batch

    batcher = Batcher(flush)
    answers = await asyncio.gather(*[batcher.put(item) for item in (1, 13, 2)], return_exceptions=True)
    assert answers[0] == 1
    assert isinstance(answers[1], ValueError)
    assert answers[2] == 2


async def test_a_store_that_is_away_fails_the_batch_once_and_not_item_by_item() -> None:
    calls = []

    async def flush(batch: list[int]) -> list[int]:
        calls.append(batch)
        raise StoreUnavailable("away")

    batcher = Batcher(flush)
    answers = await asyncio.gather(*[batcher.put(item) for item in (1, 2, 3)], return_exceptions=True)
    assert [type(answer) for answer in answers] == [StoreUnavailable] * 3
    assert calls == [[1, 2, 3]]


async def test_a_caller_who_gives_up_does_not_disturb_the_rest() -> None:
    ferry = Ferry()
    batcher = Batcher(ferry)
    one, other = batcher.put(1), batcher.put(2)
    await ferry.left.wait()
    one.cancel()
    ferry.gate.set()
    assert await other == 20
    with pytest.raises(asyncio.CancelledError):
        await one
    assert await batcher.put(3) == 30
