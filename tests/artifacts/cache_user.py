"""A process that uses a cache: `python -m tests.artifacts.cache_user <cache> <packed bytes> <how>`.

It says `fetching` for each fetch, and `using <folder>` once it has the program. After both it waits for a line, where
`how` asks for it: `stop in fetch`, `stop in use`, or `go on`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from rota.artifacts.cache import ProgramCache
from rota.clock import Chance, SystemClock
from tests.artifacts.made import digest


async def main(folder: Path, data: bytes, how: str) -> None:
    async def fetch() -> AsyncIterator[bytes]:
        say("fetching")
        yield data[: len(data) // 2]
        if how == "stop in fetch":
            await asyncio.to_thread(sys.stdin.readline)
        yield data[len(data) // 2 :]

    cache = ProgramCache(folder, 1 << 30, SystemClock(), Chance(), patience=60.0)
    async with cache.use(digest(data), len(data), fetch) as place:
        content = b"".join(path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file())
        say(f"using {place.name} {len(content)}")
        if how == "stop in use":
            await asyncio.to_thread(sys.stdin.readline)


def say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]).read_bytes(), sys.argv[3]))
