"""Connections to servers: names to addresses, each address in turn, and the words for what could not be connected."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from rota.daemon_thread import in_daemon_thread

Address = tuple[int, Any]  # a family, and an address as sockets know it
NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST")
P = TypeVar("P", bound=asyncio.BaseProtocol)


class Unreachable(Exception):
    """No connection could be made, so nothing was sent."""


class Untrusted(Unreachable):
    """Its certificate is not to be trusted, or it does not speak TLS: trying again does not help."""


async def dial(
    protocol: Callable[[], P], host: str, port: int, limit: float, context: ssl.SSLContext | None = None
) -> P:
    """Connects to the first address of a host that takes the connection. `limit`: seconds for the lookup, the
    connection and the TLS handshake; `context`: None without TLS."""
    try:
        async with asyncio.timeout(limit):
            return await _dialled(protocol, host, port, limit, context)
    except TimeoutError:
        raise Unreachable(f"no connection within {limit:g}s") from None


async def _dialled(protocol: Callable[[], P], host: str, port: int, limit: float, context: ssl.SSLContext | None) -> P:
    try:
        addresses = await look_up(host, port)
    except (OSError, UnicodeError) as error:
        raise Unreachable(f"its address can't be found: {why(error)}") from None
    failure = Unreachable("it has no address")
    for place, address in enumerate(addresses):
        try:
            async with asyncio.timeout(limit / (len(addresses) - place) * 0.9):
                return await _connected(protocol, address, host, context)
        except OSError as error:  # also of TLS and of time
            failure = (Untrusted if _is_final(error) else Unreachable)(_plainly(error))
    raise failure


async def _connected(protocol: Callable[[], P], address: Address, host: str, context: ssl.SSLContext | None) -> P:
    loop = asyncio.get_running_loop()
    family, place = address
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        await loop.sock_connect(sock, place)
        secure: dict[str, Any] = {} if context is None else {"ssl": context, "server_hostname": host}
        _, connected = await loop.create_connection(protocol, sock=sock, **secure)
    except BaseException:
        sock.close()
        raise
    return connected


def trusting(ca: str) -> ssl.SSLContext:
    """Certificates and host names are always checked. `ca`: a file with the certificates that the server's must be
    signed by; "": those that this system trusts. Raises OSError if it can't be read."""
    return ssl.create_default_context(cafile=str(Path(ca).expanduser()) if ca else None)


def drop(transport: Any) -> None:
    """Closes the socket of a transport whose loop was closed."""
    inner = getattr(getattr(transport, "_ssl_protocol", None), "_transport", transport)
    if (sock := getattr(inner, "_sock", None)) is not None:
        inner._sock = None  # no warning that it was not closed
        sock.close()


def descriptor(transport: asyncio.BaseTransport | None) -> int | None:
    """Of the socket of a transport; None if it is closed."""
    sock = None if transport is None else transport.get_extra_info("socket")
    return sock.fileno() if sock is not None and sock.fileno() >= 0 else None


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
    if isinstance(error, ssl.SSLError) and error.reason in NO_TLS:
        return "it does not speak TLS there"
    if isinstance(error, ConnectionResetError) and not error.args:  # in the middle of a handshake
        return "it closed the connection"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _plainly(error: OSError) -> str:
    """`connection refused`, where asyncio names the address."""
    return os.strerror(error.errno).lower() if isinstance(error, ConnectionError) and error.errno else why(error)


def _is_final(error: OSError) -> bool:
    if isinstance(error, ssl.SSLCertVerificationError):
        return True
    return isinstance(error, ssl.SSLError) and error.reason in NO_TLS
