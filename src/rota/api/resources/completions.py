"""Completion of queries, for pages that offer continuations while a query is being typed."""

from __future__ import annotations

from typing import Annotated

import msgspec

from rota.api.requests import Request
from rota.api.routes import Routes
from rota.clients.searching import completed
from rota.errors import InvalidInput
from rota.model.access import Permission
from rota.model.query.check import LONGEST
from rota.model.query.complete import Suggestion
from rota.model.query.fields import Searched

ROUTES = Routes("search")


class CompletionQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """`at`: the place of the cursor in the text; without it, the end. `in`: what the query searches."""

    text: Annotated[str, msgspec.Meta(max_length=LONGEST)]
    at: Annotated[int, msgspec.Meta(ge=0, le=LONGEST)] | None = None
    in_: Searched = msgspec.field(name="in", default=Searched.JOBS)


class Candidates(msgspec.Struct):
    """Each `text` may replace the characters from `start` up to `end`. Places are in characters (code points), counted
    from 0."""

    start: int
    end: int
    candidates: list[Suggestion]


@ROUTES.get("/api/v1/search/complete", Permission.READ, "The continuations of a query that is being typed")
async def complete_query(request: Request[None, CompletionQuery]) -> Candidates:
    query = request.query
    if query.at is not None and query.at > len(query.text):
        raise InvalidInput("at", query.at, f"a place in the text, from 0 to {len(query.text)}")
    found = await completed(request.jobs, query.text, query.at, query.in_)
    return Candidates(found.start, found.end, list(found.candidates))
