from __future__ import annotations

import socket
from pathlib import Path

from rota.telemetry.events import NodeHurried, NodeStarted, NodeStopped, NodeStopping
from rota.telemetry.systemd import SystemdNotifier

STARTED = NodeStarted("a", ("worker",), {}, "sqlite:///rota.db", 0)


def test_start_and_stop_are_told_and_nothing_else() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("")  # the kernel chooses an abstract address
        notifier = SystemdNotifier("@" + manager.getsockname()[1:].decode())
        for event in (STARTED, NodeHurried(2), NodeStopping(2, 30.0), NodeStopped("a")):
            notifier(event)
        assert manager.recv(1000) == b"READY=1\nSTATUS=node a is up"
        assert manager.recv(1000) == b"STOPPING=1\nSTATUS=2 running jobs may finish"
        assert manager.recv(1000) == b"STOPPING=1\nSTATUS=node a has stopped"


def test_a_manager_that_is_away_is_no_error(tmp_path: Path) -> None:
    SystemdNotifier(str(tmp_path / "nobody"))(STARTED)
