"""Puts objects into a folder until it is killed: `folder_writer.py FOLDER NAME`. It prints a line for each.

The content of each is its key, many times over, so that anyone can tell whether it is whole."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from rota.artifacts.folder import FolderPlace
from rota.clock import Chance, SystemClock

TIMES = 20_000


async def main(folder: str, name: str) -> None:
    place = FolderPlace(Path(folder), SystemClock(), Chance())
    await place.probe()
    for number in itertools.count():
        key = f"objects/{name}/{number % 50:02d}"
        await place.put(key, _pieces(key))
        print(key, flush=True)


async def _pieces(key: str) -> AsyncIterator[bytes]:
    for _ in range(10):
        yield key.encode() * (TIMES // 10)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
