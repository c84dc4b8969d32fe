"""Wake-ups between processes: by the hot tier while all hear it, else by the store, and never lost on both ways."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rota.hot.wakes import DEAF, HOLDS
from rota.store.values import Topic
from tests.hot.virtual import Tier, virtual

READY, DUE, NEWS = Topic.READY, Topic.DUE, Topic.NEWS
FALL_BACK = 2.0  # seconds
PLENTY = 2 * HOLDS  # seconds until all trust the hot tier


class Ear:
    """When a process was woken for topics."""

    def __init__(self, process: Tier, *topics: Topic) -> None:
        self.times: list[float] = []
        loop = asyncio.get_running_loop()
        self.end = process.store.listen(frozenset(topics or {READY}), lambda: self.times.append(loop.time()))

    def heard(self, since: float, until: float) -> bool:
        return any(since <= at <= until for at in self.times)


@asynccontextmanager
async def town(processes: int = 2, members: int = 1) -> AsyncIterator[list[Tier]]:
    """Processes that listen, on the same servers."""
    first = Tier(members)
    made = [first, *(Tier(beside=first) for _ in range(processes - 1))]
    for process in made:
        await process.open(filled=False)
        process.store.listen(frozenset({Topic.CANCEL}), lambda: None)
    yield made
    for process in made:
        await process.store.close()


def now() -> float:
    return asyncio.get_running_loop().time()


async def soon() -> None:
    await asyncio.sleep(0.01)


def deafen(process: Tier) -> None:
    """It hears nothing any more, and nobody tells it so: as when the network forgets a connection."""
    for lane in process.lanes:
        lane._hear = None


@virtual
async def test_they_are_carried_once_everyone_has_listened_for_a_while() -> None:
    async with town() as (one, other):
        ear = Ear(other)
        assert not await one.noted.announce(READY)
        assert len(ear.times) == 1, "by the store"
        await asyncio.sleep(HOLDS - 0.1)
        assert not await one.noted.announce(READY)
        await asyncio.sleep(PLENTY)
        told = len(one.noted.told)
        assert await one.noted.announce(READY)
        await soon()
        assert len(ear.times) == 3
        assert len(one.noted.told) == told
        counts = one.store.hot_counts
        assert (counts.wakes_by_store, counts.wakes_sent) == (2, 1)
        assert (other.store.hot_counts.wakes_heard, counts.wakes_heard) == (1, 0), "its own it does not hear"


@virtual
async def test_topics_reach_those_who_wait_for_them() -> None:
    async with town(3) as (one, *others):
        await asyncio.sleep(PLENTY)
        ears = {topic: [Ear(other, topic) for other in others] for topic in Topic if topic is not Topic.DEAF}
        for topic, hearing in ears.items():
            assert await one.noted.announce(topic)
            await soon()
            assert all(len(ear.times) == 1 for ear in hearing)
        await one.noted.announce(READY, NEWS)
        await soon()
        assert {topic for topic, hearing in ears.items() if len(hearing[0].times) == 2} == {READY, NEWS}


@virtual
async def test_a_process_that_listens_to_nothing_never_sends_by_the_hot_tier() -> None:
    async with town() as (one, other):
        client = Tier(beside=one)
        await client.open(filled=False)
        await asyncio.sleep(PLENTY)
        ear = Ear(other)
        assert not await client.noted.announce(READY)
        assert len(ear.times) == 1
        await client.store.close()


@virtual
async def test_a_quiet_channel_has_few_beats_however_many_listen() -> None:
    async with town(10) as processes:
        await asyncio.sleep(PLENTY)
        heard: list[str] = []
        await processes[0].lanes[0].subscribe(heard.append, lambda: None)
        await asyncio.sleep(10)
        assert 10 <= len(heard) <= 100
        assert all(text.startswith("/") for text in heard)


@virtual
async def test_a_deaf_process_says_so_and_everyone_falls_back_within_two_seconds() -> None:
    async with town(3) as (one, other, deaf):
        await asyncio.sleep(PLENTY)
        ear, everything = Ear(deaf), Ear(deaf, NEWS)
        since = now()
        deafen(deaf)
        assert await one.noted.announce(READY)
        while one.side.wakes.trusted or other.side.wakes.trusted:  # noqa: ASYNC110 - time is virtual
            await asyncio.sleep(0.01)
        assert now() - since <= FALL_BACK
        assert ear.heard(since, since + FALL_BACK), "what was sent meanwhile"
        assert everything.times, "it looks at everything, since it may have missed anything"
        for _ in range(100):
            since = now()
            assert not await one.noted.announce(READY)
            assert ear.heard(since, since)
            await asyncio.sleep(0.1)
        assert [topics for _, topics in deaf.noted.told] == [{Topic.DEAF}] * len(deaf.noted.told)
        assert 8 <= len(deaf.noted.told) <= 14, "about every second"


@virtual
async def test_a_process_that_hears_again_is_trusted_again() -> None:
    async with town() as (one, other):
        await asyncio.sleep(PLENTY)
        other.lanes[0].end_subscription()
        await asyncio.sleep(1)
        ear, since = Ear(other), now()
        assert await one.noted.announce(READY), "it was lost and begun again before anyone could notice"
        await soon()
        assert ear.heard(since, now())


FAULTS: dict[str, Callable[[Tier, bool], Any]] = {
    "away": lambda process, on: setattr(process.server, "away", on),
    "mute": lambda process, on: setattr(process.server, "mute", on),
    "full": lambda process, on: setattr(process.server, "full", on),
    "emptied": lambda process, on: process.server.flush(),
    "deaf": lambda process, on: deafen(process) if on else process.lanes[0].end_subscription(),
}


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("fault", FAULTS)
@virtual
async def test_no_wake_up_is_lost_on_both_ways(fault: str, members: int) -> None:
    async with town(3, members) as (one, *others):
        ears = [Ear(other) for other in others]
        sent: list[float] = []
        for number in range(1_200):
            if number % 200 == 100:
                FAULTS[fault](others[0], number % 400 == 100)
            sent.append(now())
            await one.noted.announce(READY)
            await asyncio.sleep(0.05)
        await asyncio.sleep(FALL_BACK)
        for ear in ears:
            assert [at for at in sent if not ear.heard(at, at + FALL_BACK)] == []


@virtual
async def test_with_one_of_three_away_the_store_wakes() -> None:
    async with town(2, members=3) as (one, other):
        await asyncio.sleep(PLENTY)
        assert await one.noted.announce(READY)
        one.servers[2].away = True
        await asyncio.sleep(FALL_BACK)
        assert not await one.noted.announce(READY)
        await asyncio.sleep(60)
        assert not await one.noted.announce(READY)
        one.servers[2].away = False
        await asyncio.sleep(PLENTY)
        assert await one.noted.announce(READY)
        await soon()
        assert other.store.hot_counts.wakes_heard >= 2


@virtual
async def test_one_that_can_not_be_sent_is_told_by_the_store() -> None:
    async with town() as (one, other):
        await asyncio.sleep(PLENTY)
        ear = Ear(other)
        one.server.away = True
        assert await one.noted.announce(READY), "it does not know yet"
        await soon()
        assert len(ear.times) == 1
        assert {READY} in [topics for _, topics in one.noted.told]


@virtual
async def test_a_subscription_that_hangs_does_not_put_off_the_word_that_we_are_deaf() -> None:
    async with town() as (one, other):
        await asyncio.sleep(PLENTY)

        async def hang(*_: object) -> None:
            await asyncio.sleep(60)

        other.lanes[0].subscribe = hang  # type: ignore[method-assign, assignment]
        other.lanes[0].end_subscription()
        await asyncio.sleep(FALL_BACK)
        assert not one.side.wakes.trusted


@virtual
async def test_a_process_that_stood_still_does_not_trust_what_it_knew() -> None:
    """Somebody may have said meanwhile that it is deaf."""
    async with town() as (one, _):
        await asyncio.sleep(PLENTY)
        watching = one.side.wakes._task
        assert watching is not None
        watching.cancel()
        await asyncio.sleep(DEAF)
        assert not await one.noted.announce(READY)


@virtual
async def test_what_the_heap_knows_raises_no_doubt_and_other_due_times_do() -> None:
    async with town() as (one, other):
        await asyncio.sleep(PLENTY)
        ear = Ear(other, DUE)
        other.due._doubtful = False
        one.side.wakes.carry({"D"})
        await soon()
        assert (len(ear.times), other.due._doubtful) == (1, False)
        one.side.wakes.carry({"D", "r"})
        await soon()
        assert (len(ear.times), other.due._doubtful) == (2, False)
        assert await one.noted.announce(DUE)
        await soon()
        assert (len(ear.times), other.due._doubtful) == (3, True)
        other.due._doubtful = False
        await one.noted.tell({DUE})
        assert other.due._doubtful, "the store's own say nothing about the heap"


@virtual
async def test_texts_of_others_wake_nobody() -> None:
    async with town() as (one, other):
        await asyncio.sleep(PLENTY)
        ears = [Ear(other, topic) for topic in Topic]
        for text in ("", "/", "?", "XYZ/me", "/r", "\udcff/x", "x" * 10_000):
            await one.lanes[0].publish(text)
        await soon()
        assert [ear.times for ear in ears] == [[]] * len(ears)


@virtual
async def test_what_is_pending_is_sent_at_the_end() -> None:
    async with town() as (one, other):
        await asyncio.sleep(PLENTY)
        ear = Ear(other)
        await one.noted.announce(READY)
        await one.store.close()
        await soon()
        assert len(ear.times) == 1
