"""Calls an API in this process, without sockets, and keys for it."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

import msgspec

from rota.api import app
from rota.api.app import Api
from rota.api.authentication import Authenticator
from rota.api.desk import Desk
from rota.api.origins import OriginCheck
from rota.api.routes import Route
from rota.clock import Chance
from rota.config import Settings
from rota.model.access import Grant, Role
from rota.model.access_keys import key_text
from rota.store.base import Store
from rota.telemetry.events import Bus, Event
from tests.contracts.world import World

HOST = "localhost:8787"


def secret(role: str, user: str = "ann") -> str:
    """The text of a key. `role` may be any text: a key that the ring does not have."""
    digest = hashlib.sha256(f"{user} {role}".encode())
    return key_text(digest.hexdigest()[:12], digest.digest())


class Keys:
    """A ring with a key for each role of some users: `secret(role, user)`."""

    def __init__(self, store: Store, users: Iterable[str] = ("ann", "bob")) -> None:
        self.store = store
        self.grants = {
            secret(role, user): Grant(key=f"{user}-{role}", user=user, role=role) for user in users for role in Role
        }
        self.lookups = 0
        self.noted: list[str] = []

    async def grant(self, given: str) -> Grant | None:
        self.lookups += 1
        return self.grants.get(given)

    async def used(self, key: str) -> None:
        self.noted.append(key)

    def now(self) -> int:
        return self.store.now()


class Reply:
    def __init__(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        self.status, self.headers, self.body = status, {name.decode(): value.decode() for name, value in headers}, body

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    def __repr__(self) -> str:
        return f"<{self.status} {self.body[:300]!r}>"


class Caller:
    """Sends requests to an API; as an admin, unless `key` is given."""

    def __init__(self, world: World, routes: Iterable[Route] | None = None, **settings: Any) -> None:
        self.told: list[Event] = []
        bus = Bus()
        bus.subscribe(self.told.append)
        self.keys = Keys(world.store)
        self.desk = Desk(world.store, world.clock, Chance(3), Settings(**settings), bus)
        self.desk.workers.patience = 0  # for the end of a predecessor: their clock stands
        self.authenticator = Authenticator(self.keys, world.clock)
        origins = OriginCheck(["rota.example.com"])
        self.api = Api(routes or app.table(), self.desk, self.authenticator, origins, max_body=100_000)

    async def get(self, path: str, **more: Any) -> Reply:
        return await self.call("GET", path, **more)

    async def post(self, path: str, json: Any = None, **more: Any) -> Reply:
        return await self.with_json("POST", path, json, **more)

    async def put(self, path: str, json: Any, **more: Any) -> Reply:
        return await self.with_json("PUT", path, json, **more)

    async def patch(self, path: str, json: Any, **more: Any) -> Reply:
        return await self.with_json("PATCH", path, json, **more)

    async def delete(self, path: str, **more: Any) -> Reply:
        return await self.call("DELETE", path, **more)

    async def with_json(self, method: str, path: str, json: Any, **more: Any) -> Reply:
        if json is not None:
            more["body"] = msgspec.json.encode(json)
            more["headers"] = {"content-type": "application/json"} | more.get("headers", {})
        return await self.call(method, path, **more)

    async def call(
        self,
        method: str,
        path: str,
        key: str | None = secret("admin"),
        body: bytes | AsyncIterator[bytes] = b"",
        headers: Mapping[str, str | None] | None = None,
        client: str = "127.0.0.1",
        scheme: str = "http",
    ) -> Reply:
        raw, _, query = path.partition("?")
        given: dict[str, str | None] = {"host": HOST, "authorization": f"Bearer {key}" if key else None}
        if isinstance(body, bytes) and body:
            given["content-length"] = str(len(body))
        given |= headers or {}
        scope = {
            "type": "http",
            "method": method,
            "raw_path": raw.encode(),
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in given.items() if value is not None],
            "client": (client, 4321),
            "scheme": scheme,
        }
        return await self.send(scope, body)

    async def send(self, scope: Mapping[str, Any], body: bytes | AsyncIterator[bytes] = b"") -> Reply:
        pieces = _pieces(body)
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            async for piece, more in pieces:
                return {"type": "http.request", "body": piece, "more_body": more}
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await self.api(scope, receive, send)
        start, *rest = sent
        return Reply(start["status"], start["headers"], b"".join(part["body"] for part in rest))


async def _pieces(body: bytes | AsyncIterator[bytes]) -> AsyncIterator[tuple[bytes, bool]]:
    if isinstance(body, bytes):
        yield body, False
        return
    async for piece in body:
        yield piece, True
    yield b"", False
