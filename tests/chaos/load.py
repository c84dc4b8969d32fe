"""The client, a process of its own: `python -m tests.chaos.load FOLDER PROFILE`, until SIGTERM.

It orders jobs the whole time, whatever happens to the server, and writes down what it was told. A third of the orders
have a key: those are repeated until there is an answer, and some of them once more after that.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rota
from rota import errors
from tests.chaos import app as tasks
from tests.chaos.told import ASKED, HUNG, OK, REFUSED, UNKNOWN, Book
from tests.chaos.witness import END, Reader

ROOT = Path(__file__).parents[2]
# The store gives up after 30 s by itself. A call that has not come back by then never will.
ANSWER_LIMIT = 60.0
# How long orders with a key are repeated after the load has ended.
LAST_TRIES = 30.0
PERIOD = 0.05


@dataclass(frozen=True)
class Profile:
    rate: float = 30.0  # orders per second
    outstanding: int = 0  # or as many as keep so many of them unfinished, by the word of the witness
    durations: tuple[float, ...] = ()  # none given: anything from nothing to two seconds
    commands: float = 0.08  # parts of all
    blocking: float = 0.25
    timers: float = 0.12
    stumbling: float = 0.0  # fail first, and are tried again

    def duration(self) -> float:
        if self.durations:
            return random.choice(self.durations)
        return random.choice([0.0, random.uniform(0.0, 0.1), random.uniform(0.1, 0.6), random.uniform(0.5, 2.0)])


PROFILES = {
    "mixed": Profile(),
    # Long enough that every node has something to lose at any time.
    "heavy": Profile(rate=14.0, durations=(0.4, 0.8, 1.2, 1.6, 2.0)),
    # More work than slots, so that what is done depends on the slots alone.
    "full": Profile(outstanding=300, durations=(0.3, 0.4, 0.5), commands=0.03, blocking=0.2, timers=0.0),
    "hot": Profile(rate=40.0, durations=(0.0, 0.05), commands=0.0, blocking=0.1, timers=0.6, stumbling=0.2),
    "timers": Profile(rate=40.0, durations=(0.0, 0.05), commands=0.0, timers=0.7),
}
REFUSALS = (errors.InvalidInput, errors.KeyConflict, errors.StoreFull, errors.StoreReadOnly, errors.NotAllowed)


class Load:
    def __init__(self, folder: Path, profile: Profile) -> None:
        self.profile, self.folder = profile, folder
        self.app = rota.App()
        self.linger, self.block = tasks.linger, tasks.block
        self.book, self.witness = Book(folder / "told"), Reader(folder / "witness")
        self.number, self.accepted, self.ended, self.seen = 0, 0, 0, 0
        self.stopping = asyncio.Event()
        self.asking: set[asyncio.Task[None]] = set()

    async def connect(self) -> None:
        await tasks.app._core.client()

    async def close(self) -> None:
        await tasks.app.close()

    async def run(self) -> None:
        await self.connect()
        began, asked = time.monotonic(), 0
        while not self.stopping.is_set():
            count = self._missing() if self.profile.outstanding else int(
                (time.monotonic() - began) * self.profile.rate - asked
            )  # fmt: skip
            asked += count
            for _ in range(count):
                self.number += 1
                task = asyncio.create_task(self.order(self.number))
                self.asking.add(task)
                task.add_done_callback(self.asking.discard)
            await asyncio.sleep(PERIOD)
        if self.asking:
            await asyncio.wait(self.asking, timeout=ANSWER_LIMIT + LAST_TRIES + 5)
        await self.close()

    def _missing(self) -> int:
        lines = self.witness.read()
        self.ended += sum(line.word == END for line in lines[self.seen :])
        self.seen = len(lines)
        return max(0, self.profile.outstanding - len(self.asking) - (self.accepted - self.ended))

    def kind(self) -> str:
        chance = random.random()
        if chance < self.profile.commands:
            return "command"
        if chance < self.profile.commands + self.profile.stumbling:
            return "stumble"
        return "block" if chance < self.profile.commands + self.profile.stumbling + self.profile.blocking else "linger"

    async def order(self, number: int) -> None:
        profile, kind = self.profile, self.kind()
        options: dict[str, Any] = {}
        due = time.time() + random.uniform(0.3, 4.0) if random.random() < profile.timers else None
        if due is not None:
            options["delay"] = due - time.time()
        if number % 3 == 0:
            options["key"] = f"order-{number}"
        seconds, first = profile.duration(), True
        while True:
            word = await self._ask(number, kind, seconds, due, options)
            if word == OK:
                self.accepted += first
                if not (first and number % 15 == 0):  # a client that repeats itself although it had an answer
                    return
                first = False
            elif word != UNKNOWN or "key" not in options or self._too_late():
                return
            else:
                await asyncio.sleep(random.uniform(0.1, 0.4))

    def _too_late(self) -> bool:
        return self.stopping.is_set() and time.monotonic() > self.stopped_at + LAST_TRIES

    async def _ask(self, number: int, kind: str, seconds: float, due: float | None, options: dict[str, Any]) -> str:
        at = time.monotonic()
        self.book.write(word=ASKED, number=number, at=at, kind=kind, keyed="key" in options, due=due)
        try:
            async with asyncio.timeout(ANSWER_LIMIT):
                job = await self.submit(number, kind, seconds, options)
        except REFUSALS as error:
            word, why = REFUSED, f"{type(error).__name__}: {error}"
        except TimeoutError:
            word, why = HUNG, f"no answer within {ANSWER_LIMIT:.0f} s"
        except Exception as error:
            word, why = UNKNOWN, f"{type(error).__name__}: {error}"
        else:
            self.book.write(word=OK, number=number, at=time.monotonic(), took=time.monotonic() - at, id=job.id)
            return OK
        self.book.write(word=word, number=number, at=time.monotonic(), took=time.monotonic() - at, why=why)
        return word

    async def command(
        self, number: int, seconds: float, options: dict[str, Any], *rest: str, app: rota.App = tasks.app
    ) -> rota.Job[Any]:
        argv = [sys.executable, "-IS", str(ROOT / "tests/chaos/command.py"), str(number), str(seconds), *rest]
        variables = {"CHAOS_WITNESS": str(self.folder / "witness"), "CHAOS_ROOT": str(ROOT)}
        about = {"env": variables, "inherit": ["CHAOS_NODE"], "name": f"command.{number}", **options}
        return await app.submit_command(argv, **about)

    async def submit(self, number: int, kind: str, seconds: float, options: dict[str, Any]) -> rota.Job[Any]:
        if kind == "command":
            return await self.command(number, seconds, options)
        chosen: dict[str, rota.Task[..., Any]] = {"block": self.block, "stumble": tasks.stumble, "linger": self.linger}
        task = chosen[kind]
        return await task.submit(number=number, seconds=seconds, **options)

    def stop(self) -> None:
        self.stopped_at = time.monotonic()
        self.stopping.set()


async def main() -> None:
    os.chdir(sys.argv[1])
    load = Load(Path(sys.argv[1]), PROFILES[sys.argv[2]])
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, load.stop)
    await load.run()


if __name__ == "__main__":
    asyncio.run(main())
