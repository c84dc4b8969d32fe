"""A server on loopback that answers with bytes that a test gives, and remembers what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

Script = Callable[[bytes], bytes | None]


def answer(body: bytes = b"{}", status: str = "200 OK", headers: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body


class ScriptedServer:
    """`script` gets each request and returns the bytes of the answer; None: it closes the connection."""

    def __init__(self, script: Script) -> None:
        self.script, self.connections, self.requests = script, 0, [b""][:0]
        self.port = 0
        self.tasks: set[asyncio.Task[None] | None] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.tasks.add(asyncio.current_task())
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
                body = await reader.readexactly(int(length[0].split(b":")[1])) if length else b""
                self.requests.append(head + body)
                reply = self.script(head + body)
                if reply is None:
                    break
                writer.write(reply)
        writer.transport.abort()


@asynccontextmanager
async def scripted(script: Script) -> AsyncIterator[ScriptedServer]:
    server = ScriptedServer(script)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        for task in server.tasks:
            if task is not None:
                task.cancel()
                await task
        await asyncio.sleep(0)
