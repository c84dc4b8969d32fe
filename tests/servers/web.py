"""A web server on a loopback port, in a thread of its own, that answers as it is told: well, badly, or not at all."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from tests.servers.ports import bound_socket

PATIENCE = 10.0


class Asked(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes


Answer = Callable[[Asked, asyncio.StreamWriter], Awaitable[None]]


def reply(status: int = 200, body: bytes | str = b"", **headers: str) -> Answer:
    """`content_type="text/plain"` is the header Content-Type."""
    content = body.encode() if isinstance(body, str) else body
    fields = {"Content-Length": str(len(content))} | {name.replace("_", "-"): value for name, value in headers.items()}
    head = f"HTTP/1.1 {status} Said\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return raw(head.encode() + b"\r\n" + content)


def raw(content: bytes, close: bool = True) -> Answer:
    async def answer(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(content)
        await writer.drain()
        if not close:
            await asyncio.Event().wait()

    return answer


def in_turn(*answers: Answer) -> Answer:
    """Another each time; the last one for ever."""
    left = list(answers)

    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        await (left.pop(0) if len(left) > 1 else left[0])(asked, writer)

    return answer


class Web:
    def __init__(self, scheme: str, port: int) -> None:
        self.scheme, self.port = scheme, port
        self.asked: list[Asked] = []
        self.broken: list[str] = []  # paths whose client went away while they were answered
        self.otherwise = reply(404)
        self._answers: dict[str, Answer] = {}
        self._heard = threading.Condition()

    @property
    def url(self) -> str:
        return self.at("127.0.0.1")

    def at(self, host: str) -> str:
        return f"{self.scheme}://{host}:{self.port}"

    def on(self, path: str, answer: Answer) -> str:
        """Returns the URL."""
        self._answers[path] = answer
        return self.url + path

    def paths(self) -> list[str]:
        return [asked.path for asked in self.asked]

    def wait_for(self, what: Callable[[Web], bool]) -> None:
        with self._heard:
            assert self._heard.wait_for(lambda: what(self), PATIENCE), (self.asked, self.broken)

    async def until(self, what: Callable[[Web], bool]) -> None:
        await asyncio.to_thread(self.wait_for, what)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = ""
        try:
            asked = await _read(reader)
            path = asked.path
            with self._heard:
                self.asked.append(asked)
                self._heard.notify_all()
            answering = asyncio.ensure_future(self._answers.get(path.partition("?")[0], self.otherwise)(asked, writer))
            gone = asyncio.ensure_future(reader.read(1))
            await asyncio.wait({answering, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                answering.cancel()
                raise ConnectionError
            gone.cancel()
            answering.result()
        except (OSError, asyncio.IncompleteReadError):
            with self._heard:
                self.broken.append(path)
                self._heard.notify_all()
        finally:
            with suppress(OSError, RuntimeError):
                writer.close()


async def _read(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *lines = head.strip().split("\r\n")
    method, path, _ = first.split(" ")
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        assert name.lower() not in headers, f"{name} twice"
        headers[name.lower()] = value.strip()
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(method, path, headers, body)


@contextmanager
def web(context: ssl.SSLContext | None = None) -> Iterator[Web]:
    sock = bound_socket()
    found = Web("https" if context else "http", sock.getsockname()[1])
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)  # clients that go away are what is tested

    async def start() -> asyncio.Server:
        return await asyncio.start_server(found.serve, sock=sock, ssl=context)

    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(start(), loop).result(PATIENCE)
    try:
        yield found
    finally:

        async def stop() -> None:
            server.close()
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(stop(), loop).result(PATIENCE)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE)
        loop.close()
