"""Health of the node, for load balancers and supervisors. Public, so it tells nothing else."""

from __future__ import annotations

import asyncio
from typing import Literal

import msgspec

from rota.api.problems import Refusal
from rota.api.requests import Request
from rota.api.routes import PUBLIC, Routes
from rota.errors import RotaError
from rota.model.principal import SYSTEM

ROUTES = Routes("health")
# A probe asks again within seconds, and must not wait for a store that hangs.
LONGEST = 2.0


class Health(msgspec.Struct, frozen=True):
    status: Literal["ok"]


OK = Health("ok")


@ROUTES.get("/health/live", PUBLIC, "The process serves requests")
async def live(request: Request[None, None]) -> Health:
    return OK


@ROUTES.get("/health/ready", PUBLIC, "The store answers and the services of the node run")
async def ready(request: Request[None, None]) -> Health:
    desk = request.desk
    try:
        async with asyncio.timeout(LONGEST):
            await desk.store.nodes(SYSTEM)
        answers = desk.ready()
    except (RotaError, TimeoutError):
        answers = False
    if not answers:
        raise Refusal(503, "not_ready", "the node is not ready", {"retry-after": "1"})
    return OK
