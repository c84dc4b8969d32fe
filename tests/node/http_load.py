"""Callers of an API that go on whatever happens to its store, and remember every answer."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

PERIOD = 0.03  # seconds between two calls of a caller
LIMIT = 40.0  # seconds for an answer: the store itself gives up after 30


class Answer(NamedTuple):
    asked: float  # by the monotonic clock
    at: float
    status: int  # 0: there was none
    headers: dict[str, str]
    body: Any

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300


class Caller:
    def __init__(self, port: int, key: str) -> None:
        self.port, self.key = port, key

    def _head(self, method: str, path: str, more: str = "") -> bytes:
        head = f"{method} /api/v1{path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {self.key}\r\n{more}\r\n"
        return head.encode()

    async def ask(self, method: str, path: str, body: Any = None) -> Answer:
        """On a connection of its own."""
        data = b"" if body is None else json.dumps(body).encode()
        more = f"content-type: application/json\r\ncontent-length: {len(data)}\r\n" if data else ""
        asked = time.monotonic()
        try:
            async with asyncio.timeout(LIMIT), self._connection() as (reader, writer):
                writer.write(self._head(method, path, f"connection: close\r\n{more}") + data)
                whole = await reader.read()
        except (OSError, TimeoutError) as error:
            return Answer(asked, time.monotonic(), 0, {}, repr(error))
        head, _, rest = whole.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        return Answer(asked, time.monotonic(), int(first.split()[1]), headers, json.loads(rest) if rest else None)

    async def follow(self, path: str, last: str, event: Callable[[str], None]) -> int:
        """Reads an event stream until it ends; `event` gets the id of each. Returns the status."""
        async with self._connection() as (reader, writer):
            writer.write(self._head("GET", path, f"last-event-id: {last}\r\n"))
            status = int((await reader.readline()).split()[1])
            name = b""
            while line := await reader.readline():
                if line.startswith(b"id: "):
                    name = line[4:].strip()
                elif line == b"\n" and name:  # the event is whole
                    event(name.decode())
                    name = b""
            return status

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()


class HttpLoad:
    """`answers`: of each kind of call, in the order in which they came."""

    def __init__(self, caller: Caller, first_job: str) -> None:
        self.caller, self._job = caller, first_job
        self.answers: dict[str, list[Answer]] = {"get": [], "list": [], "submit": []}
        self.told: list[str] = []  # the ids of events, as the stream had them
        self.streams: list[int] = []  # the status of each stream that has ended
        self.news = asyncio.Event()  # set with every answer and event
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        order = {"task": "work", "args": {"seconds": 0}}
        calls: dict[str, Callable[[], Awaitable[Answer]]] = {
            "get": lambda: self.caller.ask("GET", f"/jobs/{self._job}"),
            "list": lambda: self.caller.ask("GET", "/jobs?limit=20"),
            "submit": lambda: self.caller.ask("POST", "/jobs", order),
        }
        self._tasks = [asyncio.create_task(self._repeat(kind, call)) for kind, call in calls.items()]
        self._tasks += [asyncio.create_task(self._listen()), asyncio.create_task(self._look_in())]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        await asyncio.sleep(0)  # the transports close their sockets

    async def _repeat(self, kind: str, call: Callable[[], Awaitable[Answer]]) -> None:
        while True:
            self.answers[kind].append(await call())
            self.news.set()
            await asyncio.sleep(PERIOD)

    async def _listen(self) -> None:
        """As a browser does: a stream that has ended is opened again, behind the last id."""
        while True:
            with suppress(OSError):
                last = self.told[-1] if self.told else "0"
                self.streams.append(await self.caller.follow("/events?kind=job.*", last, self._hear))
            await asyncio.sleep(0.1)

    def _hear(self, name: str) -> None:
        self.told.append(name)
        self.news.set()

    async def _look_in(self) -> None:
        """Opens streams all the time, each for a moment."""
        while True:
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(0.2):
                    self.streams.append(await self.caller.follow("/events", "0", lambda name: None))
            await asyncio.sleep(PERIOD)
