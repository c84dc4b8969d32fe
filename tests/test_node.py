"""A node from start to stop, in this process: what it serves, how it goes, and what it leaves behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import rota
from rota.model.lifecycle import State
from rota.model.principal import SYSTEM
from rota.service import Service
from rota.store.forwarding import ForwardingStore
from rota.telemetry.events import NodeHurried, NodeStarted, NodeStopped, NodeStopping
from tests.node.running import LONG, make_app, running


async def test_it_says_who_it_is_and_leaves_nothing_behind(tmp_path: Path) -> None:
    app = make_app(tmp_path, queues="default:2,mail:1")

    @app.task
    async def hello() -> str:
        return "hi"

    async with running(app) as (_, probe):
        job = await hello.submit()
        assert await job.result(LONG) == "hi"
        store = (await app._core.client()).store
        (there,) = await store.nodes(SYSTEM)
        started = await probe.until(NodeStarted)
        assert (started.id, started.queues, started.tasks) == (there.id, {"default": 2, "mail": 1}, 1)
    assert [type(event) for event in probe.seen[-1:]] == [NodeStopped]
    async with app:
        store = (await app._core.client()).store
        assert await store.nodes(SYSTEM) == []
        assert [node.id for node in await store.nodes(SYSTEM, past=True)] == [there.id]


async def test_each_role_does_its_own_part(tmp_path: Path) -> None:
    """A control node runs no job; a worker beside it needs nobody else to find one."""
    app = make_app(tmp_path, roles="control")
    async with running(app) as (node, _):
        job = await app.submit_command(["true"])
        later = await app.submit_command(["true"], delay="1ms")
        while (await later.info()).state is State.SCHEDULED:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert [(await one.info()).state for one in (job, later)] == [State.READY, State.READY]
        assert node.running == 0
    worker = make_app(tmp_path, roles="worker")
    async with running(worker):
        assert (await rota.Job(worker, job.id).wait(LONG)).state is State.SUCCEEDED
        assert (await rota.Job(worker, later.id).wait(LONG)).state is State.SUCCEEDED


class Tended(ForwardingStore):
    """A store that needs a service."""

    name = "tending"
    tended: asyncio.Future[bool]

    def services(self, leads: Callable[[], bool]) -> Sequence[Service]:
        self._leads = leads
        return [self]

    async def tick(self) -> float:
        if self._leads() and not self.tended.done():
            self.tended.set_result(True)
        return 0.05


@pytest.mark.parametrize(("roles", "served"), [("control,worker", True), ("worker", False)])
async def test_a_control_node_runs_the_services_of_its_store(tmp_path: Path, roles: str, served: bool) -> None:
    """And lives with one that passes calls on."""
    app = make_app(tmp_path, roles=roles)
    node = await app.node()
    node.store = store = Tended.around(node.store)
    store.tended = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(node.run())
    job = await app.submit_command(["true"])
    assert (await job.wait(LONG)).state is State.SUCCEEDED
    if served:
        assert await asyncio.wait_for(store.tended, LONG)
    node.stop()
    await asyncio.wait_for(task, LONG)
    assert store.tended.done() is served
    await app.close()


async def test_asked_once_it_lets_its_work_finish(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    going, go_on = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    @app.task
    async def slow() -> str:
        loop.call_soon_threadsafe(going.set)
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_waited(go_on), loop))
        return "done"

    async with running(app) as (node, probe):
        job, waiting = await slow.submit(), await app.submit_command(["true"], delay="1h")
        async with asyncio.timeout(LONG):
            await going.wait()
        node.stop()
        await probe.until(NodeStopping, lambda event: event.running == 1)
        go_on.set()
        await probe.until(NodeStopped)
        assert not [event for event in probe.seen if isinstance(event, NodeHurried)]
    async with app:
        assert (await job.info()).result == "done"
        assert (await waiting.info()).state is State.SCHEDULED


async def _waited(event: asyncio.Event) -> None:
    await event.wait()


async def test_asked_twice_it_hands_its_work_back(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    going = asyncio.Event()
    loop = asyncio.get_running_loop()

    @app.task
    async def endless() -> None:
        loop.call_soon_threadsafe(going.set)
        await asyncio.Event().wait()

    async with running(app) as (node, probe):
        job = await endless.submit()
        async with asyncio.timeout(LONG):
            await going.wait()
        node.stop()
        node.stop()
        await probe.until(NodeStopped)
    async with app:
        info = await job.info()
        assert (info.state, info.failures, info.crashes) == (State.READY, 0, 0), "for another node, at once"
