"""A `ServerStore` on an API in this process: the requests as they are sent, without sockets."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

from rota.api import app
from rota.api.app import Api
from rota.api.authentication import Authenticator
from rota.api.desk import Desk
from rota.api.origins import OriginCheck
from rota.api.routes import Route
from rota.clock import Chance, Clock
from rota.config import Settings
from rota.model.access import EXTRAS, Grant, Permission, Role
from rota.model.access_keys import key_text
from rota.model.http import target
from rota.remote.connection import Lost, Reply
from rota.remote.store import ServerStore, server_store
from rota.remote.wakes import Wakes
from rota.store.base import Store
from rota.telemetry.events import Bus

ADDRESS = "http://localhost:8787"


SEEDS = count(1)
ISSUED: dict[str, Grant] = {}  # by the texts of the keys
TO_ORDER = (Permission.COMMANDS, Permission.CALLS, Permission.OS_USERS)


class Keys:
    """Every key that `secret` makes is valid."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.refused: set[str] = set()

    async def grant(self, secret: str) -> Grant | None:
        return None if secret in self.refused else ISSUED[secret]

    async def used(self, key: str) -> None: ...

    def now(self) -> int:
        return self.store.now()


def secret(user: str, role: Role, key: str, auditor: bool = False) -> str:
    extra = {*TO_ORDER, *([Permission.AUDIT] if auditor else [])} & EXTRAS[role]
    digest = hashlib.sha256(f"{user} {role} {key} {auditor}".encode("utf-8", "surrogatepass"))
    text = key_text(digest.hexdigest()[:12], digest.digest())
    ISSUED[text] = Grant(key=key, user=user, role=role, extra=tuple(sorted(extra)))
    return text


def api_on(store: Store, clock: Clock, routes: Iterable[Route] | None = None, **settings: Any) -> Api:
    desk = Desk(store, clock, Chance(3), Settings(**settings), Bus())
    return Api(routes or app.table(), desk, Authenticator(Keys(store), clock), OriginCheck(), max_body=64 << 20)


class AsgiPool:
    """Takes the place of `ServerPool`. `lose`: how many of the next answers get lost on their way."""

    def __init__(self, api: Api) -> None:
        self.api, self.lose, self.asked = api, 0, 0
        self._streams: set[asyncio.Task[Any]] = set()

    async def ask(self, request: bytes, limit: float) -> Reply:
        self.asked += 1
        found = await self._call(request, None)
        if self.lose:
            self.lose -= 1
            raise Lost("it closed the connection")
        return found

    async def stream(self, request: bytes, piece: Callable[[bytes], None]) -> Reply:
        return await self._call(request, piece)

    async def _call(self, request: bytes, piece: Callable[[bytes], None] | None) -> Reply:
        head, _, body = request.partition(b"\r\n\r\n")
        first, *lines = head.split(b"\r\n")
        method, path, _ = first.split(b" ")
        raw, _, query = path.partition(b"?")
        pairs = [(name.lower(), value) for name, _, value in (line.partition(b": ") for line in lines)]
        scope = {
            "type": "http", "method": method.decode(), "raw_path": raw, "query_string": query, "headers": pairs,
            "client": ("127.0.0.1", 4321), "scheme": "http",
        }  # fmt: skip
        status, headers, pieces, given = 0, {}, [], [body]

        async def receive() -> dict[str, Any]:
            if given:
                return {"type": "http.request", "body": given.pop(), "more_body": False}
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: dict[str, Any]) -> None:
            nonlocal status, headers
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = {name.decode(): value.decode() for name, value in message["headers"]}
            elif piece is not None and status == 200:
                piece(message["body"])
            else:
                pieces.append(message["body"])

        await self.api(scope, receive, send)
        return Reply(status, headers, b"".join(pieces))

    async def close(self) -> None: ...

    def drop(self) -> None: ...

    def descriptors(self) -> Iterable[int]:
        return ()


class AsgiSide:
    def __init__(self, pool: AsgiPool, open_stream: Callable[..., Any]) -> None:
        self.pool, self.vital, self.wakes = pool, pool, Wakes(open_stream)

    async def close(self) -> None:
        self.wakes.close()

    def drop(self) -> None: ...

    def descriptors(self) -> Iterable[int]:
        return ()


def connected(
    api: Api, clock: Clock, user: str = "local", role: Role = Role.ADMIN, key: str = "k1", auditor: bool = False
) -> tuple[ServerStore, AsgiPool]:
    """A store with a key of this user, neither opened nor used."""
    pool = AsgiPool(api)
    text = secret(user, role, key, auditor)
    # Each client has a seed of its own: the store tells repeats by the idempotency keys of a user.
    store = server_store(target(ADDRESS), text, clock, Chance(next(SEEDS)))
    store._side = lambda: AsgiSide(pool, store._stream)  # type: ignore[assignment, method-assign, return-value]
    return store, pool
