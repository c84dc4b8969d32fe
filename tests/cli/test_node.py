"""`rota node check`, which probes call, and what `rota up` tells systemd."""

from __future__ import annotations

import signal
import socket

import pytest

from tests.cli.program import LONG, Rota, refused


def test_a_node_is_checked_while_it_lives_and_after(rota: Rota, capsys: pytest.CaptureFixture[str]) -> None:
    node = rota.up("--node", "web-1")
    assert rota.ok("node", "check", "web-1") == "node web-1 is live"
    assert rota.json("node", "check", "web-1") == {"id": "web-1", "state": "live"}
    named = rota("node", "check", env={"ROTA_NODE": "web-1"})
    assert (named.returncode, named.stdout) == (0, "node web-1 is live\n")
    node.signal(signal.SIGKILL)
    node.end()
    assert rota.here("node", "check", "web-1") == (1, "node web-1 is gone")
    assert rota.here("node", "check", "web-2") == (1, "node web-2 is not there")
    assert "its id, as an argument or in ROTA_NODE" in refused(rota, capsys, "node", "check")


def test_systemd_is_told_when_the_node_is_up_and_when_it_stops(rota: Rota) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(LONG)
        manager.bind(str(rota.folder / "notify"))
        node = rota.start("up", "--node", "web-1", NOTIFY_SOCKET=str(rota.folder / "notify"))
        assert manager.recv(1000) == b"READY=1\nSTATUS=node web-1 is up"
        node.signal()
        assert manager.recv(1000).startswith(b"STOPPING=1\n")
        assert node.end() == 0
