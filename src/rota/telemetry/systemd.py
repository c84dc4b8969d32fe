"""Tells systemd how far a node is (`Type=notify`): a unit is started once its node has joined."""

from __future__ import annotations

import socket
from contextlib import suppress

from rota.telemetry.events import Event, NodeStarted, NodeStopped, NodeStopping


class SystemdNotifier:
    """A subscriber that sends the state to the socket that `NOTIFY_SOCKET` names."""

    def __init__(self, address: str) -> None:
        self._address = "\0" + address[1:] if address.startswith("@") else address  # @: an abstract socket

    def __call__(self, event: Event) -> None:
        match event:
            case NodeStarted(id):
                self._send(f"READY=1\nSTATUS=node {id} is up")
            case NodeStopping(running):
                self._send(f"STOPPING=1\nSTATUS={running} running jobs may finish")
            case NodeStopped(id):  # a node without running jobs stops at once
                self._send(f"STOPPING=1\nSTATUS=node {id} has stopped")

    def _send(self, text: str) -> None:
        with (
            suppress(OSError),  # a service manager that is away is no reason to fail
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK) as way,
        ):
            way.sendto(text.encode(), self._address)
