"""A search of a list verb, page by page: the way that it has come is shown while it goes on, and where it stopped."""

from __future__ import annotations

import argparse
import re
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from rota.api.job_places import JobPlace
from rota.cli.live import Bar
from rota.cli.many import FILTERS, filter_of
from rota.cli.show import on_terminal
from rota.clients.job_queries import page_size
from rota.clients.jobs import JobsClient
from rota.errors import InvalidInput
from rota.model.job import JobInfo
from rota.model.lifecycle import State
from rota.model.query.evaluate import job_values
from rota.model.query.fields import sort
from rota.model.query.tree import How, Term
from rota.model.times import Instant, aware, iso
from rota.store.values import JobCursor, JobFilter, SearchProgress

_ID = re.compile(r"[0-9a-f-]{1,36}")


class Search:
    """The jobs of one call of a list verb. `begin` is called first. `told`: whether its progress is shown."""

    def __init__(
        self, args: argparse.Namespace, client: JobsClient, states: tuple[State, ...] | None, told: bool = True
    ) -> None:
        self._args, self._client, self._states = args, client, states
        self._examined = 0
        self._place: JobCursor | None = None
        self._at: Instant = 0
        self.query = JobFilter()
        self._bar = Bar(told)

    async def begin(self) -> None:
        given = self._given()
        self._at = self._client.store.now() if given is None else given.at
        query = await filter_of(self._args, self._client, self._states, self._at)
        self.query = msgspec.structs.replace(query, sort=sort(self._args.sort) if self._args.sort else None)
        if given is not None:
            self._place = given.cursor
        elif self._args.after is not None:
            self._place = await self._behind(self._args.after)

    def _given(self) -> JobPlace | None:
        """What `--after` holds, unless it is an id."""
        given = self._args.after
        if given is None or _ID.fullmatch(given.lower()):
            return None
        try:
            return JobPlace.read(given, self._conditions())
        except InvalidInput as error:
            raise InvalidInput("--after", given, f"the id of a job, or {error.expected}") from None

    def _conditions(self) -> dict[str, Any]:
        named = {name: getattr(self._args, name, None) for name in (*FILTERS, "sort")}
        return {"query": self._args.query, "states": self._states, **named}

    async def _behind(self, part: str) -> JobCursor:
        """The place of a job in the order of the list."""
        job = await self._client.get(await self._client.resolve(part))
        field = self.query.order.field
        values = job_values(Term(field, How.IS, None), job)
        value = values[0] if values else None
        if field == "finished":
            return JobCursor(job.id, value)
        return JobCursor(job.id) if field == "id" else JobCursor(job.id, value=value)

    @property
    def place(self) -> str | None:
        """What `--after` takes to go on behind the jobs that were shown; None: there are no more."""
        if self._place is None:
            return None
        return JobPlace.behind(self._place, self._at).text(self._conditions())

    async def pages(self) -> AsyncIterator[list[JobInfo]]:
        """The jobs, as they are found, at most `--limit`."""
        left = self.query.limit
        try:
            while True:
                page = await self._client.page(self._next(left))
                left -= len(page.jobs)
                if page.jobs:
                    with self._bar.aside(b"\n", on_terminal()):
                        yield page.jobs
                self._place = page.last
                if page.last is None or left <= 0:
                    return
                if page.progress is not None:
                    self._tell(page.progress)
        finally:
            self._bar.show("")

    def _next(self, left: int) -> JobFilter:
        return msgspec.structs.replace(self.query, limit=min(left, page_size(self.query)), after=self._place)

    def _tell(self, progress: SearchProgress) -> None:
        before, self._examined = self._examined, self._examined + progress.examined
        of = "" if progress.of is None else f" of about {before + progress.of:,}"
        back = "" if progress.back_to is None else f", back to {iso(aware(progress.back_to))[:16].replace('T', ' ')}Z"
        self._bar.show(f"{self._examined:,}{of} jobs examined{back}")
