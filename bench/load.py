"""The app under test, and programs that use it: `python -m bench.load submit JOBS` orders them all at once, `trickle`
now and then, `timers JOBS SECONDS` for later, spread over so many seconds. All print the seconds that their calls took.

The store is the one that ROTA_STORE names.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from datetime import UTC, datetime, timedelta

import rota
from bench.payload import TEXT

# Between two orders of a trickle, on average: long enough for the one to be over before the next comes, and for
# wake-ups on PostgreSQL to be within their budget of 20 a second.
SPACING = 0.1
# From the order of timers to the first of them: all must be in the store by then.
AHEAD = 3.0

app = rota.App()


@app.task
async def noop(text: str) -> None:
    pass


@app.task
async def numbered(number: int, text: str) -> None:
    """For keys that depend on an argument."""


@app.task
async def gated(text: str) -> None:
    """What a gate stands before."""


@app.task
async def hold() -> None:
    """Has its slot, and its keys, until its node ends."""
    await asyncio.Event().wait()


@app.task
async def nap(seconds: float) -> None:
    await asyncio.sleep(seconds)


@app.task
async def tell(path: str) -> None:
    """Notes in a file when it starts, by a clock that all processes of the machine share."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(file, f"{time.monotonic()}\n".encode())
    os.close(file)


@app.task
async def latency(sent: float) -> float:
    """How long ago it was ordered, by the wall clock: two processes must read the same one."""
    return time.time() - sent


async def submit(jobs: int) -> float:
    arguments = [{"text": TEXT} for _ in range(jobs)]
    begun = time.perf_counter()
    await noop.submit_many(arguments)
    return time.perf_counter() - begun


async def trickle(jobs: int) -> float:
    took = 0.0
    for _ in range(jobs):
        await asyncio.sleep(SPACING * (0.2 + random.expovariate(1.25)))
        begun = time.perf_counter()
        await latency.submit(time.time())
        took += time.perf_counter() - begun
    return took


async def timers(jobs: int, spread: float) -> float:
    first, begun = datetime.now(UTC) + timedelta(seconds=AHEAD), time.perf_counter()
    due = [first + timedelta(seconds=spread * number / jobs) for number in range(jobs)]
    await asyncio.gather(*(noop.submit(TEXT, at=at) for at in due))
    took = time.perf_counter() - begun
    if took > AHEAD:
        raise RuntimeError(f"ordering them took {took:.1f} s: the first were due before the last were there")
    return took


async def main(verb: str, jobs: int, spread: float = 0.0) -> float:
    async with app:
        await app.client()  # opening the store is not what is measured
        match verb:
            case "submit":
                return await submit(jobs)
            case "trickle":
                return await trickle(jobs)
            case _:
                return await timers(jobs, spread)


if __name__ == "__main__":
    print(asyncio.run(main(sys.argv[1], int(sys.argv[2]), *map(float, sys.argv[3:]))))
