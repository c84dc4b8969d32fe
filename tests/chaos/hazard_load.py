"""The client of runs in which executors crash, a process of its own: `python -m tests.chaos.hazard_load FOLDER PROFILE
SECONDS`, until SIGTERM. Good jobs of all kinds, and some that crash what they run in: now and then, or always.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

import rota
from tests.chaos import hazards
from tests.chaos.crash_checker import POISON
from tests.chaos.load import Load, Profile
from tests.chaos.witness import TICK

# How many of a hundred. What crashes beside others takes all of them along, so there is little of it.
KINDS = {"labour": 22, "attend": 14, "persevere": 28, "litter": 6, "command": 18, "shadow": 6, "moody": 4, POISON: 2}
CALM = {"labour": 22, "attend": 16, "persevere": 28, "litter": 10, "command": 16, "shadow": 8}
PROFILES = {"crashing": KINDS, "calm": CALM}
TASKS = {"labour": hazards.labour, "attend": hazards.attend, "persevere": hazards.persevere, "litter": hazards.litter}
MANNERS = tuple(hazards.CRASHES)
ALWAYS = 1_000
# Nothing here fails, so there is nothing to try again: what runs a second time does so because of a crash.
NO_RETRY = rota.Retry(0)


class HazardLoad(Load):
    def __init__(self, folder: Path, kinds: dict[str, int]) -> None:
        super().__init__(folder, Profile(rate=12.0, durations=(0.2, 0.5, 1.0, 1.5, 2.0)))
        self._kinds = kinds

    def kind(self) -> str:
        return random.choices(list(self._kinds), list(self._kinds.values()))[0]

    async def submit(self, number: int, kind: str, seconds: float, options: dict[str, Any]) -> rota.Job[Any]:
        options = {**options, "retry": NO_RETRY}
        if kind in ("command", "shadow"):
            return await self.command(number, seconds, options, *(["shadow"] if kind == "shadow" else []))
        if kind in TASKS:
            return await TASKS[kind].submit(number=number, steps=round(seconds / TICK), **options)
        # By its number, so that one which is repeated is the same order.
        task = hazards.crash_beside if number % 2 else hazards.crash
        times = ALWAYS if kind == POISON else 1 + number // 2 % 2
        return await task.submit(number=number, how=MANNERS[number % len(MANNERS)], times=times, **options)


async def main() -> None:
    os.chdir(sys.argv[1])
    load = HazardLoad(Path(sys.argv[1]), PROFILES[sys.argv[2]])
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, load.stop)
    await load.run()


if __name__ == "__main__":
    asyncio.run(main())
