"""Gates: rules that hold or drop matching jobs of a user until they are opened."""

from __future__ import annotations

import msgspec

from rota.api.pages import Page
from rota.api.requests import Request
from rota.api.routes import Routes
from rota.errors import InvalidInput, NotFound
from rota.model.access import Permission
from rota.model.gates import Effect
from rota.model.times import iso, some_time
from rota.views.admission import GateView

ROUTES = Routes("gates")


class GateBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, rename={"for_": "for"}):
    """`task` (a glob), `queue`, `user` and `label` must all fit, or `all`. `until`: a time; `for`: a duration."""

    effect: Effect = Effect.PAUSE
    reason: str
    task: str | None = None
    queue: str | None = None
    user: str | None = None
    label: str | None = None
    all: bool = False
    until: str | None = None
    for_: str | float | None = None


@ROUTES.get("/api/v1/gates", Permission.READ, "The closed gates, oldest first")
async def list_gates(request: Request[None, None]) -> Page[GateView]:
    return Page([GateView.of(gate) for gate in await request.limits.gates()])


@ROUTES.get("/api/v1/gates/{id}", Permission.READ, "A closed gate")
async def get_gate(request: Request[None, None]) -> GateView:
    for gate in await request.limits.gates():
        if gate.id == request.path["id"]:
            return GateView.of(gate)
    raise NotFound("gate", request.path["id"])


@ROUTES.post("/api/v1/gates", Permission.ORDER, "Closes a gate: holds or drops matching jobs", status=201)
async def close_gate(request: Request[GateBody, None]) -> GateView:
    body = request.body
    which = {kind: getattr(body, kind) for kind in ("task", "queue", "user", "label")}
    named = any(value is not None for value in which.values())
    if body.all and named:
        raise InvalidInput("all", True, "it alone, or task, queue, user and label")
    if not body.all and not named:
        raise InvalidInput("task, queue, user and label", "none", "one of them or more, or all")
    if body.until is not None and body.for_ is not None:
        raise InvalidInput("until and for", "both", "one of them")
    until = body.until
    if body.for_ is not None:
        until = iso(request.store.now() + some_time(body.for_, "for"))
    close = request.limits.pause if body.effect is Effect.PAUSE else request.limits.drop
    return GateView.of(await close(reason=body.reason, until=until, **({"everything": True} if body.all else which)))


@ROUTES.post("/api/v1/gates/{id}/open", Permission.ORDER, "Opens a gate: the jobs that it held go on")
async def open_gate(request: Request[None, None]) -> GateView:
    return GateView.of(await request.limits.open((await get_gate(request)).id))
