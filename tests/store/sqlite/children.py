"""Starts `program.py` in processes of their own, and reads what they say."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import rota

PROGRAM = Path(__file__).with_name("program.py")
LIMIT = 30.0  # seconds for what should take a fraction of one: a loaded machine is slow, a bug waits for ever


class Child:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def hear(self) -> Any:
        """The next thing it says; None at its end."""
        assert self.process.stdout is not None
        async with asyncio.timeout(LIMIT):
            line = await self.process.stdout.readline()
        return json.loads(line) if line else None

    async def rest(self) -> list[Any]:
        said: list[Any] = []
        while (value := await self.hear()) is not None:
            said.append(value)
        return said

    def tell(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")

    async def end(self) -> int:
        """Lets it go, and waits until it has gone."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        async with asyncio.timeout(LIMIT):
            return await self.process.wait()

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()


@asynccontextmanager
async def child(verb: str, path: str, *arguments: str, before: tuple[str, ...] = ()) -> AsyncIterator[Child]:
    source = Path(rota.__file__).parents[1]
    process = await asyncio.create_subprocess_exec(
        *before, sys.executable, str(PROGRAM), verb, path, *arguments,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=1 << 24,
        env={**os.environ, "PYTHONPATH": str(source)},
    )  # fmt: skip
    try:
        yield Child(process)
    finally:
        if process.returncode is None:
            process.kill()
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()
