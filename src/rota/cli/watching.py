"""`--watch`: a list of jobs that is kept live until Ctrl-C.

The store's wake-ups say when to look again; a look every `BACKSTOP` seconds finds what they don't tell, such as the
start of a job. Each look is the whole search again, with the times of its query counted from then, so after a slow look
comes a long pause. A terminal shows the list as it is; a pipe gets a line for each job that is new or has changed.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
from collections.abc import Hashable, Sequence

import msgspec

from rota.cli.columns import Column, cells, names_for
from rota.cli.job_rows import headers, rows
from rota.cli.many import counted
from rota.cli.searching import Search
from rota.cli.show import Cell, Table, json_line, on_terminal, safe, table
from rota.clients.jobs import JobsClient, NewsListener
from rota.errors import StoreUnavailable
from rota.model.job import JobInfo
from rota.model.lifecycle import State
from rota.model.times import aware, iso
from rota.store.values import Topic
from rota.views.jobs import JobView

TOPICS = frozenset({Topic.READY, Topic.DUE, Topic.TIES, Topic.GATE, Topic.NEWS})
BACKSTOP = 1.0
PAUSE = 0.2  # seconds between two looks, at least, and
SHARE = 4  # so many times what the last look took
_ENTER, _LEAVE, _FRESH = "\x1b[?1049h", "\x1b[?1049l", "\x1b[H\x1b[J"
_FRAME = 3  # lines of the screen that show no job


async def watch(
    args: argparse.Namespace, client: JobsClient, states: tuple[State, ...] | None, columns: Sequence[Column]
) -> int:
    on_screen = on_terminal() and not args.json
    shown = _Screen(client, columns) if on_screen else _Lines(client, columns, args.json)
    news = NewsListener(client.store, TOPICS)
    clock = asyncio.get_running_loop().time
    begun = False
    try:
        while True:
            start = clock()
            try:
                search = Search(args, client, states, told=not begun)
                await search.begin()
                await shown.show([job async for part in search.pages() for job in part])
                begun = True
            except StoreUnavailable as error:  # it may be back at the next look
                if not begun:
                    raise
                shown.trouble(str(error))
            await asyncio.sleep(max(PAUSE, SHARE * (clock() - start)))
            await news.wait(BACKSTOP)
    finally:
        news.close()
        shown.close()


class _Screen:
    """The whole list, drawn again on the terminal's other screen; the last one stays when that is left."""

    def __init__(self, client: JobsClient, columns: Sequence[Column]) -> None:
        self._client, self._columns = client, columns
        self._rows: Sequence[Sequence[Cell]] = ()
        self._trouble = ""
        self._open = False

    async def show(self, jobs: Sequence[JobInfo]) -> None:
        self._rows = await rows(self._client, self._columns, jobs)
        self._trouble = ""
        self._draw()

    def trouble(self, text: str) -> None:
        self._trouble = f"; {text}"
        self._draw()

    def _draw(self) -> None:
        sys.stdout.write(_FRESH if self._open else _ENTER + _FRESH)
        self._open = True
        room = max(shutil.get_terminal_size().lines - _FRAME, 1)
        table(headers(self._columns), self._rows[:room])
        at = iso(aware(self._client.store.now()))[11:19]
        print(f"{at}Z  {counted(len(self._rows), 'job')}; Ctrl-C ends{safe(self._trouble)}", end="", flush=True)

    def close(self) -> None:
        if self._open:
            sys.stdout.write(_LEAVE)
            table(headers(self._columns), self._rows)


class _Lines:
    """A line for each job that is new or has changed; at first the list, then the oldest changed job first."""

    def __init__(self, client: JobsClient, columns: Sequence[Column], json: bool) -> None:
        self._client, self._columns, self._json = client, columns, json
        self._known: dict[str, Hashable] | None = None
        self._table = Table(headers(columns))

    async def show(self, jobs: Sequence[JobInfo]) -> None:
        keys = dict(zip((job.id for job in jobs), await self._keys(jobs), strict=True))
        known, self._known = self._known, keys
        if known is None:
            await self._print(jobs)
        else:
            await self._print([job for job in reversed(jobs) if known.get(job.id) != keys[job.id]])

    async def _keys(self, jobs: Sequence[JobInfo]) -> list[Hashable]:
        """What a change is a change of: not the ages in the usual columns."""
        if self._json:
            return [msgspec.json.encode(JobView.of(job)) for job in jobs]
        if self._columns:
            names = await names_for(self._client, self._columns, jobs)
            return [cells(self._columns, job, names) for job in jobs]
        return [(job.state, job.cancelling, job.queue, job.priority, len(job.attempts), job.reason) for job in jobs]

    async def _print(self, jobs: Sequence[JobInfo]) -> None:
        if not self._json:
            self._table.add(await rows(self._client, self._columns, jobs))
            return
        for job in jobs:
            json_line(JobView.of(job))

    def trouble(self, text: str) -> None:
        """The lines go on when the store is back."""

    def close(self) -> None:
        pass
