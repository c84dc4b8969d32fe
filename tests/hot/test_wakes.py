"""Wake-ups, on every kind of lane."""

from __future__ import annotations

import asyncio

import pytest

from rota.hot.lane import HotAway, Lane
from tests.hot.lanes import Ear, Make, opened

HOSTILE = ["", "a b\r\nc", "\0", "+OK\r\n", "é🜚", "x" * 100_000]


async def test_all_subscribers_hear_in_order_the_sender_too(make: Make) -> None:
    async with opened(make(), make(), make()) as (one, other, deaf):
        first, second = Ear(), Ear()
        await one.subscribe(first.hear, first.lose)
        await other.subscribe(second.hear, second.lose)
        for number in range(100):
            await (one, other, deaf)[number % 3].publish(str(number))
            await first.until(lambda ear: len(ear.texts) > number)  # noqa: B023
        await second.until(lambda ear: len(ear.texts) == 100)
        assert first.texts == second.texts == list(map(str, range(100)))


async def test_hostile_texts(lane: Lane) -> None:
    ear = Ear()
    await lane.subscribe(ear.hear, ear.lose)
    for text in HOSTILE:
        await lane.publish(text)
    await ear.until(lambda ear: len(ear.texts) == len(HOSTILE))
    assert ear.texts == HOSTILE


async def test_a_second_subscription_replaces_the_first(lane: Lane) -> None:
    first, second = Ear(), Ear()
    await lane.subscribe(first.hear, first.lose)
    await lane.subscribe(second.hear, second.lose)
    await lane.publish("news")
    await second.until(lambda ear: ear.texts == ["news"])
    assert (first.texts, first.losses) == ([], 0)
    await lane.close()
    await second.until(lambda ear: ear.losses == 1)
    assert first.losses == 0


async def test_a_subscription_ends_with_the_lane(lane: Lane) -> None:
    ear = Ear()
    await lane.subscribe(ear.hear, ear.lose)
    await lane.close()
    await ear.until(lambda ear: ear.losses > 0)
    await lane.close()
    assert ear.losses == 1
    for call in (lane.publish("x"), lane.subscribe(ear.hear, ear.lose)):
        with pytest.raises(HotAway, match="not open"):
            await call


async def test_one_that_hears_badly_harms_nobody(lane: Lane) -> None:
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context["exception"]))
    ear = Ear()

    def hear(text: str) -> None:
        ear.hear(text)
        if text == "bad":
            raise ValueError(text)

    await lane.subscribe(hear, ear.lose)
    for text in ("bad", "good"):
        await lane.publish(text)
    await ear.until(lambda ear: ear.texts == ["bad", "good"])
    assert [str(one) for one in complaints] == ["bad"]
    assert ear.losses == 0
