"""A walk over the pages of a search of output."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import msgspec

from rota.model.principal import Principal
from rota.store.base import Store
from rota.store.found_lines import LinePage, LineQuery

PAGE = 100


async def pages(
    store: Store, who: Principal, query: LineQuery, most: int | None = None
) -> AsyncGenerator[LinePage, None]:
    """Until so many lines were found, at most `query.limit` in a page; None: all lines."""
    while True:
        size = query.limit if most is None else min(query.limit, most)
        page = await store.find_lines(who, msgspec.structs.replace(query, limit=size))
        yield page
        most = None if most is None else most - len(page.lines)
        if page.last is None or most == 0:
            return
        query = msgspec.structs.replace(query, place=page.last)
