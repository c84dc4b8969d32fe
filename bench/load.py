"""The app under test, and two programs that use it: `python -m bench.load submit JOBS` orders them all at once,
`python -m bench.load trickle JOBS` now and then. Both print the seconds that their calls took.

The store is the one that ROTA_STORE names.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time

import rota
from bench.raw import TEXT

# Between two orders of a trickle, on average: long enough for the one to be over before the next comes.
SPACING = 0.03

app = rota.App()


@app.task
async def noop(text: str) -> None:
    pass


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


async def main(verb: str, jobs: int) -> float:
    async with app:
        await app.client()  # opening the store is not what is measured
        return await {"submit": submit, "trickle": trickle}[verb](jobs)


if __name__ == "__main__":
    print(asyncio.run(main(sys.argv[1], int(sys.argv[2]))))
