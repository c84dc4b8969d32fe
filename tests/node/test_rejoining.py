"""A node that has lost its lease joins again, also when it is short of something at that moment."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from rota.clock import SystemClock
from rota.model.lifecycle import State
from rota.telemetry.events import LeaseLost, NodeStarted, ServiceFailed
from rota.work.keeper import client
from tests.node.running import LONG, make_app, running


async def test_a_node_without_descriptors_tries_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_: Any) -> Any:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    app = make_app(tmp_path)
    async with running(app) as (node, probe):
        with monkeypatch.context() as patched:
            patched.setattr(client, "KeeperConnection", none_left)
            assert node._session is not None
            node._session._lose("for the test")
            failed = await probe.until(ServiceFailed, lambda event: event.service == "joining")
        assert failed.error == "the keeper can't be started: Too many open files"
        job = await app.submit_command(["true"])
        assert (await job.wait(LONG)).state is State.SUCCEEDED


class Leaping(SystemClock):
    ahead = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


async def test_a_node_that_needed_long_to_join_has_a_whole_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its keeper would kill it at once otherwise."""
    app = make_app(tmp_path)
    clock = app._core.clock = Leaping()
    store = (await app._core.client()).store
    register = store.register

    async def slow(*args: Any) -> None:
        await register(*args)
        clock.ahead += 20.0

    monkeypatch.setattr(store, "register", slow)
    async with running(app) as (_, probe):
        await probe.until(NodeStarted)
        job = await app.submit_command(["true"])
        assert (await job.wait(LONG)).state is State.SUCCEEDED
        assert not any(isinstance(event, LeaseLost) for event in probe.seen)
