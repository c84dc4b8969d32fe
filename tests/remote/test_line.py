"""The line of a far-away worker, against a server that a test plays: when the worker is exposed, and when it is not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from rota.clock import Chance, SystemClock
from rota.dialing import Unreachable
from rota.model.http import target
from rota.remote import line as line_
from rota.remote.line import WorkerLine
from rota.remote.pool import Dialer
from rota.remote.work_calls import GRACE
from rota.store.values import Topic

LONG = 10.0
HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


def chunk(text: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(text), text)


class Server:
    """Answers each request with an open line. `address`: at which it says that it was called; None: the true one."""

    def __init__(self) -> None:
        self.address: str | None = None
        self.writers: list[asyncio.StreamWriter] = []
        self.came = asyncio.Event()
        self._listening: asyncio.Server | None = None
        self.port = 0

    async def start(self) -> None:
        self._listening = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._listening.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:  # a look whether anyone is at home
            writer.close()
            return
        self.writers.append(writer)
        address = self.address or f"127.0.0.1 {self.port}"
        writer.write(HEAD + chunk(f"open {address}\n".encode()))
        self.came.set()

    def say(self, text: bytes) -> None:
        self.writers[-1].write(chunk(text))

    def hang_up(self) -> None:
        self.came.clear()
        self.writers[-1].transport.abort()

    def refuse(self) -> None:
        assert self._listening is not None
        self._listening.close()

    async def close(self) -> None:
        self.refuse()
        for writer in self.writers:
            writer.transport.abort()
        await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_, "A_LOOK", 0.1)


class Place:
    def __init__(self, server: Server) -> None:
        self.server, self.heard = server, asyncio.Queue[Topic]()
        dialer = Dialer(target(f"http://127.0.0.1:{server.port}"))
        self.line = WorkerLine(dialer, self._request, SystemClock(), Chance(1), self._hear)

    def _request(self, name: str) -> bytes:
        return f"GET /line?{name} HTTP/1.1\r\n\r\n".encode()

    def _hear(self, topics: set[Topic]) -> None:
        for topic in topics:
            self.heard.put_nowait(topic)

    async def until(self, topic: Topic) -> None:
        async with asyncio.timeout(LONG):
            while await self.heard.get() is not topic:
                pass

    def renew(self) -> str | None:
        """A renewal that was answered."""
        name = self.line.name()
        self.line.told(name)
        return name

    async def lost(self) -> None:
        """Back when the worker knows that its line is closed, and has had a look at the server."""
        await self.named(lambda name: name is None)
        await asyncio.sleep(line_.A_LOOK)

    async def named(self, fits: Callable[[str | None], bool]) -> str | None:
        """The name of its line, once it fits."""
        async with asyncio.timeout(LONG):
            while not fits(name := self.line.name()):  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.001)
        return name


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    await server.start()
    yield server
    await server.close()


@pytest.fixture
async def place(server: Server) -> AsyncIterator[Place]:
    place = Place(server)
    await place.line.open(LONG)
    yield place
    place.line.close()
    await asyncio.sleep(0)


def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next line takes long, so that a test sees the time without one."""
    monkeypatch.setattr(line_, "FIRST_PAUSE", LONG)


async def test_an_open_line_has_a_name_a_descriptor_and_tells_of_topics(server: Server, place: Place) -> None:
    assert place.line.is_open
    assert place.renew() is not None
    assert len(place.line.descriptors()) == 1
    assert place.line.exposed is None
    server.say(b"r\n.\n")
    await place.until(Topic.READY)


async def test_a_worker_is_exposed_from_the_loss_of_its_line_to_its_next_renewal(
    server: Server, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(monkeypatch)
    place.renew()
    await place.until(Topic.CANCEL)  # of the opening
    server.hang_up()
    await place.until(Topic.CANCEL)  # so it renews at once
    await place.lost()
    assert place.line.exposed == GRACE
    assert place.renew() is None
    assert place.line.exposed is None


async def test_another_line_exposes_until_it_is_told(server: Server, place: Place) -> None:
    first = place.renew()
    server.hang_up()
    await asyncio.wait_for(server.came.wait(), LONG)
    name = await place.named(lambda name: name is not None)
    assert name != first
    await asyncio.sleep(line_.A_LOOK)
    assert place.line.exposed == GRACE, "the row names the first line, or the second: the answer may get lost"
    place.line.told(name)
    assert place.line.exposed is None


async def test_a_line_that_no_renewal_has_named_exposes_nobody(
    server: Server, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(monkeypatch)
    server.hang_up()
    await asyncio.sleep(2 * line_.A_LOOK)
    assert place.line.exposed is None


async def test_a_server_that_says_goodbye_exposes_nobody(
    server: Server, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(monkeypatch)
    place.renew()
    server.say(b"end\n")
    server.writers[-1].write(b"0\r\n\r\n")
    await place.lost()
    assert place.line.exposed is None


async def test_a_server_that_is_gone_exposes_nobody(
    server: Server, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(monkeypatch)
    place.renew()
    server.refuse()
    server.hang_up()
    await place.lost()
    assert place.line.exposed is None


async def test_a_busy_machine_does_not_keep_a_worker_from_knowing_that_its_server_is_gone(
    server: Server, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its loop has not heard of the refusal yet when the guard of its lease asks: the kernel has."""

    async def kept(*_: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(line_.Look, "end", kept)
    place.renew()
    server.refuse()
    server.hang_up()
    await place.lost()
    assert place.line.exposed is None


async def test_a_line_through_something_in_between_is_not_named(server: Server) -> None:
    server.address = "10.0.0.1 8787"
    place = Place(server)
    await place.line.open(LONG)
    assert place.line.is_open
    assert place.renew() is None
    assert list(place.line.descriptors()) == []
    place.line.close()
    await asyncio.sleep(0)


async def test_a_silent_line_is_opened_again(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_, "SILENCE", 0.05)
    place = Place(server)
    await place.line.open(LONG)
    server.came.clear()
    await asyncio.wait_for(server.came.wait(), LONG)
    place.line.close()
    await asyncio.sleep(0)


async def test_a_line_that_does_not_open_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(self: Any) -> Any:
        raise Unreachable("refused")

    monkeypatch.setattr(Dialer, "dial", refuse)
    server = Server()
    server.port = 1
    place = Place(server)
    await place.line.open(0.01)
    assert place.line.name() is None
    assert not place.line.is_open
    place.line.close()
    await asyncio.sleep(0)
