"""The client of runs with workflows, a process of its own: `python -m tests.chaos.graph_load FOLDER RATE SECONDS`,
until SIGTERM. It orders so many random workflows a second, and writes down each before it asks.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import rota
from tests.chaos import app as tasks
from tests.chaos import graphs
from tests.chaos.graphs import Step
from tests.chaos.load import ANSWER_LIMIT, REFUSALS
from tests.chaos.told import ASKED, HUNG, OK, REFUSED, UNKNOWN, Book

# Jobs of others that a workflow may wait for.
REMEMBERED = 100


class GraphLoad:
    def __init__(self, folder: Path, rate: float) -> None:
        self._rate = rate
        self._book = Book(folder / "told")
        self._plan = (folder / graphs.PLAN).open("a")
        self._number = 1
        self._known: dict[int, rota.Job[Any]] = {}
        self.stopping = asyncio.Event()

    async def run(self) -> None:
        await tasks.app._core.client()
        began, count = time.monotonic(), 0
        while not self.stopping.is_set():
            steps = graphs.plan(self._number, list(self._known))
            self._number += len(steps)
            await self._ask(steps)
            count += 1
            with suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), max(0.0, began + count / self._rate - time.monotonic()))
        await tasks.app.close()

    async def _ask(self, steps: list[Step]) -> None:
        self._plan.write(graphs.write(steps))
        self._plan.flush()
        at = time.monotonic()
        for step in steps:
            self._book.write(word=ASKED, number=step.number, at=at, kind="step", keyed=False, due=None)
        try:
            async with asyncio.timeout(ANSWER_LIMIT):
                jobs = await self._order(steps)
        except REFUSALS as error:
            self._told(steps, REFUSED, f"{type(error).__name__}: {error}")
        except TimeoutError:
            self._told(steps, HUNG, f"no answer within {ANSWER_LIMIT:.0f} s")
        except Exception as error:
            self._told(steps, UNKNOWN, f"{type(error).__name__}: {error}")
        else:
            for number, job in jobs.items():
                self._book.write(word=OK, number=number, id=job.id)
            self._known = dict([*self._known.items(), *jobs.items()][-REMEMBERED:])

    def _told(self, steps: list[Step], word: str, why: str) -> None:
        for step in steps:
            self._book.write(word=word, number=step.number, why=why)

    async def _order(self, steps: list[Step]) -> dict[int, rota.Job[Any]]:
        jobs: dict[int, rota.Job[Any]] = {}
        async with tasks.app.workflow("chaos") as flow:
            for step in steps:
                after = [(jobs.get(parent) or self._known[parent], need) for parent, need in step.parents]
                jobs[step.number] = flow.add(
                    tasks.step, number=step.number, seconds=step.seconds, fails=step.fails, after=after or None,
                    retry=0,
                )  # fmt: skip
        return jobs


async def main() -> None:
    os.chdir(sys.argv[1])
    load = GraphLoad(Path(sys.argv[1]), float(sys.argv[2]))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, load.stopping.set)
    await load.run()


if __name__ == "__main__":
    asyncio.run(main())
