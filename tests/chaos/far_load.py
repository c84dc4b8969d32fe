"""The client of far-away workers: `python -m tests.chaos.far_load FOLDER PROFILE`, until SIGTERM.

It orders over HTTP, in turn through both servers; an order that is repeated goes through the other one. Some orders
need a key of which there is one, some are cancelled through the other server before they are due, and some keys are
used a second time for other work, which must be refused.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import rota
from rota import errors
from rota.store.values import Cancelling
from tests.chaos import app as tasks
from tests.chaos.asides import ASIDES, CANCEL, CLASH, DONE, REFUSED, UNKNOWN, Aside
from tests.chaos.far_cluster import DOORS
from tests.chaos.keys import MUTEXES
from tests.chaos.load import ANSWER_LIMIT, Load, Profile
from tests.chaos.told import Book

# Two of three workers have room for all of it.
PROFILES = {"far": Profile(rate=6.0, durations=(0.3, 0.6, 1.0, 1.6), commands=0.1)}
CANCELLED_DELAY = 3.0  # seconds: time for the cancel


class Door:
    """One server, and the tasks of its app."""

    def __init__(self, url: str, key: str) -> None:
        self.app = rota.App(server=url, key=key)
        self.tasks = {
            kind: self.app.task(task.function) for kind, task in (("block", tasks.block), ("linger", tasks.recite))
        }


def is_cancelled(number: int) -> bool:
    return number % 20 == 10


def clashes(number: int) -> bool:
    return number % 15 == 6  # each of them has a key


def needed_key(number: int) -> tuple[str, ...]:
    return (MUTEXES[number // 4 % len(MUTEXES)],) if number % 4 == 1 else ()


class FarLoad(Load):
    def __init__(self, folder: Path, profile: Profile) -> None:
        super().__init__(folder, profile)
        self.doors = [Door(url, os.environ["ROTA_KEY"]) for url in os.environ[DOORS].split()]
        self._tries: Counter[int] = Counter()
        self._jobs: dict[int, rota.Job[Any]] = {}
        self._asides = Book(folder / ASIDES)

    async def connect(self) -> None: ...

    async def close(self) -> None:
        for door in self.doors:
            await door.app.close()

    async def order(self, number: int) -> None:
        await super().order(number)
        if number not in self._jobs:
            return
        if is_cancelled(number):
            await self._beside(CANCEL, number, self._cancel(number))
        elif clashes(number):
            await self._beside(CLASH, number, self._clash(number))

    async def submit(self, number: int, kind: str, seconds: float, options: dict[str, Any]) -> rota.Job[Any]:
        door = self._door(number)
        self._tries[number] += 1
        if is_cancelled(number):
            options = {"delay": CANCELLED_DELAY, **options}
        if kind == "command":
            job = await self.command(number, seconds, options, app=door.app)
        else:
            job = await self._task(door, number, kind).submit(
                number=number, seconds=seconds, keys=list(needed_key(number)), **options
            )
        self._jobs[number] = job
        return job

    def _door(self, number: int) -> Door:
        return self.doors[(number + self._tries[number]) % len(self.doors)]

    def _task(self, door: Door, number: int, kind: str) -> Any:
        return door.tasks[kind].options(limits=dict.fromkeys(needed_key(number), 1))

    # -- beside orders -----------------------------------------------------------------------------------------------
    async def _cancel(self, number: int) -> bool:
        job = await self._door(number).app.job(self._jobs[number].id)
        return await job.cancel() is Cancelling.CANCELLED

    async def _clash(self, number: int) -> bool:
        """Another number is other work."""
        door = self._door(number)
        await door.tasks["linger"].submit(number=-number, seconds=0.0, key=f"order-{number}")
        return True

    async def _beside(self, word: str, number: int, asking: Any) -> None:
        try:
            async with asyncio.timeout(ANSWER_LIMIT):
                answer, why = (DONE if await asking else REFUSED), ""
        except errors.KeyConflict as error:
            answer, why = REFUSED, str(error)
        except Exception as error:
            answer, why = UNKNOWN, f"{type(error).__name__}: {error}"
        self._asides.write(**asdict(Aside(word, number, answer, time.monotonic(), why)))


async def main() -> None:
    os.chdir(sys.argv[1])
    load = FarLoad(Path(sys.argv[1]), PROFILES[sys.argv[2]])
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, load.stop)
    await load.run()


if __name__ == "__main__":
    asyncio.run(main())
