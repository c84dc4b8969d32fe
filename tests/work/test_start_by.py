"""An attempt that must begin by some instant: whether it is too late is asked where its work really begins."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import rota
from rota.clock import ManualClock
from rota.config import load
from rota.logs.shipper import Sink
from rota.model.job import Claimed, Ref, Spec
from rota.model.outcome import Interrupted, Succeeded
from rota.work.attempt import TOO_LATE, Attempt
from rota.work.executors.command import CommandExecutor
from rota.work.executors.function import FunctionExecutor
from rota.work.functions.in_node import InNodeThreads
from rota.work.keeper.client import KeeperClient
from rota.work.keeper.connection import KeeperConnection
from rota.work.output import Drain
from tests.work.books import shut_book

LATE = Interrupted(TOO_LATE)


def attempt(clock: ManualClock, spec: Spec, task: str = "", start_by: float | None = 1.0) -> Attempt:
    claimed = Claimed("job", 1, "local", "default", spec.kind, task, 5, 0, 1, 0, 0, spec.body, "{}", "{}", None)
    made = Attempt(claimed, Sink(Ref("job", 1), 1_000, clock.now, lambda _: None), shut_book(), clock)
    made.start_by = start_by
    return made


def call_of(clock: ManualClock, task: str, start_by: float | None = 1.0) -> Attempt:
    return attempt(clock, Spec.function(task), task, start_by)


@pytest.fixture
async def in_node() -> AsyncIterator[InNodeThreads]:
    in_node = InNodeThreads(1_000)
    yield in_node
    in_node.close()


class Neighbourhood:
    """An app with a function that blocks the loop of all others until it is told to go on."""

    def __init__(self) -> None:
        self.app = rota.App("sqlite:///:memory:")
        self.ran: list[str] = []
        self._blocks, self._go_on = threading.Event(), threading.Event()

        @self.app.task
        async def blocker() -> None:
            self._blocks.set()
            self._go_on.wait(20)

        @self.app.task
        async def call() -> None:
            self.ran.append("call")

        @self.app.task
        def call_sync() -> None:
            self.ran.append("call_sync")

    async def blocks(self) -> None:
        await asyncio.to_thread(self._blocks.wait, 20)

    def go_on(self) -> None:
        self._go_on.set()


@pytest.mark.parametrize("late", [True, False])
async def test_a_function_behind_a_neighbour_that_blocks_their_loop(
    clock: ManualClock, in_node: InNodeThreads, late: bool
) -> None:
    there = Neighbourhood()
    executor = FunctionExecutor(there.app._core.catalogue, in_node, 1.0)
    async with asyncio.TaskGroup() as group:
        neighbour = group.create_task(executor.execute(call_of(clock, "blocker", None)))
        await there.blocks()
        asked = group.create_task(executor.execute(call_of(clock, "call")))
        await asyncio.sleep(0)  # it is on its way
        clock.advance(1.1 if late else 0.9)
        there.go_on()
    assert neighbour.result() == Succeeded()
    assert (asked.result(), there.ran) == ((LATE, []) if late else (Succeeded(), ["call"]))


@pytest.mark.parametrize("late", [True, False])
async def test_a_function_in_a_thread_of_its_own(clock: ManualClock, in_node: InNodeThreads, late: bool) -> None:
    there = Neighbourhood()
    clock.advance(1.1 if late else 0.9)
    outcome = await FunctionExecutor(there.app._core.catalogue, in_node, 1.0).execute(call_of(clock, "call_sync"))
    assert (outcome, there.ran) == ((LATE, []) if late else (Succeeded(), ["call_sync"]))


class SlowKeeper(KeeperClient):
    """It takes a while before it can be asked."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock, self.seconds = clock, 0.0

    async def _ready(self) -> KeeperConnection:
        link = await super()._ready()
        self._clock.advance(self.seconds)
        return link


@pytest.mark.parametrize("late", [True, False])
async def test_a_command_whose_keeper_is_slow(clock: ManualClock, tmp_path: Path, late: bool) -> None:
    keeper = SlowKeeper(clock)
    await keeper.start()
    keeper.seconds = 1.1 if late else 0.9
    try:
        trace = tmp_path / "ran"
        executor = CommandExecutor(keeper, load(environment={}), {"PATH": "/usr/bin:/bin"}, Drain())
        outcome = await executor.execute(attempt(clock, Spec.command(["touch", str(trace)])))
        assert (outcome, trace.exists()) == ((LATE, False) if late else (Succeeded(exit_code=0), True))
    finally:
        await keeper.close()
