"""An open event stream of an API in this process, and its events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec

from tests.api.caller import HOST, Caller, secret


class Told(NamedTuple):
    id: str | None
    kind: str
    data: Any


def events_in(text: bytes) -> list[Told]:
    """The complete events of a text; comments and `retry` are left out."""
    found = []
    for block in text.decode().split("\n\n")[:-1]:
        fields = dict(line.split(": ", 1) for line in block.split("\n") if not line.startswith(":"))
        if "event" in fields:
            found.append(Told(fields.get("id"), fields["event"], msgspec.json.decode(fields["data"])))
    return found


class OpenStream:
    def __init__(self) -> None:
        self.status, self.headers, self.body = 0, dict[str, str](), b""
        self.ended = False
        self.reading = asyncio.Event()  # cleared: the caller takes nothing more
        self.reading.set()
        self._news = asyncio.Event()

    async def send(self, message: dict[str, Any]) -> None:
        await self.reading.wait()
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            self.body += message["body"]
            self.ended = not message.get("more_body", False)
        self._news.set()

    @property
    def events(self) -> list[Told]:
        return events_in(self.body)

    @property
    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(20):
            while not condition():
                self._news.clear()
                await self._news.wait()

    async def count(self, events: int) -> list[Told]:
        await self.until(lambda: len(self.events) >= events)
        return self.events

    async def begun(self) -> None:
        await self.until(lambda: self.body)


@asynccontextmanager
async def opened(
    caller: Caller, path: str, key: str = secret("admin"), headers: Mapping[str, str] | None = None
) -> AsyncIterator[OpenStream]:
    raw, _, query = path.partition("?")
    given = {"host": HOST, "authorization": f"Bearer {key}"} | dict(headers or {})
    scope = {
        "type": "http", "method": "GET", "raw_path": raw.encode(), "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        "client": ("127.0.0.1", 4321), "scheme": "http",
    }  # fmt: skip
    stream, hang_up = OpenStream(), asyncio.Event()

    async def receive() -> dict[str, Any]:
        await hang_up.wait()
        return {"type": "http.disconnect"}

    task = asyncio.create_task(caller.api(scope, receive, stream.send))
    try:
        await stream.begun()
        yield stream
    finally:
        hang_up.set()
        stream.reading.set()
        await task
