"""Connections of one event loop to a server: dialled when they are needed, and kept for the next calls."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable

from rota import dialing
from rota.dialing import dial, why
from rota.errors import InvalidInput
from rota.model.http import Target
from rota.remote.connection import Connection, Lost, Reply

CONNECT = 10.0  # seconds for the lookup, the connection and the TLS handshake
MOST = 16  # connections of a loop for calls; more calls wait
# A server closes quiet connections after some seconds. One that was quiet for longer than this is not used again.
QUIET = 4.0


class Dialer:
    """`ca`: a file with the certificates that the server's must be signed by; "": those that this system trusts."""

    def __init__(self, target: Target, ca: str = "") -> None:
        self.target, self.ca = target, ca
        self._context: ssl.SSLContext | None = None

    async def dial(self) -> Connection:
        context = self._secure() if self.target.scheme == "https" else None
        return await dial(Connection, self.target.host, self.target.port, CONNECT, context)

    def _secure(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = trusting(self.ca)
        return self._context


def trusting(ca: str) -> ssl.SSLContext:
    try:
        context = dialing.trusting(ca)
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
            dialing.drop(connection.transport)
        self._open.clear()

    def descriptors(self) -> Iterable[int]:
        found = [dialing.descriptor(connection.transport) for connection in self._open]
        return [one for one in found if one is not None]
