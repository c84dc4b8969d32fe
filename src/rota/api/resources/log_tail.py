"""Output of many jobs: lines as they are printed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Annotated

import msgspec

from rota.api.answers import Stream
from rota.api.event_feed import PING, PING_EVERY, piece
from rota.api.requests import Request
from rota.api.resources.events import LAST_EVENT_ID
from rota.api.routes import Routes
from rota.clients.line_tail import LineTail, Placed
from rota.clients.tail_places import LONGEST, read_place
from rota.model.access import Permission
from rota.model.query.check import LONGEST as LONGEST_QUERY
from rota.model.query.fields import Searched
from rota.model.query.parse import parse
from rota.views.found_lines import FoundLineView

ROUTES = Routes("logs")


class TailQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """`q`: a query for output. `after`: the id of the last line that is known."""

    q: Annotated[str, msgspec.Meta(max_length=LONGEST_QUERY)] = ""
    after: Annotated[str, msgspec.Meta(max_length=LONGEST)] | None = None


@ROUTES.get(
    "/api/v1/logs/tail", Permission.OUTPUT, "Lines of output as they are printed, of all jobs that fit a query",
    takes=("Last-Event-ID",),
)  # fmt: skip
async def tail_logs(request: Request[None, TailQuery]) -> Stream:
    given = request.query.after or request.header(LAST_EVENT_ID)
    where = parse(request.query.q, request.desk.store.now(), Searched.OUTPUT)
    after = None if given is None else read_place(given)
    return Stream(_pieces(LineTail(request.desk.store, request.principal, where, after, places=True)))


async def _pieces(tail: LineTail) -> AsyncIterator[bytes]:
    """The first piece comes when all that is printed from then on will be told."""
    clock = asyncio.get_running_loop().time
    quiet_since, begun = clock(), False
    async with aclosing(tail.placed()) as looks:
        async for placed in looks:
            if tail.begun and not begun:
                begun = True
                yield b"retry: 1000\n\n" + (b"" if tail.gap is None else piece("gap", {"detail": tail.gap}))
            if placed:
                yield _lines(placed)
            elif clock() >= quiet_since + PING_EVERY:
                yield PING
            else:
                continue
            quiet_since = clock()


def _lines(placed: Placed) -> bytes:
    return b"".join([piece("line", FoundLineView.of(line), place) for line, place in placed])
