"""Programs that order what `pg-order` measures: `python -m bench.postgres.ordering VERB ...`, on the store that
ROTA_STORE names. All print the seconds that their calls took; opening the store does not count.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import rota
from bench.load import app, gated, hold, nap, noop, numbered, tell
from bench.payload import TEXT

# The key that one job holds and all others wait for.
DOOR = "door"
SIDE = "side"  # the queue of that one job
RATE = "60/5s"
FLOOD, GUEST = "flood", "guest"
# Between two orders of a guest.
SPACING = 0.1


async def fan_out(jobs: int) -> None:
    """One job, and all others after it."""
    async with app.workflow("fan-out") as flow:
        first = flow.add(noop, text=TEXT)
        for _ in range(jobs - 1):
            flow.add(noop, text=TEXT, after=first)


async def fan_in(jobs: int) -> None:
    async with app.workflow("fan-in") as flow:
        parents = [flow.add(noop, text=TEXT) for _ in range(jobs - 1)]
        flow.add(noop, text=TEXT, after=parents)


async def chain(jobs: int) -> None:
    async with app.workflow("chain") as flow:
        last: rota.Job[Any] | None = None
        for _ in range(jobs):
            last = flow.add(noop, text=TEXT, after=last)


async def plain(jobs: int, keys: int) -> None:
    await numbered.submit_many([{"number": number % keys, "text": TEXT} for number in range(jobs)])


async def keyed(jobs: int, keys: int) -> None:
    """The same jobs with a mutex each, of so many."""
    arguments = [{"number": number % keys, "text": TEXT} for number in range(jobs)]
    await numbered.submit_many(arguments, exclusive="number:{number}")


async def holder() -> None:
    await hold.options(exclusive=DOOR, queue=SIDE).submit()


async def behind_key(jobs: int) -> None:
    await noop.submit_many([{"text": TEXT}] * jobs, exclusive=DOOR)


async def behind_gate(jobs: int) -> None:
    """Ordered before it closes: they are ready, and have to be moved aside."""
    await gated.submit_many([{"text": TEXT}] * jobs)
    await (await app.admissions()).pause(task="gated", reason="so that they are in the way")


async def told(jobs: int, path: str) -> None:
    await tell.submit_many([{"path": path}] * jobs, limits={"api": RATE})


async def feedback(state: str) -> None:
    await (await app.admissions()).set_feedback("default", state == "on")


async def flood(jobs: int, seconds: float) -> None:
    await nap.submit_many([{"seconds": seconds}] * jobs)


async def guests(jobs: int) -> None:
    for _ in range(jobs):
        await nap.submit(seconds=0.0)
        await asyncio.sleep(SPACING)


VERBS: dict[str, Callable[..., Awaitable[None]]] = {
    "fan-out": fan_out, "fan-in": fan_in, "chain": chain, "plain": plain, "keyed": keyed, "holder": holder,
    "behind-key": behind_key, "behind-gate": behind_gate, "told": told, "feedback": feedback, "flood": flood,
    "guests": guests,
}  # fmt: skip
# Whose orders they are, if that matters.
USERS = {"flood": FLOOD, "guests": GUEST}


async def main(verb: str, *arguments: str) -> float:
    app.configure(user=USERS.get(verb))
    async with app:
        await app._core.client()
        begun = time.perf_counter()
        await VERBS[verb](*map(_read, arguments))
        return time.perf_counter() - begun


def _read(argument: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(argument)
        except ValueError:
            continue
    return argument


if __name__ == "__main__":
    print(asyncio.run(main(*sys.argv[1:])))
