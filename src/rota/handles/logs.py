"""`Logs`: the output of many jobs, line by line."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING

from rota.clients.line_tail import LineTail
from rota.model.query.fields import Searched
from rota.model.query.parse import parse
from rota.store.found_lines import FoundLine

if TYPE_CHECKING:
    from rota.app_core import AppCore


class Logs:
    def __init__(self, app: AppCore) -> None:
        self._app = app

    def __repr__(self) -> str:
        return f"Logs({self._app!r})"

    async def tail(self, query: str = "") -> AsyncIterator[FoundLine]:
        """The lines of all jobs that fit a query for output (docs/search.md), from the first step on, without an
        end."""
        async with aclosing(self._lists(query)) as lists:
            async for lines in lists:
                for line in lines:
                    yield line

    def tail_sync(self, query: str = "") -> Iterator[FoundLine]:
        lists = self._lists(query)
        try:
            while True:
                yield from self._app.sync(_next(lists))
        finally:
            self._app.sync(_close(lists))

    async def _lists(self, query: str) -> AsyncGenerator[list[FoundLine], None]:
        client = await self._app.client()
        tail = LineTail(client.store, client.who, parse(query, client.store.now(), Searched.OUTPUT))
        async with aclosing(tail.placed()) as looks:
            async for placed in looks:
                if placed:
                    yield [line for line, _ in placed]


async def _next(lists: AsyncGenerator[list[FoundLine], None]) -> list[FoundLine]:
    return await anext(lists)


async def _close(lists: AsyncGenerator[list[FoundLine], None]) -> None:
    await lists.aclose()
