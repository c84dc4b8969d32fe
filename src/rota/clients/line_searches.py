"""Searches of output: a query with an instant that its relative times count from, and a walk over its pages."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from rota.model.principal import Principal
from rota.model.query.fields import Searched
from rota.model.query.parse import parse
from rota.model.times import Instant
from rota.store.base import Store
from rota.store.found_lines import LinePage, LinePlace, LineQuery

PAGE = 100


def line_query(
    text: str, now: Instant, *, before: int = 0, after: int = 0, place: LinePlace | None = None, limit: int = PAGE
) -> LineQuery:
    """Raises InvalidQuery."""
    where = parse(text, now, Searched.OUTPUT)
    return LineQuery(where=where, before=before, after=after, place=place, limit=limit)


async def pages(store: Store, who: Principal, query: LineQuery, most: int | None = None) -> AsyncIterator[LinePage]:
    """Until so many lines were found, at most `query.limit` in a page; None: all lines."""
    while True:
        size = query.limit if most is None else min(query.limit, most)
        page = await store.find_lines(who, msgspec.structs.replace(query, limit=size))
        yield page
        most = None if most is None else most - len(page.lines)
        if page.last is None or most == 0:
            return
        query = msgspec.structs.replace(query, place=page.last)
