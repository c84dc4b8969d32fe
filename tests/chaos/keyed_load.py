"""The client of runs with limits, a process of its own: `python -m tests.chaos.keyed_load FOLDER PROFILE SECONDS`,
until SIGTERM. It keeps a line of jobs before each key, and changes one of the limits the whole time if that is its
profile.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.chaos import app as tasks
from tests.chaos.keys import AT_ONCE, CHANGES, LANE, MUTEXES, PAIR, POOL, STARTS, Change, write
from tests.chaos.load import ANSWER_LIMIT, PERIOD, REFUSALS
from tests.chaos.told import ASKED, HUNG, OK, REFUSED, UNKNOWN, Book
from tests.chaos.witness import END, Reader

WIDTHS = (1, 2, 3, 4, 5)
BLOCKING = 0.25


@dataclass(frozen=True)
class Profile:
    lines: tuple[tuple[str, ...], ...]  # jobs that need these keys together
    outstanding: int  # so many of each have not ended, by the word of the witness
    durations: tuple[float, ...]
    changing: bool = False


PROFILES = {
    "limits": Profile(
        (*((key,) for key in MUTEXES), (POOL,), (LANE,), *((key,) for key in PAIR), PAIR), 6, (0.1, 0.2, 0.4, 0.8), True
    ),
    "rates": Profile(tuple((key,) for key in STARTS), 60, (0.0, 0.0, 0.05)),
}


class KeyedLoad:
    def __init__(self, folder: Path, profile: Profile) -> None:
        self._profile = profile
        self._book, self._witness = Book(folder / "told"), Reader(folder / "witness")
        self._changes = (folder / CHANGES).open("a", buffering=1)
        self._number, self._seen = 0, 0
        self._left: Counter[tuple[str, ...]] = Counter()  # of each line, what has not ended
        self._line_of: dict[int, tuple[str, ...]] = {}
        self.stopping = asyncio.Event()

    async def run(self) -> None:
        await tasks.app._core.client()
        changing = asyncio.create_task(self._change()) if self._profile.changing else None
        while not self.stopping.is_set():
            self._count()
            missing = [
                line for line in self._profile.lines for _ in range(self._profile.outstanding - self._left[line])
            ]
            await asyncio.gather(*map(self._ask, missing))
            with suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), PERIOD)
        if changing:
            await changing
        await tasks.app.close()

    def _count(self) -> None:
        lines = self._witness.read()
        ended = {line.number for line in lines[self._seen :] if line.word == END}
        self._seen = len(lines)
        for number in ended:
            if number in self._line_of:
                self._left[self._line_of.pop(number)] -= 1

    async def _change(self) -> None:
        """While the key is held: that is what it is about."""
        admissions = await tasks.app.admissions()
        while not self.stopping.is_set():
            width, asked, ok = random.choice(WIDTHS), time.monotonic(), True
            try:
                await admissions.set_limit(LANE, at_once=width)
            except Exception as error:
                ok = False
                print(f"{LANE} {width}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            self._changes.write(write(Change(LANE, width, asked, time.monotonic(), ok)) + "\n")
            with suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), random.uniform(0.3, 2.0))

    async def _ask(self, line: tuple[str, ...]) -> None:
        self._number += 1
        number, at = self._number, time.monotonic()
        self._book.write(word=ASKED, number=number, at=at, kind="+".join(line), keyed=False, due=None)
        self._line_of[number] = line
        self._left[line] += 1
        try:
            async with asyncio.timeout(ANSWER_LIMIT):
                job_id = await self._submit(number, line)
        except REFUSALS as error:
            word, why = REFUSED, f"{type(error).__name__}: {error}"
        except TimeoutError:
            word, why = HUNG, f"no answer within {ANSWER_LIMIT:.0f} s"
        except Exception as error:
            word, why = UNKNOWN, f"{type(error).__name__}: {error}"
        else:
            self._book.write(word=OK, number=number, id=job_id)
            return
        if number in self._line_of:  # one that may be there or not is not waited for
            self._left[self._line_of.pop(number)] -= 1
        self._book.write(word=word, number=number, why=why)

    async def _submit(self, number: int, line: tuple[str, ...]) -> str:
        limits: dict[str, Any] = {key: AT_ONCE[key] if key in AT_ONCE else _rate(key) for key in line}
        task = tasks.block if random.random() < BLOCKING else tasks.linger
        seconds = random.choice(self._profile.durations)
        return (await task.options(limits=limits).submit(number=number, seconds=seconds, keys=list(line))).id


def _rate(key: str) -> str:
    allowed, window = STARTS[key]
    return f"{allowed}/{window:g}s"


async def main() -> None:
    os.chdir(sys.argv[1])
    load = KeyedLoad(Path(sys.argv[1]), PROFILES[sys.argv[2]])
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, load.stopping.set)
    await load.run()


if __name__ == "__main__":
    asyncio.run(main())
