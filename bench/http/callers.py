"""Callers of an HTTP server: `python -m bench.http.callers PORT CALLERS SECONDS` reads requests from standard input,
divided by NUL bytes, and deals them out to callers. Each caller sends its own again and again over a connection of its
own, the next one after the answer to the last.
Prints a JSON object: requests a second, p50 and p99 in milliseconds, and the first answer that was no success.

It parses as little as it can: what it costs is taken from the server's core on a small machine.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import cast

import msgspec

WARM_UP = 0.5  # seconds
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class Answers(msgspec.Struct, frozen=True):
    rate: float
    p50: float
    p99: float
    refused: str = ""


class _Caller(asyncio.Protocol):
    def __init__(self, request: bytes, took: list[float], refused: list[str]) -> None:
        self._request, self._took, self._refused = request, took, refused
        self._received, self._sent = b"", 0.0
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._send()

    def _send(self) -> None:
        self._received, self._sent = b"", time.perf_counter()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not found or (length and len(body) < int(length[1])):
            return
        self._took.append(time.perf_counter() - self._sent)
        if self._received[9:10] != b"2" and not self._refused:
            self._refused.append(self._received[:500].decode(errors="replace"))
        self._send()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


async def call(port: int, callers: int, seconds: float, requests: Sequence[bytes]) -> Answers:
    took: list[float] = []
    refused: list[str] = []
    loop = asyncio.get_running_loop()
    protocols = [partial(_Caller, requests[place % len(requests)], took, refused) for place in range(callers)]
    made = [await loop.create_connection(protocol, "127.0.0.1", port) for protocol in protocols]
    await asyncio.sleep(WARM_UP)
    took.clear()
    begun = time.perf_counter()
    await asyncio.sleep(seconds)
    counted, spent = sorted(took), time.perf_counter() - begun
    for transport, _ in made:
        transport.abort()
    await asyncio.gather(*(caller.ended for _, caller in made))
    if not counted:
        return Answers(0.0, 0.0, 0.0, "".join(refused) or "no answer")
    p50, p99 = (counted[len(counted) * share // 100] * 1000 for share in (50, 99))
    return Answers(len(counted) / spent, p50, p99, "".join(refused))


def main(port: str, callers: str, seconds: str) -> None:
    try:
        import uvloop
    except ModuleNotFoundError:
        run = asyncio.run
    else:
        run = uvloop.run
    answers = run(call(int(port), int(callers), float(seconds), sys.stdin.buffer.read().split(b"\0")))
    print(msgspec.json.encode(answers).decode())


if __name__ == "__main__":
    main(*sys.argv[1:])
