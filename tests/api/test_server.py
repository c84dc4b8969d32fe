"""The server: its address, and an end that cuts nothing off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from rota.api import app, connections
from rota.api.answers import Stream
from rota.api.requests import Request
from rota.api.routes import PUBLIC, Routes, Table
from rota.telemetry.events import ApiServing, RequestFailed
from tests.api.serving import GET, answer_of, serving
from tests.contracts.world import World

TEST = Routes("test")
HELD: list[asyncio.Event] = []  # of the running test


@TEST.get("/slow", PUBLIC, "Waits")
async def slow(request: Request[None, None]) -> int:
    await HELD[0].wait()
    return 5


@TEST.get("/stream", PUBLIC, "Never ends")
async def stream(request: Request[None, None]) -> Stream:
    async def pieces() -> AsyncIterator[bytes]:
        try:
            yield b"first"
            await asyncio.Event().wait()
        finally:
            HELD[0].set()

    return Stream(pieces())


@TEST.get("/flood", PUBLIC, "More than anyone reads")
async def flood(request: Request[None, None]) -> Stream:
    async def pieces() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x" * 100_000
        finally:
            HELD[0].set()

    return Stream(pieces())


@TEST.get("/broken", PUBLIC, "Fails half-way")
async def broken(request: Request[None, None]) -> Stream:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"first"
        raise KeyError("second")

    return Stream(pieces())


@pytest.fixture(autouse=True)
def routes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "table", lambda: Table([TEST]))
    HELD[:] = [asyncio.Event()]


async def test_it_tells_its_address(world: World) -> None:
    async with serving(world) as served:
        assert served.told == [ApiServing(served.server.url)]
        assert served.server.url == f"http://127.0.0.1:{served.port}"


async def test_a_stop_waits_for_answers_and_ends_streams(world: World) -> None:
    async with serving(world) as served:
        slow_reader, slow_writer = await served.open(GET % b"/slow")
        reader, writer = await served.open(GET % b"/stream")
        idle_reader, idle_writer = await served.open()
        await reader.readuntil(b"first\r\n")
        await served.server.stop(5.0)  # the end of the stream lets the other answer go on
        assert await reader.read() == b"0\r\n\r\n"
        assert (await answer_of(slow_reader)).endswith(b"\r\n\r\n5")
        assert await idle_reader.read() == b""
        with pytest.raises(OSError, match=r"."):
            await served.open()
        for one in (slow_writer, writer, idle_writer):
            one.close()


async def test_what_does_not_end_is_cut_off(world: World) -> None:
    async with serving(world) as served:
        reader, writer = await served.open(GET % b"/slow")
        await asyncio.sleep(0.05)
        await served.server.stop(0.05)
        await reader.read()
        writer.close()


async def test_a_stream_ends_with_its_caller(world: World) -> None:
    async with serving(world) as served:
        reader, writer = await served.open(GET % b"/stream")
        await reader.readuntil(b"first\r\n")
        writer.close()
        await asyncio.wait_for(HELD[0].wait(), 10)


async def test_a_stream_that_fails_stays_without_an_end(world: World) -> None:
    async with serving(world) as served:
        reader, writer = await served.open(GET % b"/broken")
        answer = await reader.read()
        assert answer.endswith(b"first\r\n")
        assert [type(event) for event in served.told] == [ApiServing, RequestFailed]
        writer.close()


async def test_a_caller_that_reads_nothing_is_cut_off(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SEND_TIME", 0.05)
    monkeypatch.setattr(connections, "SWEEP", 0.02)
    async with serving(world) as served:
        _, writer = await served.open(GET % b"/flood", limit=1000)
        await asyncio.wait_for(HELD[0].wait(), 10)
        writer.transport.abort()
