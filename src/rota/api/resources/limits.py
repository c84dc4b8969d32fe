"""Limits: keys that jobs need in order to start, and their bounds."""

from __future__ import annotations

import msgspec

from rota.api.answers import Answer
from rota.api.pages import Page
from rota.api.requests import Request
from rota.api.routes import Routes
from rota.api.versions import EDITS, PUTS, READS, check_match, tagged, unless_known
from rota.errors import InvalidInput, NotFound
from rota.model.access import Permission
from rota.model.limits import Limit, concurrency, key_name
from rota.model.versions import ABSENT, limit_version
from rota.store.admission import LimitInfo
from rota.views.admission import BoundsView, LimitView

ROUTES = Routes("limits")


class BoundsBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """`concurrency`: so many at once; `rate`: so many starts per window, such as 60/1m."""

    concurrency: int | None = None
    rate: str | None = None


class LimitsQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    key: list[str] | None = None


@ROUTES.get("/api/v1/limits", Permission.READ, "Keys that have bounds, are held or are waited for")
async def list_limits(request: Request[None, LimitsQuery]) -> Page[LimitView]:
    return Page([LimitView.of(info) for info in await request.limits.limits(request.query.key)])


@ROUTES.get("/api/v1/limits/{key}", Permission.READ, "A key with its holders", **READS)
async def get_limit(request: Request[None, None]) -> Answer[LimitView]:
    info = await _find(request)
    if info is None:
        raise NotFound("limit, holder or waiting job of key", request.path["key"])
    return unless_known(request, LimitView.of(info), _version(info))


@ROUTES.put("/api/v1/limits/{key}", Permission.ORDER, "Sets the bounds of a key", **PUTS)
async def set_limit(request: Request[BoundsBody, None]) -> Answer[BoundsView]:
    key, body = key_name(request.path["key"]), request.body
    if body.concurrency is None and body.rate is None:
        raise InvalidInput("concurrency and rate", "none", "one of them, or both")
    at_once = None if body.concurrency is None else concurrency(body.concurrency)  # by its name in the body
    before = _version(await _find(request))
    expected = check_match(request, before)
    limit = await request.limits.set_limit(key, at_once=at_once, starts=body.rate, version=expected)
    return tagged(BoundsView.of(limit), limit_version(limit), 201 if before == ABSENT else 200)


@ROUTES.delete("/api/v1/limits/{key}", Permission.ORDER, "Removes the bounds of a key", **EDITS)
async def remove_limit(request: Request[None, None]) -> None:
    expected = check_match(request, _version(await _find(request)))
    await request.limits.remove_limit(request.path["key"], expected)


async def _find(request: Request[None, None] | Request[BoundsBody, None]) -> LimitInfo | None:
    found = await request.limits.limits([request.path["key"]])
    return next(iter(found), None)


def _version(info: LimitInfo | None) -> str:
    return limit_version(None if info is None else Limit(info.key, info.concurrency, info.rate))
