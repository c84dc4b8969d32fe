"""The stream of wake-ups: opened while somebody listens, opened again when it was cut, and never in the way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from rota.remote import wakes as wakes_module
from rota.remote.connection import Lost, Reply
from rota.remote.wakes import Wakes
from rota.store.values import Topic

NEWS, READY = frozenset({Topic.NEWS}), frozenset({Topic.READY})


class Streams:
    """Streams as a server gives them. Each is cut when its future is done."""

    def __init__(self) -> None:
        self.opened: list[tuple[frozenset[Topic], Callable[[bytes], None], asyncio.Future[None]]] = []
        self.more = asyncio.Event()

    async def __call__(self, topics: frozenset[Topic], piece: Callable[[bytes], None]) -> Reply:
        cut: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.opened.append((topics, piece, cut))
        self.more.set()
        await cut
        raise Lost("cut")

    async def until(self, count: int) -> None:
        async with asyncio.timeout(5):
            while len(self.opened) < count:
                self.more.clear()
                await self.more.wait()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wakes_module, "FIRST_PAUSE", 0.0)


async def test_lines_wake_those_who_listen_for_their_topics() -> None:
    streams, heard = Streams(), list[str]()
    wakes = Wakes(streams)
    wakes.add(NEWS, lambda: heard.append("news"))
    await streams.until(1)
    wakes.add(READY, lambda: heard.append("ready"))
    await streams.until(2)
    assert [topics for topics, _, _ in streams.opened] == [NEWS, NEWS | READY]
    piece = streams.opened[-1][1]
    for data in (b"\n", b"n\n", b"r", b"\nxyz\n", b"n"):
        piece(data)
    assert heard == ["news", "ready"]
    piece(b"r\n")
    assert heard == ["news", "ready", "news", "ready"]
    wakes.close()


async def test_no_stream_is_open_while_nobody_listens() -> None:
    streams = Streams()
    wakes = Wakes(streams)
    ends = [wakes.add(NEWS, lambda: None) for _ in range(2)]
    await streams.until(1)
    cut = streams.opened[0][2]
    ends[0]()
    ends[0]()
    await asyncio.sleep(0)
    assert not cut.done()
    ends[1]()
    await asyncio.sleep(0)
    assert cut.cancelled()


async def test_after_a_cut_it_is_opened_again_and_all_are_woken() -> None:
    streams, heard = Streams(), asyncio.Event()
    wakes = Wakes(streams)
    wakes.add(NEWS, heard.set)
    await streams.until(1)
    assert not heard.is_set()
    streams.opened[0][2].set_result(None)
    await streams.until(2)
    assert heard.is_set(), "something may have happened meanwhile"
    wakes.close()


async def test_silence_counts_as_a_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wakes_module, "SILENCE", 0.02)
    streams = Streams()
    wakes = Wakes(streams)
    wakes.add(NEWS, lambda: None)
    await streams.until(2)
    wakes.close()
