"""`rota logs search`: lines of output that fit a query, newest first, as they are found."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from rota.api.line_places import LineCursor
from rota.cli.line_queries import check_lines, where_of_lines
from rota.cli.line_rows import LineRows
from rota.cli.live import Bar
from rota.cli.session import existing
from rota.cli.show import complain, on_terminal
from rota.clients import line_searches
from rota.clients.jobs import JobsClient
from rota.errors import InvalidInput
from rota.model.times import aware, iso
from rota.store.found_lines import LineProgress, LineQuery
from rota.store.line_search.page import MOST_CONTEXT

LIMIT = 100


async def search_(args: argparse.Namespace) -> int:
    check_lines(args)
    search = _Search(args)
    async with existing(args) as client:
        await search.run(client)
    return 0


class _Search:
    def __init__(self, args: argparse.Namespace) -> None:
        self._args, self._limit = args, LIMIT if args.limit is None else args.limit
        self._before, self._after = _context(args, "before_context"), _context(args, "after_context")
        self._cursor = None if args.after is None else self._read(args.after)
        self._bar = Bar(not args.json)
        self._shown = self._unreadable = 0

    def _read(self, given: str) -> LineCursor:
        try:
            return LineCursor.read(given, self._conditions)
        except InvalidInput:
            expected = "where an earlier search with the same query and context has stopped"
            raise InvalidInput("--after", given, expected) from None

    @property
    def _conditions(self) -> dict[str, Any]:
        return {"query": self._args.query, "stream": self._args.stream, "context": [self._before, self._after]}

    @property
    def _place(self) -> str | None:
        return None if self._cursor is None else self._cursor.text(self._conditions)

    async def run(self, client: JobsClient) -> None:
        try:
            await self._show(client)
        except asyncio.CancelledError:  # Ctrl-C
            if self._place is not None and not self._args.json:
                complain(f"stopped; it goes on with --after {self._place}")
            raise
        finally:
            self._bar.show("")
        if self._unreadable:
            complain(f"{self._unreadable} segments of output are damaged and were not searched; see `rota doctor`")
        if not on_terminal() or self._args.json:
            return
        if not self._shown and self._place is None:
            print("(no line fits)")
        if self._place is not None:
            print(f"({self._shown} shown; there may be more: --limit N, or --after {self._place})")

    async def _show(self, client: JobsClient) -> None:
        rows = LineRows(self._args.json, whole_times=True, context=bool(self._before or self._after))
        now = client.store.now() if self._cursor is None else self._cursor.now
        query = LineQuery(
            where=where_of_lines(self._args, now), before=self._before, after=self._after,
            place=None if self._cursor is None else self._cursor.place, limit=line_searches.PAGE,
        )  # fmt: skip
        async for page in line_searches.pages(client.store, client.who, query, most=self._limit):
            with self._bar.aside(b"\n" * bool(page.lines), on_terminal()):
                rows.print(page.lines)
            self._shown += len(page.lines)
            self._unreadable += page.progress.unreadable
            self._cursor = None if page.last is None else LineCursor.before(page.last, now)
            self._tell(page.progress)

    def _tell(self, progress: LineProgress) -> None:
        if not progress.of:
            return
        back = "" if progress.back_to is None else f", back to {iso(aware(progress.back_to))[:19].replace('T', ' ')}Z"
        self._bar.show(f"{_size(progress.examined)} of {_size(progress.of)} searched{back}")


def _context(args: argparse.Namespace, name: str) -> int:
    """`-C` counts where the option for one side was not given."""
    given = getattr(args, name)
    option, lines = ("--context", args.context) if given is None else (f"--{name.replace('_', '-')}", given)
    if lines is not None and not 0 <= lines <= MOST_CONTEXT:
        raise InvalidInput(option, lines, f"a number of lines from 0 to {MOST_CONTEXT}")
    return lines or 0


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
