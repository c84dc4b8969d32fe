"""A pooler as PgBouncer is one in transaction mode: few connections to the server, each given to another client after
every transaction, with all that the one before has left in it."""

from __future__ import annotations

import asyncio
import struct
from contextlib import suppress
from typing import Self

SSL, CANCEL = 80877103, 80877102
TAKEN = {"user", "database", "client_encoding", "datestyle", "timezone", "standard_conforming_strings"}


class Line:
    """A connection to the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.settings: list[bytes] = []  # what it says when it is opened


class Pooler:
    def __init__(self, host: str, port: int, *, strict: bool) -> None:
        self.target = host, port
        self.strict = strict  # refuses settings that it does not know
        self.port = 0
        self.clients = 0
        self.size = 4
        self._lines: asyncio.Queue[Line] = asyncio.Queue()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        while not self._lines.empty():
            await hang_up(self._lines.get_nowait().writer)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await self._welcome(reader, writer)
        await hang_up(writer)

    async def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            length, code = struct.unpack("!ii", await reader.readexactly(8))
            body = await reader.readexactly(length - 8)
            if code == CANCEL:
                return
            if code != SSL:
                break
            writer.write(b"N")
        words = body.rstrip(b"\0").split(b"\0")
        given = dict(zip(words[::2], words[1::2], strict=True))
        unknown = sorted(name.decode() for name in given if name.decode().lower() not in TAKEN)
        if self.strict and unknown:
            fields = f"SFATAL\0VFATAL\0C08P01\0Munsupported startup parameter: {unknown[0]}\0\0".encode()
            writer.write(message(b"E", fields))
            await writer.drain()
            return
        while self._lines.qsize() < self.size:
            self._lines.put_nowait(await self._dial(given[b"user"], given[b"database"]))
        self.clients += 1
        line = await self._lines.get()
        self._lines.put_nowait(line)
        made_up = struct.pack("!ii", 1_000_000_000 + self.clients, 0)
        writer.write(message(b"R", struct.pack("!i", 0)) + b"".join(line.settings))
        writer.write(message(b"K", made_up) + message(b"Z", b"I"))
        await self._serve(reader, writer)

    async def _dial(self, user: bytes, database: bytes) -> Line:
        line = Line(*await asyncio.open_connection(*self.target))
        parameters = b"user\0" + user + b"\0database\0" + database + b"\0client_encoding\0UTF8\0\0"
        line.writer.write(struct.pack("!ii", len(parameters) + 8, 196608) + parameters)
        while True:
            kind, body = await read(line.reader)
            if kind == b"S":
                line.settings.append(message(kind, body))
            if kind == b"Z":
                return line

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line: Line | None = None
        relaying: asyncio.Task[None] | None = None
        asked = 0  # how many answers the server owes

        async def relay(line_: Line) -> None:
            nonlocal line, asked
            while True:
                try:
                    kind, body = await read(line_.reader)
                except (ConnectionError, asyncio.IncompleteReadError):
                    writer.close()  # the server has ended it: so has the client's, after what the server said
                    return
                writer.write(message(kind, body))
                asked -= kind == b"Z"
                if kind == b"Z" and body == b"I" and not asked:
                    line = None
                    self._lines.put_nowait(line_)
                    return

        try:
            while True:
                kind, body = await read(reader)
                if kind == b"X":
                    return
                if line is None:
                    line = await self._lines.get()  # the one that was not used for the longest time
                    relaying = asyncio.create_task(relay(line))
                asked += kind in b"QS"
                line.writer.write(message(kind, body))
        finally:
            if line is not None:  # left in the middle of a transaction
                assert relaying
                relaying.cancel()
                await hang_up(line.writer)


async def hang_up(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with suppress(ConnectionError):
        await writer.wait_closed()


def message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


async def read(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    kind = await reader.readexactly(1)
    (length,) = struct.unpack("!i", await reader.readexactly(4))
    return kind, await reader.readexactly(length - 4)
