"""Functions in the node's own process: the engine on a loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator

import pytest

import rota
from rota.clock import SystemClock
from rota.logs.shipper import Sink
from rota.model.job import Claimed, Ref
from rota.model.outcome import Failed, Outcome, SetAside, Succeeded
from rota.work.attempt import Attempt, Stop, Stuck
from rota.work.functions.assignment import Assignment
from rota.work.functions.in_node import InNodeThreads
from tests.node.running import LONG
from tests.work.books import shut_book


class Stage:
    """Functions that tell what they do, and the means to run them."""

    def __init__(self, in_node: InNodeThreads) -> None:
        self.in_node = in_node
        self.app = rota.App("sqlite:///:memory:")
        self.begun, self.release = threading.Event(), threading.Event()
        self.ran: list[str] = []

        @self.app.task
        async def never() -> None:
            self.ran.append("never")

        @self.app.task
        async def blocks() -> None:
            self.begun.set()
            self.release.wait(LONG)

        @self.app.task
        def sync(number: int = 0) -> int:
            self.ran.append("sync")
            return number

        @self.app.task
        def looks(ctx: rota.Context) -> str:
            self.begun.set()
            while not ctx.cancelled:
                time.sleep(0.001)
            return "stopped in peace"

        @self.app.task
        def spins() -> None:
            self.begun.set()
            while True:
                time.sleep(0.001)

        @self.app.task
        def deaf() -> None:
            self.begun.set()
            self.release.wait(LONG)

    def add(self, task: str, args: str = "{}", grace: float = LONG) -> Assignment:
        claimed = Claimed("job", 1, "local", "default", "function", task, 5, 0, 1, 0, 0, "{}", args, "{}", None)
        sink = Sink(Ref("job", 1), 100, SystemClock().now, lambda _: None)
        attempt = Attempt(claimed, sink, shut_book(), SystemClock())
        assignment = Assignment(attempt, self.app._core.catalogue.get(task), (), grace)
        self.in_node.add(assignment)
        return assignment

    async def until_begun(self) -> None:
        assert await asyncio.to_thread(self.begun.wait, LONG)


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    in_node = InNodeThreads(1_000)
    stage = Stage(in_node)
    yield stage
    stage.release.set()
    in_node.close()


async def ended(assignment: Assignment) -> Outcome:
    return await asyncio.wait_for(assignment.future, LONG)


async def test_a_call_that_is_cancelled_before_it_begins_still_ends(stage: Stage) -> None:
    first = stage.add("blocks")
    await stage.until_begun()
    second = stage.add("never")
    second.stop(Stop.CANCEL)
    stage.release.set()
    assert await ended(first) == Succeeded()
    assert isinstance(await ended(second), Failed)
    assert stage.ran == []


async def test_a_sync_function_does_not_wait_for_the_loop(stage: Stage) -> None:
    stage.add("blocks")
    await stage.until_begun()
    assert await ended(stage.add("sync", '{"number": 3}')) == Succeeded("3")


async def test_arguments_that_do_not_fit_set_the_job_aside(stage: Stage) -> None:
    assert isinstance(await ended(stage.add("sync", '{"number": "many"}')), SetAside)
    assert stage.ran == []


async def test_a_function_with_a_context_is_asked_first(stage: Stage) -> None:
    assignment = stage.add("looks")
    await stage.until_begun()
    assignment.stop(Stop.CANCEL)
    assert await ended(assignment) == Succeeded('"stopped in peace"')


async def test_a_function_without_one_gets_the_exception_at_once(stage: Stage) -> None:
    assignment = stage.add("spins")
    await stage.until_begun()
    assignment.stop(Stop.CANCEL)
    outcome = await ended(assignment)
    assert isinstance(outcome, Failed)
    assert outcome.problem.type == "asyncio.exceptions.CancelledError"


@pytest.mark.parametrize("reason", [Stop.CANCEL, Stop.LOST])
async def test_a_function_that_does_not_stop_is_stuck_until_it_ends(stage: Stage, reason: Stop) -> None:
    assignment = stage.add("deaf", grace=0.05)
    await stage.until_begun()
    assignment.stop(reason)
    with pytest.raises(Stuck) as stuck:
        await ended(assignment)
    assert not stuck.value.over.is_set()
    stage.release.set()
    await asyncio.wait_for(stuck.value.over.wait(), LONG)
