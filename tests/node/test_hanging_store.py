"""A node whose store hangs: what can be tried again is, and what can't ends the node."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.errors import RotaError
from rota.logs.capture import captured
from rota.model.lifecycle import State
from rota.node import Node, StuckNode
from rota.store.base import Store
from rota.telemetry.events import AttemptEnded, AttemptStarted, LeaseLost, NodeGaveUp, ServiceStuck
from tests.node.running import LONG, Probe, make_app, running

pytestmark = pytest.mark.slow


class Hanging:
    """A store in which some calls never return."""

    def __init__(self, store: Store, **times: float) -> None:
        self._store, self.times = store, times

    def __getattr__(self, name: str) -> Any:
        if self.times.get(name, 0) <= 0:
            return getattr(self._store, name)

        async def hang(*_: Any) -> None:
            self.times[name] -= 1
            await asyncio.Event().wait()

        return hang


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("service.LIMIT", "node.LIMIT", "batching.PATIENCE", "logs.shipper.PATIENCE"):
        monkeypatch.setattr(f"rota.{place}", 0.3)
    monkeypatch.setattr("rota.node.LAST_WRITES", 0.3)


async def start(app: rota.App, **times: float) -> tuple[Node, Probe, asyncio.Task[None]]:
    probe = Probe()
    app._core.bus.subscribe(probe)
    node = await app.node()
    node.store = Hanging(node.store, **times)  # type: ignore[assignment]
    return node, probe, asyncio.create_task(node.run())


@pytest.mark.parametrize("call", ["claim", "finish", "append_output", "promote", "renew"])
async def test_a_call_that_hangs_now_and_then_is_made_again(
    tmp_path: Path, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.service.HOPELESS", 1_000)  # a slow machine may add hangs of its own
    app = make_app(tmp_path)
    with captured():
        node, probe, task = await start(app, **{call: 2})
        job = await app.submit_command(["echo", "hello"])
        assert (await job.wait(LONG)).state is State.SUCCEEDED
        assert await job.logs() == "hello\n"
        node.stop()
        await asyncio.wait_for(task, LONG)
        await app.close()
    assert not [event for event in probe.seen if isinstance(event, NodeGaveUp | LeaseLost)]


async def test_a_call_that_always_hangs_ends_the_node_and_others_take_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, other = make_app(tmp_path), make_app(tmp_path)
    with captured():
        _, probe, task = await start(app, claim=float("inf"))
        job = await app.submit_command(["echo", "hello"])
        with pytest.raises(StuckNode, match="has ended because its worker has hung 3 times in a row"):
            await asyncio.wait_for(task, LONG)
        assert len([event for event in probe.seen if isinstance(event, ServiceStuck)]) >= 3
        assert [event.why for event in probe.seen if isinstance(event, NodeGaveUp)] == [
            "its worker has hung 3 times in a row, for 0.3 s each"
        ]
        monkeypatch.undo()
        async with running(other):
            assert (await job.wait(LONG)).state is State.SUCCEEDED
        await app.close()


async def test_what_runs_on_a_node_that_gives_up_is_handed_back(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    with captured():
        node, probe, task = await start(app)
        job = await app.submit_command(["sleep", "1000"])
        await probe.until(AttemptStarted)
        node.store.times["promote"] = float("inf")  # type: ignore[attr-defined]
        await app.submit_command(["true"], delay="10ms")
        with pytest.raises(StuckNode, match="its promoter has hung"):
            await asyncio.wait_for(task, LONG)
        info = await job.info()
        assert (info.state, info.crashes) == (State.READY, 0)
        assert await probe.until(AttemptEnded, lambda event: event.outcome == "interrupted")
        await app.close()


async def test_a_store_that_never_answers_is_not_joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.node.JOIN_LIMIT", 0.3)
    app = make_app(tmp_path)
    with captured():
        _, _, task = await start(app, register=float("inf"))
        with pytest.raises(RotaError, match="could not join: the store has not answered"):
            await asyncio.wait_for(task, LONG)
        await app.close()


PROGRAM = """
import asyncio, sys, time
import rota, rota.service, rota.node
from rota.cli import main
from rota.store.sqlite import SqliteStore

async def claim(self, *_):
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass

SqliteStore.claim = claim
rota.service.LIMIT = rota.node.LAST_WRITES = 0.3
rota.service.Watchdog.PERIOD = 0.05
sys.exit(main.main())
"""


def test_the_program_ends_with_a_line_though_something_ignores_its_cancellation(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, "up", "--store", f"sqlite:///{tmp_path / 'rota.db'}", "--node", "n1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
    assert done.returncode == 1
    assert "node n1 gives up: its worker has hung for 0.3 s and can't be cancelled" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("rota: node n1 has ended because its worker has hung")
