"""One exchange of HTTP/1.1 over a connection of its own, to an address that was checked.

The address that is checked is the address that is connected to: names are resolved here, once, and the socket gets the
numeric address. So a name that resolves differently a moment later gains nothing, and neither do disguised addresses
(127.1, 0x7f000001, ::ffff:127.0.0.1): the check sees the resolved address. Nothing outlives the exchange: no connection
is kept, no cookie, and proxies of the environment are not asked.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import h11
import msgspec

from rota.dialing import Address, look_up, why
from rota.model.addresses import AddressRules
from rota.model.http import Target

CONNECT = 10.0  # seconds for the lookup, the connection and the TLS handshake
READ_SIZE = 64 << 10
LARGEST_HEAD = 64 << 10
# Pieces of a response that are parsed in one go. They may be of one byte each, and this is the node's own loop.
AT_ONCE = 32
MOST_WORDS_BEFORE = 20  # "100 Continue" and the like, before the answer
SCARCITY = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

Resolve = Callable[[str, int], Awaitable[Sequence[Address]]]


class AddressDenied(Exception):
    pass


class Unreachable(Exception):
    """No connection could be made."""


class Scarce(Exception):
    """The node lacks a resource, such as descriptors."""


class BadResponse(Exception):
    """The response is not HTTP, or ended too soon."""


class Head(msgspec.Struct, frozen=True):
    """The first part of an answer."""

    status: int
    headers: dict[str, str]  # names in lower case; the first of each


class Exchange:
    """A request that was sent. First comes `head`, then `body`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, turn: asyncio.Lock) -> None:
        """`turn` is shared by all exchanges: of exchanges with long responses, only one reads per turn of the loop."""
        self._reader, self._writer, self._turn = reader, writer, turn
        self._looked_at = 0
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=LARGEST_HEAD)

    def send(self, method: str, target: Target, headers: Sequence[tuple[str, str]], body: bytes) -> None:
        """All at once: a server may answer before it has read the whole of it."""
        fields = [("Host", target.authority), ("Connection", "close"), *headers]
        if body or method not in ("GET", "HEAD", "DELETE", "OPTIONS"):
            fields.append(("Content-Length", str(len(body))))
        parts = [self._http.send(h11.Request(method=method, target=target.path, headers=fields))]
        if body:
            parts.append(self._http.send(h11.Data(data=body)))
        parts.append(self._http.send(h11.EndOfMessage()))
        self._writer.write(b"".join(part for part in parts if part))

    async def head(self) -> Head:
        for _ in range(MOST_WORDS_BEFORE):
            event = await self._next()
            if isinstance(event, h11.Response):
                fields: dict[str, str] = {}
                for name, value in event.headers:
                    fields.setdefault(name.decode("latin-1"), value.decode("latin-1"))
                return Head(event.status_code, fields)
            if not isinstance(event, h11.InformationalResponse):
                raise BadResponse("it closed the connection without an answer")
        raise BadResponse("it does not come to the point")

    async def body(self) -> AsyncIterator[bytes]:
        while not isinstance(event := await self._next(), h11.EndOfMessage):
            if not isinstance(event, h11.Data):
                raise BadResponse("its answer ended too soon")
            yield bytes(event.data)

    async def _next(self) -> Any:
        self._looked_at += 1
        if self._looked_at % AT_ONCE == 0:
            async with self._turn:
                await asyncio.sleep(0)
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                self._http.receive_data(await self._reader.read(READ_SIZE))
        except h11.RemoteProtocolError as error:
            raise BadResponse(f"what it answered is no HTTP ({error})") from None
        return event


class Dialer:
    def __init__(self, rules: AddressRules, resolve: Resolve | None = None) -> None:
        self._rules, self._resolve = rules, resolve or look_up
        self._context: ssl.SSLContext | None = None
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def dial(self, target: Target) -> AsyncIterator[Exchange]:
        try:
            async with asyncio.timeout(CONNECT):
                reader, writer = await self._connect(target)
        except TimeoutError:
            raise Unreachable(f"{target.authority}: no connection within {CONNECT:g}s") from None
        try:
            yield Exchange(reader, writer, self._turn)
        except OSError as error:
            raise BadResponse(f"the connection broke ({why(error)})") from None
        finally:
            writer.transport.abort()

    async def _connect(self, target: Target) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        addresses = await self._addresses(target)
        deadline = asyncio.get_running_loop().time() + CONNECT
        problem = ""
        for number, (family, address) in enumerate(addresses):
            # Each address gets its share of the time left, so that a silent one leaves time for the others.
            share = (deadline - asyncio.get_running_loop().time()) / (len(addresses) - number)
            try:
                async with asyncio.timeout(share):
                    return await self._open(target, family, address)
            except (OSError, ssl.SSLError) as error:  # TimeoutError too
                problem = f"{address[0]}: {why(error)}"
        raise Unreachable(f"{target.authority}: {problem}")

    async def _addresses(self, target: Target) -> list[Address]:
        """The addresses of the host, without forbidden ones."""
        if objection := self._rules.objection(target.host):
            raise AddressDenied(f"{target.host}: {objection}")
        try:
            found = await self._resolve(target.host, target.port)
        except (OSError, UnicodeError) as error:
            raise Unreachable(f"{target.host}: its address can't be found ({why(error)})") from None
        objections = {address[0]: self._rules.objection(target.host, _number(address[0])) for _, address in found}
        if all(objections.values()):
            address, objection = next(iter(objections.items()), ("", None))
            if objection is None:
                raise Unreachable(f"{target.host}: it has no address")
            shown = address if address == target.host else f"{target.host} is {address}"
            raise AddressDenied(f"{shown}: {objection}")
        return [(family, address) for family, address in found if objections[address[0]] is None]

    async def _open(
        self, target: Target, family: int, address: Any
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            sock = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            if error.errno in SCARCITY:
                raise Scarce(why(error)) from None
            raise
        try:
            sock.setblocking(False)
            await asyncio.get_running_loop().sock_connect(sock, address)
            secure: dict[str, Any] = {}
            if target.scheme == "https":
                secure = {"ssl": self._secure(), "server_hostname": target.host}
            return await asyncio.open_connection(sock=sock, limit=READ_SIZE, **secure)
        except BaseException:
            sock.close()
            raise

    def _secure(self) -> ssl.SSLContext:
        """Certificates are always checked, against the ones that this system trusts (or SSL_CERT_FILE names)."""
        if self._context is None:
            self._context = ssl.create_default_context()
            self._context.set_alpn_protocols(["http/1.1"])
        return self._context


def _number(address: str) -> str:
    return address.partition("%")[0]  # without the interface of a link-local address
