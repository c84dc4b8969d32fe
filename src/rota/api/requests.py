"""One request, as its handler sees it: decoded, authenticated and allowed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, TypeVar

from rota.api.desk import Clients, Desk
from rota.clients.jobs import JobsClient
from rota.clients.limits import LimitsClient
from rota.clients.locks import LocksClient
from rota.clients.people import PeopleClient
from rota.clients.schedules import SchedulesClient
from rota.clock import Chance
from rota.model.access import Grant
from rota.model.principal import Principal
from rota.store.base import Store

B = TypeVar("B")
Q = TypeVar("Q")
Receive = Callable[[], Awaitable[dict[str, Any]]]


class Request(Generic[B, Q]):
    """`Request[Body, Query]`: the types of the body and of the query parameters, None where a route takes none. A
    handler names them in its annotation, and the route is made from it."""

    __slots__ = ("_clients", "_grant", "_receive", "body", "desk", "headers", "path", "query", "server", "store")

    def __init__(
        self,
        desk: Desk,
        grant: Grant | None,
        path: Mapping[str, str],
        query: Q,
        body: B,
        headers: Mapping[bytes, bytes],
        receive: Receive,
        server: tuple[str, int] | None = None,
    ) -> None:
        self.desk, self._grant, self.path, self.query, self.body = desk, grant, path, query, body
        self.headers, self._receive = headers, receive
        self.server = server  # the address at which this server was called
        self.store = desk.store
        self._clients: Clients | None = None

    def follow(self, store: Store, chance: Chance) -> None:
        """From here on the handler uses this store and this chance: the request may be a repeat (`api.repeats`)."""
        self.store, self._clients = store, self.desk.make_clients(self.principal, self.grant, store, chance)

    @property
    def grant(self) -> Grant:
        """The rights of the caller's key. A public route has none."""
        if self._grant is None:
            raise RuntimeError("a public route has no grant")
        return self._grant

    @property
    def principal(self) -> Principal:
        return self.grant.principal

    @property
    def clients(self) -> Clients:
        return self._clients or self.desk.clients(self.principal, self.grant)

    @property
    def jobs(self) -> JobsClient:
        return self.clients.jobs

    @property
    def schedules(self) -> SchedulesClient:
        return self.clients.schedules

    @property
    def limits(self) -> LimitsClient:
        return self.clients.limits

    @property
    def locks(self) -> LocksClient:
        return self.clients.locks

    @property
    def people(self) -> PeopleClient:
        return self.clients.people

    def header(self, name: str) -> str | None:
        """A header by its name in lower case. Bytes beyond ASCII are kept as Latin-1, as HTTP defines."""
        value = self.headers.get(name.encode())
        return None if value is None else value.decode("latin-1")

    async def gone(self) -> None:
        """Returns when the caller has closed the connection, for handlers that wait. Call it once the body is read."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
