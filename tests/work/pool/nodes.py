"""A node with the functions of `app`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import rota
from rota.model.job import JobInfo
from tests.node.running import LONG, Probe, running
from tests.work.pool import app as tasks


@asynccontextmanager
async def node(folder: Path, **settings: Any) -> AsyncIterator[Probe]:
    given = {"kill_grace": "400ms", "queues": "default:8", "warm_processes": 2, "pool_jobs": 1000, "crash_limit": 3}
    tasks.app.configure(store=f"sqlite:///{folder / 'rota.db'}", **{**given, **settings})
    async with running(tasks.app) as (_, probe):
        yield probe


async def until(true: Callable[[], bool]) -> None:
    """What other processes do shows in files only."""
    async with asyncio.timeout(LONG):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def run(job: Awaitable[rota.Job]) -> JobInfo:
    return await (await job).wait(LONG)


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
