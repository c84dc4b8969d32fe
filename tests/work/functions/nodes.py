"""A node with the functions of `app`."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import rota
from rota.model.job import JobInfo
from tests.node.running import LONG, Probe, running
from tests.work.functions import app as tasks


@asynccontextmanager
async def node(folder: Path, app: rota.App = tasks.app, **settings: Any) -> AsyncIterator[Probe]:
    given = {"kill_grace": "400ms", "queues": "default:8", "warm_processes": 2}
    app._core._given = {}  # what an earlier test has set
    app.configure(store=f"sqlite:///{folder / 'rota.db'}", **{**given, **settings})
    async with running(app) as (_, probe):
        yield probe


async def until(true: Callable[[], bool]) -> None:
    """What other processes do shows in files only."""
    async with asyncio.timeout(LONG):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def run(job: Awaitable[rota.Job[Any]]) -> JobInfo:
    return await (await job).wait(LONG)


def fork_servers() -> set[int]:
    """Below this process: a node of ours has one, or two for a moment."""
    parents: dict[int, int] = {}
    found: set[int] = set()
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit():
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                if b"rota.work.functions.fork_server" in (entry / "cmdline").read_bytes():
                    found.add(int(entry.name))
    return {pid for pid in found if parents.get(parents.get(parents[pid], 0), 0) == os.getpid()}


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


async def pause(pid: int) -> None:
    """Returns when the process stands still. Until then it may still receive an order."""
    os.kill(pid, signal.SIGSTOP)
    await until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
