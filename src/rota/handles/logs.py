"""`Logs`: the output of many jobs, line by line."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING

from rota.clients import line_searches
from rota.clients.line_tail import LineTail
from rota.model.query.fields import Searched
from rota.model.query.parse import parse
from rota.model.readers import whole
from rota.store.found_lines import FoundLine, LineQuery

if TYPE_CHECKING:
    from rota.app_core import AppCore


LARGEST = 1_000_000_000


class Logs:
    def __init__(self, app: AppCore) -> None:
        self._app = app

    def __repr__(self) -> str:
        return f"Logs({self._app!r})"

    async def search(
        self, query: str = "", *, before: int = 0, after: int = 0, limit: int | None = None
    ) -> AsyncIterator[FoundLine]:
        """The lines that fit a query for output (docs/search.md), newest first, as they are found. `before` and
        `after`: lines of context; `limit`: at most so many lines, all if None."""
        async with aclosing(self._found(query, before, after, limit)) as lists:
            async for lines in lists:
                for line in lines:
                    yield line

    def search_sync(
        self, query: str = "", *, before: int = 0, after: int = 0, limit: int | None = None
    ) -> Iterator[FoundLine]:
        return self._steps(self._found(query, before, after, limit))

    async def _found(
        self, query: str, before: int, after: int, limit: int | None
    ) -> AsyncGenerator[list[FoundLine], None]:
        most = None if limit is None else whole(limit, "limit", 1, LARGEST)
        client = await self._app.client()
        where = parse(query, client.store.now(), Searched.OUTPUT)
        given = LineQuery(where=where, before=before, after=after, limit=line_searches.PAGE)
        async with aclosing(line_searches.pages(client.store, client.who, given, most)) as pages:
            async for page in pages:
                yield page.lines

    async def tail(self, query: str = "") -> AsyncIterator[FoundLine]:
        """The lines of all jobs that fit a query for output (docs/search.md), from the first step on, without an
        end."""
        async with aclosing(self._lists(query)) as lists:
            async for lines in lists:
                for line in lines:
                    yield line

    def tail_sync(self, query: str = "") -> Iterator[FoundLine]:
        return self._steps(self._lists(query))

    def _steps(self, lists: AsyncGenerator[list[FoundLine], None]) -> Iterator[FoundLine]:
        try:
            while (lines := self._app.sync(_next(lists))) is not None:
                yield from lines
        finally:
            self._app.sync(_close(lists))

    async def _lists(self, query: str) -> AsyncGenerator[list[FoundLine], None]:
        client = await self._app.client()
        tail = LineTail(client.store, client.who, parse(query, client.store.now(), Searched.OUTPUT))
        async with aclosing(tail.placed()) as looks:
            async for placed in looks:
                if placed:
                    yield [line for line, _ in placed]


async def _next(lists: AsyncGenerator[list[FoundLine], None]) -> list[FoundLine] | None:
    return await anext(lists, None)


async def _close(lists: AsyncGenerator[list[FoundLine], None]) -> None:
    await lists.aclose()
