"""The app under test, and programs that use it: `python -m bench.load submit JOBS` orders them all at once, `timers
JOBS SECONDS` for later, spread over so many seconds; both print the seconds that their calls took. `paced JOBS RATE
LINE even|random` orders so many a second, whatever becomes of them, and prints by how many seconds its calls were late.
`hearing` does the same, but has waited for jobs before, and so hears wake-ups from then on, as a server does. `report
JOBS SECONDS` orders jobs that tell their progress a hundred times a second.

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

# Orders of each process before those that count: its first ones open connections.
WARM_UP = 3
NOT_COUNTED = 0
# From the order of timers to the first of them: all must be in the store by then.
AHEAD = 3.0
# Until a process that hears its first wake-up relies on the hot tier, if it has one.
TRUSTING = 4.5
# Reports a second of each job that tells its progress.
REPORTS = 100

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
async def reporter(context: rota.Context, seconds: float) -> int:
    """Returns how many reports it has made."""
    begun, count = time.monotonic(), 0
    while (passed := time.monotonic() - begun) < seconds:
        context.progress(passed / seconds, f"{count} reports")
        count += 1
        await asyncio.sleep(max(0.0, begun + count / REPORTS - time.monotonic()))
    return count


@app.task
async def latency(line: int, sent: float) -> list[float]:
    """How long ago it was ordered, by a clock that all processes of the machine share."""
    return [line, time.monotonic() - sent]


async def submit(jobs: int) -> float:
    arguments = [{"text": TEXT} for _ in range(jobs)]
    begun = time.perf_counter()
    await noop.submit_many(arguments)
    return time.perf_counter() - begun


async def paced(jobs: int, rate: float, line: int, spacing: str, hears: bool = False) -> float:
    """Open loop: an order leaves at its instant, whether or not those before it have been answered. The instants are
    evenly spaced or those of a Poisson process. It begins when it is told to, by a line: others may begin with it."""
    for _ in range(WARM_UP):
        await latency.submit(NOT_COUNTED, time.monotonic())
    if hears:
        job = await nap.submit(1.0)  # who waits for a job that has ended hears nothing
        await job.wait()
        await asyncio.sleep(TRUSTING)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    late: list[float] = []
    due, orders = time.monotonic(), []
    for _ in range(jobs):
        due += 1 / rate if spacing == "even" else random.expovariate(rate)
        if (pause := due - time.monotonic()) > 0:
            await asyncio.sleep(pause)
        sent = time.monotonic()
        late.append(sent - due)
        orders.append(asyncio.create_task(latency.submit(line, sent)))
    await asyncio.gather(*orders)
    return sorted(late)[len(late) * 99 // 100]


async def timers(jobs: int, spread: float) -> float:
    first, begun = datetime.now(UTC) + timedelta(seconds=AHEAD), time.perf_counter()
    due = [first + timedelta(seconds=spread * number / jobs) for number in range(jobs)]
    await asyncio.gather(*(noop.options(at=at).submit(TEXT) for at in due))
    took = time.perf_counter() - begun
    if took > AHEAD:
        raise RuntimeError(f"ordering them took {took:.1f} s: the first were due before the last were there")
    return took


async def main(verb: str, jobs: int, *more: str) -> float:
    async with app:
        await app._core.client()  # opening the store is not what is measured
        match verb, more:
            case "submit", ():
                return await submit(jobs)
            case "paced" | "hearing", (rate, line, spacing):
                return await paced(jobs, float(rate), int(line), spacing, verb == "hearing")
            case "report", (seconds,):
                await reporter.submit_many([{"seconds": float(seconds)} for _ in range(jobs)])
                return 0.0
            case "timers", (spread,):
                return await timers(jobs, float(spread))
            case _:
                raise SystemExit(__doc__)


if __name__ == "__main__":
    print(asyncio.run(main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])))
