from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import psycopg
import pytest

from tests.servers.postgres import database, shared_server
from tests.servers.proxy import Proxy, ThreadedProxy

LIMIT = 20.0  # seconds for what should happen at once
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[], Awaitable[Streams]]


class Echo:
    """Says back what it hears, and remembers it."""

    def __init__(self) -> None:
        self.heard = b""
        self.news = asyncio.Condition()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1000):
                async with self.news:
                    self.heard += data
                    self.news.notify_all()
                writer.write(data)
            writer.write(b"bye")
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def until(self, heard: bytes) -> None:
        async with asyncio.timeout(LIMIT), self.news:
            await self.news.wait_for(lambda: self.heard == heard)


@pytest.fixture
async def echo() -> Echo:
    return Echo()


@pytest.fixture
async def proxy(echo: Echo) -> AsyncIterator[Proxy]:
    server = await asyncio.start_server(echo.serve, "127.0.0.1", 0)
    async with server, Proxy("127.0.0.1", server.sockets[0].getsockname()[1]) as proxy:
        yield proxy


@pytest.fixture
async def connect(proxy: Proxy) -> AsyncIterator[Connect]:
    writers: list[asyncio.StreamWriter] = []

    async def connect() -> Streams:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writers.append(writer)
        return reader, writer

    yield connect
    for writer in writers:
        writer.transport.abort()


async def hear(reader: asyncio.StreamReader, count: int) -> bytes:
    async with asyncio.timeout(LIMIT):
        return await reader.readexactly(count)


async def silent(reader: asyncio.StreamReader) -> bool:
    """No byte and no end either, in a time in which either would have come many times over."""
    try:
        async with asyncio.timeout(0.1):
            await reader.read(1)
    except TimeoutError:
        return True
    return False


async def test_bytes_and_ends_pass(connect: Connect, proxy: Proxy) -> None:
    reader, writer = await connect()
    large = b"x" * 1_000_000
    writer.write(large)
    assert await hear(reader, len(large)) == large
    (connection,) = proxy.connections
    writer.write_eof()
    assert await reader.read() == b"bye"
    await asyncio.wait_for(connection.task, LIMIT)
    assert not proxy.connections


async def test_a_cut_resets_and_refuses_until_mended(connect: Connect, proxy: Proxy) -> None:
    port = proxy.port
    reader, writer = await connect()
    writer.write(b"one")
    assert await hear(reader, 3) == b"one"
    proxy.cut()
    with pytest.raises(ConnectionResetError):
        await hear(reader, 1)
    with pytest.raises(ConnectionRefusedError):
        await connect()
    proxy.mend()
    reader, writer = await connect()
    writer.write(b"two")
    assert await hear(reader, 3) == b"two"
    assert proxy.port == port


async def test_frozen_bytes_come_after_the_thaw(connect: Connect, proxy: Proxy, echo: Echo) -> None:
    old, old_writer = await connect()
    old_writer.write(b"a")
    assert await hear(old, 1) == b"a"
    proxy.freeze()
    new, new_writer = await connect()
    old_writer.write(b"b")
    new_writer.write(b"c")
    assert await silent(old)
    assert await silent(new)
    assert echo.heard == b"a"
    proxy.thaw()
    assert await hear(old, 1) == b"b"
    assert await hear(new, 1) == b"c"


async def test_frozen_bytes_are_lost_with_their_connection(connect: Connect, proxy: Proxy, echo: Echo) -> None:
    reader, writer = await connect()
    writer.write(b"a")
    assert await hear(reader, 1) == b"a"
    proxy.freeze()
    writer.write(b"b")
    assert await silent(reader)
    proxy.thaw()
    proxy.kill_connections()  # before anything moves
    with pytest.raises(ConnectionResetError):
        await hear(reader, 1)
    reader, writer = await connect()
    writer.write(b"c")
    assert await hear(reader, 1) == b"c"
    assert echo.heard == b"ac"


async def test_replies_are_lost_and_requests_are_not(connect: Connect, proxy: Proxy, echo: Echo) -> None:
    reader, writer = await connect()
    proxy.drop_replies()
    writer.write(b"do")
    await proxy.reply_lost()
    assert echo.heard == b"do"
    assert await silent(reader)
    proxy.mend()
    with pytest.raises(ConnectionResetError):  # it has a hole
        await hear(reader, 1)
    reader, writer = await connect()
    writer.write(b"it")
    assert await hear(reader, 2) == b"it"


async def test_replies_are_lost_from_a_certain_request_on(connect: Connect, proxy: Proxy, echo: Echo) -> None:
    proxy.drop_replies(to=b"COMMIT")
    spared, spared_writer = await connect()
    reader, writer = await connect()
    writer.write(b"BEGIN COM")
    assert await hear(reader, 9) == b"BEGIN COM"
    writer.write(b"MIT")
    await proxy.reply_lost()
    assert await silent(reader)
    spared_writer.write(b"SELECT")
    assert await hear(spared, 6) == b"SELECT"
    proxy.mend()
    spared_writer.write(b"COMMIT")
    assert await hear(spared, 6) == b"COMMIT"


async def test_a_delay_adds_to_each_way_and_not_to_each_piece(connect: Connect, proxy: Proxy) -> None:
    reader, writer = await connect()
    proxy.delay = 0.1
    began = time.monotonic()
    for _ in range(200):
        writer.write(b"x")
        await asyncio.sleep(0.001)
    assert await hear(reader, 200) == b"x" * 200
    assert 0.2 <= time.monotonic() - began < 20, "added to each piece it would be forty"


async def test_a_target_that_is_down_is_a_reset(connect: Connect, proxy: Proxy) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        proxy.target = nobody.getsockname()
        reader, _ = await connect()
        with pytest.raises(ConnectionResetError):
            await hear(reader, 1)


async def test_a_commit_whose_answer_is_lost_is_done() -> None:
    server = shared_server()
    with database(server) as url:
        name = url.rpartition("/")[2]
        server.execute("CREATE TABLE things (thing int)", database=name)
        async with Proxy("127.0.0.1", server.port) as proxy:
            through = url.replace(str(server.port), str(proxy.port))
            connection = await psycopg.AsyncConnection.connect(through)
            proxy.drop_replies(to=b"COMMIT")
            await connection.execute("INSERT INTO things VALUES (1)")
            committing = asyncio.create_task(connection.commit())
            await asyncio.wait_for(proxy.reply_lost(), LIMIT)
            assert not committing.done()
            proxy.kill_connections()
            with pytest.raises(psycopg.OperationalError):
                await committing
            await connection.close()
        assert server.value("SELECT count(*) FROM things", database=name) == 1


def test_a_proxy_in_a_thread_serves_code_that_is_not_async() -> None:
    server = shared_server()
    with ThreadedProxy("127.0.0.1", server.port) as proxy:
        url = server.url().replace(str(server.port), str(proxy.port))
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
            assert len(proxy.proxy.connections) == 1
            proxy.cut()
            with pytest.raises(psycopg.OperationalError):
                connection.execute("SELECT 1")
        with pytest.raises(psycopg.OperationalError, match="refused"):
            psycopg.connect(url)
        proxy.mend()
        proxy.delay = 0.05
        began = time.monotonic()
        with psycopg.connect(url) as connection:
            connection.execute("SELECT 1")
        assert time.monotonic() - began > 0.1
