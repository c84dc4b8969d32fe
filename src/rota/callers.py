"""Clients for orders in a caller's own transaction, on the connection that the caller brings."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from rota import opening
from rota.clients.jobs import JobsClient
from rota.clients.schedules import SchedulesClient
from rota.config import Settings
from rota.connections import AppConnections
from rota.errors import InvalidInput, StoreError
from rota.handles import schedule_builder
from rota.handles.job import Job
from rota.handles.schedule import Schedule
from rota.orders import JobOrder

if TYPE_CHECKING:
    from rota.app_core import AppCore
    from rota.store.postgres import CallerStore, Whereabouts

# The file of a SQLite store must not be opened a second time beside rota (docs/postgresql.md says why).
_NOT_SQLITE = "PostgreSQL: a connection of yours could corrupt rota's SQLite file, and would stop its nodes"

_NOT_SERVER = "a store on PostgreSQL (store=): a server can't take part in your transaction"


class CallerClients:
    """Those of one app. It opens no connection of its own, unless the caller's may lead to another database."""

    def __init__(self, opened: AppConnections, inline: bool) -> None:
        self._opened, self._inline = opened, inline
        self._template: CallerStore | None = None
        self._made_from: Settings | None = None
        self._fitting: set[Whereabouts] = set()  # databases whose schema this code knows

    async def jobs(self, app: AppCore, connection: Any, waits: bool) -> JobsClient:
        """`waits`: the caller awaits its calls. Raises if the connection can't be used for orders."""
        return JobsClient(await self._store(app, connection, waits), app.who, app.chance)

    async def submit(
        self,
        app: AppCore,
        connection: Any,
        waits: bool,
        order: JobOrder,
        meta: str | None,
    ) -> list[Job[Any]]:
        """The order is checked before anything is sent. The local clock is enough: the time in an id is for sorting."""
        jobs = order.jobs(app.chance.job_ids(app.clock.now(), len(order.bodies)), meta)
        client = await self.jobs(app, connection, waits)
        return [Job(app, answer.id) for answer in await client.submit_whole(jobs)] if jobs else []

    async def schedule(self, app: AppCore, connection: Any, waits: bool, given: tuple[str, Any, Any, Any]) -> Schedule:
        """`given`: name, task, arguments and options, as `AppCore.schedule` takes them."""
        built = schedule_builder.build(app, *given, connection)
        store = await self._store(app, connection, waits)
        await SchedulesClient(store, app.who, app.chance, store.pause).save(*built)
        return Schedule(app, given[0])

    async def _store(self, app: AppCore, connection: Any, waits: bool) -> CallerStore:
        store = self._made(app).on(connection, waits)
        await store.open()
        if store.whereabouts not in self._fitting:
            await store.check_schema()
            await self._check_database(app, store.whereabouts, waits)
            self._fitting.add(store.whereabouts)
        return store

    def _made(self, app: AppCore) -> CallerStore:
        settings = app.settings
        if self._template is None or settings is not self._made_from:
            if settings.server:
                raise InvalidInput("within", f"an order on {settings.place}", _NOT_SERVER)
            if settings.store.startswith("sqlite:"):
                raise InvalidInput("within", f"an order on {settings.place}", _NOT_SQLITE)
            self._template = opening.postgres().CallerStore(
                settings.store, app.clock, app.chance, key_life=settings.key_retention,
                ring=settings.notify and settings.notify_within, server_time=not self._inline,
            )  # fmt: skip
            self._made_from, self._fitting = settings, set()
        return self._template

    async def _check_database(self, app: AppCore, found: Whereabouts, waits: bool) -> None:
        """Refuses another database than the store's. The name in the address is enough if it fits and the store was not
        opened: a pooler may have another name for the same database, so the server is asked before one is refused."""
        named = unquote(urlsplit(app.settings.store).path.strip("/"))
        if named in ("", found.database) and self._opened.client is None:
            return
        with suppress(StoreError):  # it can't be told now
            own = await self._whereabouts(app, waits)
            if own is not None and own != found:
                where = "another server" if found.database == own.database else f"the database {found.database!r}"
                expected = f"one to the store's database, {own.database!r}"
                raise InvalidInput("within", f"a connection to {where}", expected)

    async def _whereabouts(self, app: AppCore, waits: bool) -> Whereabouts | None:
        """Of the store; None if it can't be asked here: sync code inside a running event loop."""
        if waits:
            return await _ask(app)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return app.sync(_ask(app))
        return None


async def _ask(app: AppCore) -> Whereabouts:
    store: Any = (await app.client()).store
    found: Whereabouts = await store.whereabouts_now()
    return found
