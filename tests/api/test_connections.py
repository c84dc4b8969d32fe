"""Connections: slow callers, long heads, too many of them, and what is no HTTP."""

from __future__ import annotations

import asyncio
import gc
import resource
import socket
from ipaddress import IPv4Network

import pytest

from rota.api import app, connections
from rota.api.requests import Request
from rota.api.routes import Routes, Table
from rota.model.access import Permission
from tests.api.caller import secret
from tests.api.serving import LIVE, answer_of, serving
from tests.contracts.world import World

KEY = f"authorization: Bearer {secret('admin')}\r\n".encode()
POST = b"POST /post HTTP/1.1\r\nhost: localhost\r\n" + KEY
POST += b"content-type: application/json\r\ncontent-length: %d\r\n\r\n"
TEST = Routes("test")


@TEST.post("/post", Permission.ORDER, "Takes a number")
async def post(request: Request[int, None]) -> int:
    return request.body


@TEST.get("/large", Permission.READ, "More than the buffers of the system hold")
async def large(request: Request[None, None]) -> str:
    return "x" * (8 << 20)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds of time, a hundredth of the real ones."""
    for name in ("HEAD_TIME", "BODY_TIME", "SEND_TIME", "LINGER", "SWEEP"):
        monkeypatch.setattr(connections, name, getattr(connections, name) / 100)


async def test_requests_follow_each_other_on_one_connection(world: World) -> None:
    async with serving(world) as served:
        reader, writer = await served.open(LIVE)
        for _ in range(3):
            answer = await answer_of(reader)
            assert answer.startswith(b"HTTP/1.1 200 OK\r\ndate: ")
            assert b"server: " not in answer
            writer.write(LIVE)
        writer.write(LIVE * 3)  # without waiting
        assert [(await answer_of(reader))[:15] for _ in range(4)] == [b"HTTP/1.1 200 OK"] * 4
        writer.close()


async def test_answers_leave_nothing_to_the_garbage_collector(world: World) -> None:
    """Its pauses would be felt by all callers."""
    async with serving(world) as served:
        reader, writer = await served.open(LIVE)
        await answer_of(reader)
        gc.collect()
        gc.disable()
        try:
            for _ in range(50):
                writer.write(LIVE)
                await answer_of(reader)
            left = gc.collect()
        finally:
            gc.enable()
        assert left < 50
        writer.close()


@pytest.mark.parametrize(
    "sent", [LIVE.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"), LIVE.replace(b"HTTP/1.1", b"HTTP/1.0")]
)
async def test_a_caller_that_wants_no_more_gets_the_end_of_the_connection(world: World, sent: bytes) -> None:
    async with serving(world) as served:
        reader, writer = await served.open(sent)
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"\r\nconnection: close\r\n" in answer
        writer.close()


@pytest.mark.parametrize("sent", [b"", b"GET /health/live HTTP/1.1\r\n", LIVE[:-1]])
async def test_a_head_that_does_not_come_ends_the_connection(world: World, sent: bytes) -> None:
    async with serving(world) as served:
        reader, writer = await served.open(sent)
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 408 ") if sent else answer == b""
        writer.close()


async def test_a_body_must_make_progress(world: World) -> None:
    """A caller that sends a byte at a time is cut off, whatever it sends."""
    async with serving(world) as served:
        head = b"POST /health/live HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000\r\n\r\n"
        reader, writer = await served.open(head)
        answer = await answer_of(reader)  # 401: nobody waits for the body,
        assert answer.startswith(b"HTTP/1.1 401 ")
        dripping = asyncio.create_task(drip(writer))
        assert await reader.read() == b""  # and the rest has no more than a moment
        dripping.cancel()
        writer.close()


async def drip(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"x")
        await asyncio.sleep(0.01)


async def test_a_body_that_a_route_waits_for_must_make_progress(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "table", lambda: Table([TEST]))
    async with serving(world) as served:
        reader, writer = await served.open(POST % 100_000)
        dripping = asyncio.create_task(drip(writer))
        assert (await reader.read()).startswith(b"HTTP/1.1 408 ")
        dripping.cancel()
        writer.close()


async def test_a_body_that_is_too_large_is_answered_and_the_connection_lives_if_it_ends(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "table", lambda: Table([TEST]))
    async with serving(world, api_max_body=1024) as served:
        reader, writer = await served.open(POST % 100_000 + b" " * 100_000 + POST % 1 + b"5")
        assert (await answer_of(reader)).startswith(b"HTTP/1.1 413 ")
        assert (await answer_of(reader)).endswith(b"\r\n\r\n5")
        writer.close()


@pytest.mark.parametrize("more", [b"", b"connection: close\r\n"])
async def test_a_caller_that_does_not_read_is_cut_off_though_all_is_said(
    world: World, monkeypatch: pytest.MonkeyPatch, more: bytes
) -> None:
    monkeypatch.setattr(app, "table", lambda: Table([TEST]))
    lost = asyncio.Event()

    def connection_lost(one: connections.Connection, error: Exception | None) -> None:
        ended(one, error)
        lost.set()

    ended = connections.Connection.connection_lost
    monkeypatch.setattr(connections.Connection, "connection_lost", connection_lost)
    async with serving(world) as served:
        with socket.create_connection(("127.0.0.1", served.port)) as unread:
            unread.sendall(b"GET /large HTTP/1.1\r\nhost: localhost\r\n" + KEY + more + b"\r\n")
            async with asyncio.timeout(20):
                await lost.wait()


async def test_a_head_has_a_bound(world: World) -> None:
    async with serving(world) as served:
        for sent in (b"GET /" + b"a" * 200_000, b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 30_000):
            reader, writer = await served.open(sent)
            assert (await reader.read()).startswith(b"HTTP/1.1 431 ")
            writer.close()


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\r\n\r\n",
        b"GET http://localhost/health/live HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET /health/live HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
        b"GET /health/live HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET /health/live HTTP/1.1\r\nhost : localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
    ],
)
async def test_what_is_no_request_is_refused(world: World, sent: bytes) -> None:
    async with serving(world) as served:
        reader, writer = await served.open(sent)
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/problem+json\r\n")
        assert b"broken_request" in answer
        writer.close()


async def test_an_upgrade_is_answered_as_a_plain_request(world: World) -> None:
    async with serving(world) as served:
        for protocol in (b"websocket", b"h2c"):
            head = (
                b"GET /health/live HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: %s\r\n\r\n" % protocol
            )
            reader, writer = await served.open(head)
            assert (await answer_of(reader)).startswith(b"HTTP/1.1 200 ")
            assert await reader.read() == b""
            writer.close()


async def test_the_longest_idle_connection_makes_room(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_TIME", 100.0)
    async with serving(world, api_connections=10) as served:
        open_ones = [await served.open(LIVE) for _ in range(10)]
        for reader, _ in open_ones:
            await answer_of(reader)
        assert (await served.ask()).startswith(b"HTTP/1.1 200 ")
        assert await open_ones[0][0].read() == b""  # closed
        open_ones[1][1].write(LIVE)
        assert (await answer_of(open_ones[1][0])).startswith(b"HTTP/1.1 200 ")
        for _, writer in open_ones:
            writer.close()


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /health/live HTTP/1.1\r\nx-a: ",
        b"POST /nowhere HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99\r\n\r\n{",  # refused, and the rest awaited
        b"nonsense\r\n\r\n",
    ],
)
async def test_connections_without_a_whole_request_make_room_too(
    world: World, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    for name in ("HEAD_TIME", "LINGER"):
        monkeypatch.setattr(connections, name, 100.0)
    async with serving(world, api_connections=10) as served:
        opened = [await served.open(sent) for _ in range(10)]
        for _ in range(1_000):  # until the server has read from all of them
            if not served.server._connections.idle:
                break
            await asyncio.sleep(0.01)
        for _ in range(15):  # more than there is room for
            assert (await served.ask()).startswith(b"HTTP/1.1 200 ")
        for _, writer in opened:
            writer.close()


async def test_requests_that_are_being_answered_make_no_room(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "table", lambda: Table([TEST]))
    monkeypatch.setattr(connections, "BODY_TIME", 100.0)
    async with serving(world, api_connections=3) as served:
        head = (POST % 1).replace(b"content-type", b"expect: 100-continue\r\ncontent-type")
        busy = [await served.open(head) for _ in range(3)]
        for reader, _ in busy:
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
        late, writer = await served.open(LIVE)
        assert await late.read() == b""  # turned away
        for reader, other in busy:
            other.write(b"5")
            assert (await answer_of(reader)).endswith(b"\r\n\r\n5")
            other.close()
        writer.close()


async def test_only_proxies_may_connect_beside_loopback(world: World) -> None:
    made = connections.Connections(None, world.clock, 10, [IPv4Network("10.0.0.0/8")])
    one = made.make()
    for address, welcome in (
        ("10.1.1.1", True),
        ("127.0.0.1", True),
        ("::1", True),
        ("::ffff:10.1.1.1", True),
        ("11.0.0.1", False),
    ):
        one.client = (address, 1)
        assert made._welcome(one) == welcome, address


@pytest.mark.slow
async def test_thousands_of_idle_connections_do_not_keep_it_from_answering(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_TIME", 100.0)
    many = min(3000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2 - 200)
    async with serving(world) as served:
        place = ("127.0.0.1", served.port)
        idle = await asyncio.to_thread(lambda: [socket.create_connection(place) for _ in range(many)])
        for one in idle[::2]:
            one.send(LIVE[:20])  # half a head
        loop = asyncio.get_running_loop()
        began = loop.time()
        for _ in range(20):
            for request in (LIVE, b"GET /api/v1/jobs HTTP/1.1\r\nhost: localhost\r\n" + KEY + b"\r\n"):
                assert (await served.ask(request)).startswith(b"HTTP/1.1 200 ")
        assert loop.time() - began < 4
        for one in idle:
            one.close()
