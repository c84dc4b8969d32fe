"""Names to addresses, and the words for a connection that could not be made."""

from __future__ import annotations

import socket
import ssl
from typing import Any

from rota.daemon_thread import in_daemon_thread

Address = tuple[int, Any]  # a family, and an address as sockets know it


async def look_up(host: str, port: int) -> list[Address]:
    """Resolves a name in a thread of its own: a lookup can't be stopped, and must delay neither other lookups nor the
    end of this process."""

    def ask() -> list[Address]:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [(family, address) for family, _, _, _, address in found]

    return await in_daemon_thread(ask, "rota-lookup")


def why(error: BaseException) -> str:
    if isinstance(error, TimeoutError) and not error.args:
        return "no answer"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not to be trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST"):
        return "it does not speak TLS there"
    if isinstance(error, ConnectionResetError) and not error.args:  # in the middle of a handshake
        return "it closed the connection"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
