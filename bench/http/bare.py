"""The floor: `python -m bench.http.bare PORT` serves, on the server that the API runs on, an application that
parses a body (POST) or answers a job's worth of bytes (GET), and nothing else."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import uvicorn

JOB = msgspec.json.encode({"id": "0" * 36, "text": "x" * 900})
ORDERED = b'{"id":"01234567-0123-0123-0123-0123456789ab","created":true}'


async def app(
    scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
) -> None:
    status, answer = 200, JOB
    if scope["method"] == "POST":
        msgspec.json.decode((await receive())["body"])
        status, answer = 201, ORDERED
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


async def serve(port: int) -> None:
    config = uvicorn.Config(
        app, port=port, http="httptools", loop="none", lifespan="off", log_level="warning", access_log=False
    )
    await uvicorn.Server(config).serve()


if __name__ == "__main__":
    try:
        import uvloop  # as `rota up` does
    except ModuleNotFoundError:
        asyncio.run(serve(int(sys.argv[1])))
    else:
        uvloop.run(serve(int(sys.argv[1])))
