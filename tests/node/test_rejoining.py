"""A node that has lost its lease joins again, also when it is short of something at that moment."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from rota.model.lifecycle import State
from rota.telemetry.events import ServiceFailed
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
