"""The server of the API in the loop of its node: start, address, certificate, and an end without cut answers."""

from __future__ import annotations

import asyncio
import socket
from ipaddress import ip_network

from rota.api import app
from rota.api.app import Api
from rota.api.authentication import Authenticator, KeyRing, StoreKeys
from rota.api.connections import HEAD_TIME, Connections
from rota.api.desk import Desk
from rota.api.listening import BACKLOG, url_of
from rota.api.origins import OriginCheck
from rota.api.tls import LOOK_EVERY, Certificate
from rota.telemetry import events


class ApiServer:
    """Serves the API on an open socket until it is stopped."""

    def __init__(self, desk: Desk, opened: socket.socket, keys: KeyRing | None = None) -> None:
        """`keys`: others than those in the store."""
        settings = desk.settings
        self.url = url_of(opened, settings)
        self._socket, self._bus, self._lines = opened, desk.bus, desk.workers.lines
        proxies = [ip_network(text, strict=False) for text in settings.api_proxies]
        names = [*settings.api_hosts, settings.api_host]
        self.keys = Authenticator(keys or StoreKeys(desk.store), desk.clock)
        self._api = Api(app.table(), desk, self.keys, OriginCheck(names, proxies), settings.api_max_body)
        self._connections = Connections(self._api, desk.clock, settings.api_connections, proxies, self._failed)
        self._certificate = Certificate(settings.api_tls_cert, settings.api_tls_key) if settings.api_tls_cert else None
        self._server: asyncio.Server | None = None
        self._looks: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        secure = self._certificate
        self._server = await asyncio.get_running_loop().create_server(
            self._connections.make,
            sock=self._socket,
            backlog=BACKLOG,
            ssl=secure.context if secure else None,
            ssl_handshake_timeout=HEAD_TIME if secure else None,
        )
        self._bus.emit(events.ApiServing(self.url))
        self._look()

    async def stop(self, within: float) -> None:
        """Takes no more connections, ends streams, gives requests some time, and closes."""
        if self._looks is not None:
            self._looks.cancel()
        await self._lines.close()
        if self._server is not None:
            self._server.close()
        self._socket.close()
        self._api.end_streams()
        await self._connections.end(within)
        await self.keys.close()

    def _look(self) -> None:
        if self._certificate is not None:
            self._certificate.reload(lambda why: self._bus.emit(events.CertificateChanged(why)))
            self._looks = asyncio.get_running_loop().call_later(LOOK_EVERY, self._look)

    def _failed(self, why: str) -> None:
        self._bus.emit(events.ServiceFailed("the API", why))
