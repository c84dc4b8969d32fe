"""Connections of one event loop to a server: dialled when they are needed, and kept for the next calls."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from rota.dialing import Address, look_up, why
from rota.errors import InvalidInput
from rota.model.http import Target
from rota.remote.connection import Connection, Lost, Reply

CONNECT = 10.0  # seconds for the lookup, the connection and the TLS handshake
MOST = 16  # connections of a loop for calls; more calls wait
# A server closes quiet connections after some seconds. One that was quiet for longer than this is not used again.
QUIET = 4.0


class Unreachable(Exception):
    """No connection could be made, so nothing was sent."""


class Dialer:
    """`ca`: a file with the certificates that the server's must be signed by; "": those that this system trusts."""

    def __init__(self, target: Target, ca: str = "") -> None:
        self.target, self.ca = target, ca
        self._context: ssl.SSLContext | None = None

    async def dial(self) -> Connection:
        try:
            async with asyncio.timeout(CONNECT):
                return await self._connect()
        except TimeoutError:
            raise Unreachable(f"no connection within {CONNECT:g}s") from None

    async def _connect(self) -> Connection:
        target = self.target
        try:
            addresses = await look_up(target.host, target.port)
        except (OSError, UnicodeError) as error:
            raise Unreachable(f"its address can't be found: {why(error)}") from None
        problem = "it has no address"
        for place, address in enumerate(addresses):
            try:
                async with asyncio.timeout(CONNECT / (len(addresses) - place) * 0.9):
                    return await self._open(address)
            except OSError as error:  # also of TLS and of time
                problem = _plainly(error)
        raise Unreachable(problem)

    async def _open(self, address: Address) -> Connection:
        loop = asyncio.get_running_loop()
        family, place = address
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            await loop.sock_connect(sock, place)
            secure: dict[str, Any] = {}
            if self.target.scheme == "https":
                secure = {"ssl": self._secure(), "server_hostname": self.target.host}
            _, connection = await loop.create_connection(Connection, sock=sock, **secure)
        except BaseException:
            sock.close()
            raise
        return connection

    def _secure(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = trusting(self.ca)
        return self._context


def trusting(ca: str) -> ssl.SSLContext:
    """Certificates and host names are always checked."""
    try:
        context = ssl.create_default_context(cafile=str(Path(ca).expanduser()) if ca else None)
    except OSError as error:  # ssl.SSLError too
        raise InvalidInput("server_ca", ca, f"a file with certificates in PEM form ({why(error)})") from None
    context.set_alpn_protocols(["http/1.1"])
    return context


def cure(problem: str, ca: str, otherwise: str = "is `rota up` running there?") -> str:
    """What to do about a connection that could not be made, by the words of its problem."""
    if "trusted" in problem:
        return f"check {ca}" if ca else "name the authority that signed it with ROTA_SERVER_CA, or `rota login --ca`"
    if "speak TLS" in problem:
        return "if it is on loopback, its address begins with http://"
    if "closed the connection" in problem or "no HTTP" in problem:
        return "is it rota that listens there, and does it speak TLS (https://) or not (http://) as the address says?"
    if "address" in problem:
        return "check the name of the server"
    return otherwise


class ServerPool:
    """Belongs to one loop."""

    def __init__(self, dialer: Dialer) -> None:
        self._dialer = dialer
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()
        self._turns = asyncio.Semaphore(MOST)
        self._closed = False

    async def ask(self, request: bytes, limit: float) -> Reply:
        """Raises Unreachable if nothing was sent, Lost or TimeoutError if the answer did not come."""
        async with self._turns:
            connection = self._kept() or await self._dialled()
            try:
                async with asyncio.timeout(limit):
                    return await connection.ask(request)
            finally:
                if connection.usable and not self._closed:
                    self._idle.append(connection)
                else:
                    self._open.discard(connection)
                    connection.close()

    async def stream(self, request: bytes, piece: Callable[[bytes], None]) -> Reply:
        """On a connection of its own, which counts for no bound."""
        connection = await self._dialled()
        try:
            return await connection.ask(request, piece)
        finally:
            self._open.discard(connection)
            connection.abort()

    async def _dialled(self) -> Connection:
        connection = await self._dialer.dial()
        if self._closed:
            connection.abort()
            raise Lost("it was closed meanwhile")
        self._open.add(connection)
        return connection

    def _kept(self) -> Connection | None:
        """The connection that was used last, so that those of a busy time end when it is over."""
        oldest = asyncio.get_running_loop().time() - QUIET
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and connection.used_at > oldest:
                return connection
            self._open.discard(connection)
            connection.close()
        return None

    # -- for `store.loops` -------------------------------------------------------------------------------------------
    async def close(self) -> None:
        self._closed = True
        for connection in [*self._open]:
            connection.abort()
        self._idle.clear()
        self._open.clear()
        await asyncio.sleep(0)  # the transports close their sockets in the next turn of the loop

    def drop(self) -> None:
        for connection in self._open:
            transport: Any = connection.transport
            inner = getattr(getattr(transport, "_ssl_protocol", None), "_transport", transport)
            if (sock := getattr(inner, "_sock", None)) is not None:
                inner._sock = None  # no warning that it was not closed
                sock.close()
        self._open.clear()

    def descriptors(self) -> Iterable[int]:
        transports = [one.transport for one in self._open if one.transport is not None]
        found = [transport.get_extra_info("socket") for transport in transports]
        return [sock.fileno() for sock in found if sock is not None and sock.fileno() >= 0]


def _plainly(error: OSError) -> str:
    """`connection refused`, where asyncio names the address."""
    return os.strerror(error.errno).lower() if isinstance(error, ConnectionError) and error.errno else why(error)
