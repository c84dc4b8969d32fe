"""A server on loopback in a thread of its own, in front of a SQLite file, with a key for each role."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rota.api.desk import Desk
from rota.api.listening import listen
from rota.api.server import ApiServer
from rota.clock import Chance, SystemClock
from rota.config import Settings
from rota.model.access import Grant, Role
from rota.model.access_keys import key_id, key_text
from rota.store.sqlite import SqliteStore
from rota.telemetry.events import Bus


def key_of(role: Role, user: str = "local") -> str:
    """The text of a key, as rota makes them."""
    number = f"{sum(f'{user}{role}'.encode()):012x}"
    return key_text(number, f"{user} {role}".encode().ljust(32, b".")[:32])


class Ring:
    def __init__(self, users: tuple[str, ...] = ("local", "ann")) -> None:
        self.grants = {
            key_of(role, user): Grant(key=key_id(key_of(role, user)), user=user, role=role)
            for role in Role
            for user in users
        }

    async def grant(self, secret: str) -> Grant | None:
        return self.grants.get(secret)

    async def used(self, key: str) -> None: ...

    def now(self) -> int:
        return SystemClock().now()


class Server:
    """`url` is its address."""

    def __init__(self, store: Path, **settings: Any) -> None:
        self.store, self.ring, self.url = store, Ring(), ""
        chosen: dict[str, Any] = {"api_port": 0, "store": f"sqlite:///{store}"} | settings
        self._settings = Settings(**chosen)
        self._up, self._loop = threading.Event(), asyncio.new_event_loop()
        self._down = asyncio.Event()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._serve()), daemon=True)

    def start(self) -> None:
        self._thread.start()
        assert self._up.wait(30)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._down.set)
        self._thread.join(30)
        self._loop.close()

    async def _serve(self) -> None:
        clock, chance = SystemClock(), Chance()
        store = SqliteStore(str(self.store), clock, chance)
        await store.migrate()
        await store.open()
        desk = Desk(store, clock, chance, self._settings, Bus())
        server = ApiServer(desk, listen(self._settings), self.ring)
        await server.start()
        self.url = server.url
        self._up.set()
        await self._down.wait()
        await server.stop(1.0)
        await store.close()


@contextmanager
def server_on(store: Path, **settings: Any) -> Iterator[Server]:
    server = Server(store, **settings)
    server.start()
    try:
        yield server
    finally:
        server.stop()
