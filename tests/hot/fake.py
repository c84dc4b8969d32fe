"""A server on loopback that answers commands as a test wants."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import hiredis

Answers = Callable[[list[bytes]], bytes | None]
INFO = {
    "redis_version": "7.2.4", "redis_mode": "standalone", "loading": "0", "used_memory": "1000", "maxmemory": "0",
    "role": "master", "cluster_enabled": "0",
}  # fmt: skip


def bulk(text: str | bytes) -> bytes:
    content = text.encode() if isinstance(text, str) else text
    return b"$%d\r\n%b\r\n" % (len(content), content)


def info(**changes: str | None) -> bytes:
    lines = {name: value for name, value in {**INFO, **changes}.items() if value is not None}
    return bulk("# Server\r\n" + "".join(f"{name}:{value}\r\n" for name, value in lines.items()))


def answering(**answers: bytes) -> Answers:
    """By command; all others are answered with OK."""
    known = {"INFO": info(), "GET": b"$-1\r\n", "SET": b"$-1\r\n", **answers}
    return lambda command: known.get(command[0].decode().upper(), b"+OK\r\n")


@asynccontextmanager
async def fake(answers: Answers, greeting: bytes = b"", context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Gives the port. A command whose answer is None is not answered; an empty one ends the connection."""
    tasks: set[asyncio.Task[Any]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        commands = hiredis.Reader()
        writer.write(greeting)
        with suppress(ConnectionError, hiredis.ProtocolError, asyncio.CancelledError):
            while data := await reader.read(65_536):
                commands.feed(data)
                while command := commands.gets():
                    answer = answers(command)
                    if answer == b"":
                        writer.close()
                    elif answer is not None:
                        writer.write(answer)
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks)
        await asyncio.sleep(0)


@asynccontextmanager
async def tls_front(target: int, context: ssl.SSLContext) -> AsyncIterator[int]:
    """TLS before a server that has none, as a proxy offers it; gives the port."""
    tasks: set[asyncio.Task[Any]] = set()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.CancelledError):
            while data := await reader.read(65_536):
                writer.write(data)
        writer.transport.abort()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", target)
        both = carry(reader, inner_writer), carry(inner_reader, writer)
        tasks.update(asyncio.ensure_future(one) for one in both)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)
