"""All routes of the table, what each names, and calls of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from rota.api import app
from rota.api.routes import PUBLIC, Route
from rota.model.access import ROLES, Role
from tests.api.caller import HOST, Caller, Reply
from tests.store.postgres.backends import Postgres
from tests.store.sqlite.backends import SqliteMemory

ROUTES = list(app.table())
KEYED = [route for route in ROUTES if route.permission is not PUBLIC]
BY_PATH: dict[str, dict[str, Route]] = {}
for _route in ROUTES:
    BY_PATH.setdefault(_route.path, {})[_route.method] = _route
# All there is for whoever has no key. A route is added here by a person who means it.
PUBLIC_ROUTES = {"GET /health/live", "GET /health/ready", "GET /api/v1/openapi.json"}
# What every key may know, whatever its role: itself, and that something has changed.
FOR_EVERY_KEY = {"GET /api/v1/server", "GET /api/v1/wakes", "GET /api/v1/me"}
ABSENT = "00000000-0000-7000-8000-000000000000"
STORES = [pytest.param(SqliteMemory, id="sqlite"), pytest.param(Postgres, id="postgres", marks=pytest.mark.slow)]


def on_both_stores(metafunc: pytest.Metafunc) -> None:
    """As `pytest_generate_tests` of a file: its tests run on SQLite, and on PostgreSQL in `make test-slow`."""
    if "world" in metafunc.fixturenames:
        metafunc.parametrize("world", STORES, indirect=True)


def named(route: Route) -> str:
    return f"{route.method} {route.path}"


def allows(role: Role, route: Route) -> bool:
    return route.permission in ROLES[role] or named(route) in FOR_EVERY_KEY | PUBLIC_ROUTES


def anything(route: Route) -> dict[str, str]:
    return dict.fromkeys(route.parts, ABSENT)


async def call(
    caller: Caller, route: Route, values: Mapping[str, str], key: str | None, body: Any = None, method: str = ""
) -> Reply:
    return await send_to(caller, method or route.method, route.path.format(**values), key, body)


async def send_to(
    caller: Caller,
    method: str,
    target: str,
    key: str | None,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """A caller that hangs up after its request: streams end then."""
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body) if body is not None else b""
    head = {"host": HOST} | ({"authorization": f"Bearer {key}"} if key is not None else {})
    head |= {"content-type": "application/json", "content-length": str(len(raw))} if raw else {}
    path, _, query = target.partition("?")
    scope = {
        "type": "http", "method": method, "raw_path": path.encode(), "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in (head | dict(headers or {})).items()],
        "client": ("127.0.0.1", 1), "scheme": "http",
    }  # fmt: skip
    return await sent(caller, scope, raw)


async def sent(caller: Caller, scope: Mapping[str, Any], raw: bytes) -> Reply:
    messages = [{"type": "http.request", "body": raw, "more_body": False}]
    got: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return messages.pop() if messages else {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        got.append(message)

    async with asyncio.timeout(10):
        await caller.api(scope, receive, send)
    return Reply(got[0]["status"], got[0]["headers"], b"".join(one.get("body", b"") for one in got[1:]))
