"""Everything a node runs jobs with: the keeper for commands, processes for functions; HTTP calls are its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from rota import config
from rota.config import Settings
from rota.errors import RotaError
from rota.model.times import SECOND
from rota.tasks.catalogue import Catalogue
from rota.telemetry.events import Bus
from rota.work.attempt import Executor
from rota.work.executors.command import CommandExecutor
from rota.work.executors.function import FunctionExecutor
from rota.work.functions.in_node import InNodeThreads
from rota.work.functions.processes import Processes
from rota.work.keeper.client import KeeperClient, SpawnError
from rota.work.keeper.kernel import hide
from rota.work.output import Drain


class Runtime(Protocol):
    @property
    def executors(self) -> Mapping[str, Executor]: ...

    async def start(self) -> None: ...

    def able(self) -> Sequence[str]:
        """The kinds of jobs that could begin now; other kinds are left to other nodes."""

    def watch(self, more: Callable[[], None]) -> None:
        """Calls `more` when more kinds become able."""

    def guard(self, guards: Sequence[int]) -> None:
        """Makes every process of the runtime hold these descriptors; no effect if they do already."""

    def extend(self, deadline: float | None) -> None:
        """Sets the end of the node's lease; None: no process is left that could outlive it."""

    async def close(self, stuck: bool = False) -> None:
        """Kills all processes and waits until they are gone. With `stuck` the lease stays guarded: a function in this
        process does not stop, and must not outlive it."""


MakeRuntime = Callable[[Sequence[int]], Runtime]


class ProcessRuntime:
    """The real runtime. Every process of it holds `guards`, so that their owner is seen to live until all are gone."""

    def __init__(self, catalogue: Catalogue, settings: Settings, guards: Sequence[int], bus: Bus | None = None) -> None:
        from rota.work.executors.http import HttpExecutor  # programs that only order jobs need not wait for it

        self._keeper = KeeperClient(guards, cgroup=settings.command_cgroup)
        drain = Drain()
        self._processes: Processes | None = None
        self._in_node: InNodeThreads | None = None
        grace = settings.kill_grace / SECOND
        self._commands = CommandExecutor(self._keeper, settings, config.variables(), drain)
        self.executors: dict[str, Executor] = {
            "command": self._commands,
            "http": HttpExecutor.of(settings),
        }
        # A node without functions doesn't claim any: nodes that have them will.
        if len(catalogue):
            self._in_node = InNodeThreads(settings.max_result)
            self._processes = Processes(self._keeper, catalogue, settings, drain, bus or Bus())
            self.executors["function"] = FunctionExecutor(catalogue, self._in_node, grace, self._processes)

    async def start(self) -> None:
        """Raises RotaError; a node that lacks a resource now may try again."""
        hide()  # commands may run as the same user, and must not read secrets of this process
        await asyncio.to_thread(self._commands.check)  # a name service may be remote
        try:
            await self._keeper.start()
            if self._processes:
                await self._processes.start()
        except SpawnError as error:
            raise RotaError(str(error)) from None

    def able(self) -> Sequence[str]:
        return [kind for kind in self.executors if kind != "function" or not self._processes or self._processes.able]

    def watch(self, more: Callable[[], None]) -> None:
        if self._processes:
            self._processes.watch(more)

    def guard(self, guards: Sequence[int]) -> None:
        self._keeper.guard(guards)

    def extend(self, deadline: float | None) -> None:
        self._keeper.extend(deadline)

    async def close(self, stuck: bool = False) -> None:
        if self._processes:
            await self._processes.close()
        if stuck:
            await self._keeper.kill_all()
            return  # the keeper goes when this process does
        await self._keeper.close()
        if self._in_node:
            self._in_node.close()
