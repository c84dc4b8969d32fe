"""The client of runs with schedules, a process of its own: `python -m tests.chaos.timetable FOLDER COUNT SECONDS`.

It saves so many schedules whose every fire must be made, half of them from now on and half from an instant that it
names, all until the same one. Then it pauses, resumes and changes a few others the whole time, and writes down what it
was told. It ends after the last fire, or by SIGTERM.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sys
import time
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.chaos import app as tasks
from tests.chaos.fires import PAUSE, RESUME, SAVE, UNIX, Deed, write
from tests.chaos.rules import SECOND, Rule, Saying, every, saying

# All must be saved by the time the first of those begin that have one.
BEFORE = 8
# What the cluster takes for warming up, and a little for the last faults.
BESIDE = 22
RACERS = 5
# Between two calls about one schedule.
PAUSES = (0.1, 0.4, 0.7, 1.1, 2.3)
# Mostly nothing; some take long enough to be hit.
DURATIONS = (0.0, 0.0, 0.0, 0.05, 0.3)


def wall() -> int:
    return time.time_ns() // 1_000


def moment(instant: int) -> str:
    return (UNIX + timedelta(microseconds=instant)).isoformat()


class Timetable:
    def __init__(self, folder: Path, count: int, seconds: float) -> None:
        self._count = count
        self._start = wall() // SECOND * SECOND + BEFORE * SECOND
        self._end = self._start + round(seconds + BESIDE) * SECOND
        self._deeds = (folder / "deeds").open("a", buffering=1)
        (folder / "end").write_text(str(self._end))
        self.stopping = asyncio.Event()

    async def run(self) -> None:
        await tasks.app._core.client()
        racers = [
            asyncio.create_task(self._race(number)) for number in range(self._count + 1, self._count + RACERS + 1)
        ]
        for number in range(1, self._count + 1):
            await self._save(f"sure-{number}", number, saying(number), self._start if number % 2 else None, sure=True)
        await asyncio.gather(*racers)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.stopping.wait(), max(0.0, (self._end - wall()) / SECOND))
        await tasks.app.close()

    async def _race(self, number: int) -> None:
        name, paused = f"racer-{number}", False
        await self._save(name, number, every(1, random.randrange(1_000)), None, sure=False)
        while wall() < self._end - SECOND and not self.stopping.is_set():
            await asyncio.sleep(random.choice(PAUSES))
            verb = random.choice((RESUME if paused else PAUSE, RESUME if paused else PAUSE, SAVE))
            if verb == SAVE:
                rule = every(random.choice((1, 1, 2)), random.randrange(1_000))
                await self._save(name, number, rule, None, sure=False)
            elif await self._tell(name, verb):
                paused = verb == PAUSE

    async def _tell(self, name: str, verb: str) -> bool:
        planning = await tasks.app._core.planning()
        call = planning.pause(name, "chaos") if verb == PAUSE else planning.resume(name)
        return await self._ask(name, verb, call, None, sure=False)

    async def _save(self, name: str, number: int, said: Saying, start: int | None, sure: bool) -> None:
        asked = wall()
        rule = Rule(said.period, said.phase, start or asked, self._end)
        args = {
            "number": number, "schedule": name, "fire": "{fire_time}", "seconds": random.choice(DURATIONS),
        }  # fmt: skip
        words: dict[str, Any] = {**said.words, "catch_up": "all", "catch_up_max": 10_000, "end": moment(self._end)}
        if start is not None:
            words["start"] = moment(start)
        await self._ask(name, SAVE, tasks.app.schedule(name, tasks.tick, args=args, **words), rule, sure)

    async def _ask(self, name: str, verb: str, call: Coroutine[Any, Any, Any], rule: Rule | None, sure: bool) -> bool:
        asked = wall()
        try:
            await call
        except Exception as error:
            ok = False
            print(f"{datetime.now(UTC)} {name} {verb}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        else:
            ok = True
        self._deeds.write(write(Deed(name, verb, asked, wall(), ok, rule, sure)) + "\n")
        return ok


async def main() -> None:
    os.chdir(sys.argv[1])
    timetable = Timetable(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, timetable.stopping.set)
    await timetable.run()


if __name__ == "__main__":
    asyncio.run(main())
