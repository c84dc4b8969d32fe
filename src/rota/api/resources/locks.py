"""Locks: looked at and freed by people. Programs hold them by the SDK, whose calls are routes of their own."""

from __future__ import annotations

from rota.api.pages import Page
from rota.api.requests import Request
from rota.api.routes import Routes
from rota.model.access import Permission
from rota.views.locks import LockView

ROUTES = Routes("locks")


@ROUTES.get("/api/v1/locks", Permission.READ, "Locks, held ones first")
async def list_locks(request: Request[None, None]) -> Page[LockView]:
    return Page([LockView.of(lock) for lock in await request.locks.locks()])


@ROUTES.delete("/api/v1/locks/{name}", Permission.ORDER, "Frees a lock, whoever holds it")
async def free_lock(request: Request[None, None]) -> None:
    await request.locks.free(request.path["name"])
