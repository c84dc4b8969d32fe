"""Real nodes in processes of their own, on one file."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import rota
from rota.model.lifecycle import State
from rota.model.node import NodeInfo
from tests.node.orphans import Orphans
from tests.node.running import LONG

APP = '''
import asyncio, os, signal, time
import rota

app = rota.App()


def witness(ctx, word):
    """What really happened, outside rota: one line per event, appended whole."""
    with open("witness", "a") as file:
        file.write(f"{time.time()} {ctx.job.id} {ctx.fence} {os.getpid()} {word}\\n")


@app.task(retry=rota.Retry(3, backoff="10ms"))
async def work(seconds: float, ctx: rota.Context) -> int:
    witness(ctx, "start")
    await asyncio.sleep(seconds)
    witness(ctx, "end")
    return ctx.fence


@app.task
def block(seconds: float, ctx: rota.Context) -> int:
    witness(ctx, "start")
    time.sleep(seconds if ctx.attempt == 1 else 0)
    witness(ctx, "end")
    return ctx.fence


@app.task
def poison() -> None:
    """Kills its node, from wherever it runs."""
    pid = os.getpid()
    while b"\\0up\\0" not in open(f"/proc/{pid}/cmdline", "rb").read():
        pid = int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
    os.kill(pid, signal.SIGKILL)
    time.sleep(60)
'''


class Cluster:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store_url = f"sqlite:///{folder / 'rota.db'}"
        (folder / "chaos_app.py").write_text(APP)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.expected_dead: set[str] = set()
        self.settings: dict[str, str] = {}  # of nodes that are launched from now on
        self.app = rota.App(self.store_url)
        self._orphans = Orphans()

        # The client's side of the tasks: the code is not needed in order to submit.
        @self.app.task(retry=rota.Retry(3, backoff="10ms"))
        async def work(seconds: float) -> None: ...

        @self.app.task
        def block(seconds: float) -> None: ...

        @self.app.task
        def poison() -> None: ...

        self.work, self.block, self.poison = work, block, poison

    async def start(self, name: str, *options: str) -> None:
        """Back when the node is up."""
        await self.launch(name, *options)
        await self.until(lambda: self._is_up(name), f"{name} to come up")

    async def launch(self, name: str, *options: str) -> None:
        environment = {**os.environ, "ROTA_STORE": self.store_url, **self.settings}
        command = [sys.executable, "-m", "rota", "up", "--app", "chaos_app:app", "--node", name, *options]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(command, cwd=self.folder, env=environment, stderr=log)

    async def _is_up(self, name: str) -> bool:
        return any(node.id == name and not node.gone for node in await self.nodes())

    async def nodes(self) -> list[NodeInfo]:
        return await (await self.app._core.client()).store.nodes(self.app._core.who)

    async def until(self, true: Callable[[], Awaitable[bool]], what: str) -> None:
        """Asks until it is so. The nodes are other processes: there is no event of theirs to wait for but the store."""
        async with asyncio.timeout(LONG):
            while not await true():
                for name, process in self.processes.items():
                    if name not in self.expected_dead and process.poll() not in (None, -signal.SIGKILL, 0):
                        raise AssertionError(f"{name} ended while waiting for {what}: {self.log(name)}")
                await asyncio.sleep(0.02)

    async def holder(self, job: rota.Job[Any]) -> str:
        """The node that runs the job, once one does."""

        async def running() -> bool:
            info = await job.info()
            return info.state is State.RUNNING and info.started_at is not None

        await self.until(running, "the job to start")
        return (await job.info()).node or ""

    async def witnessed(self, job: rota.Job[Any], word: str) -> None:
        async def seen() -> bool:
            return any(words[1] == job.id and words[4] == word for words in self.witness())

        await self.until(seen, f"{word} of {job.id}")

    def witness(self) -> list[list[str]]:
        path = self.folder / "witness"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def signal(self, name: str, number: signal.Signals) -> None:
        self.processes[name].send_signal(number)

    async def ended(self, name: str) -> int:
        self.expected_dead.add(name)
        return await asyncio.to_thread(self.processes[name].wait, LONG + 20)

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def leftovers(self) -> list[str]:
        """Processes that live: nodes, keepers, wardens, those for functions, commands."""
        return self._orphans.left([process.pid for process in self.processes.values()])

    async def close(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()
        self._orphans.close()
        await self.app.close()
