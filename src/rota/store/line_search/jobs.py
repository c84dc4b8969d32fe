"""The jobs of lines that a search has found, and what they decide: whether a line is shown at all, and what it says of
its attempt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rota.model.job import JobInfo
from rota.model.principal import Principal
from rota.model.query.evaluate import OutputLine, left_for_lines, line_holds
from rota.model.query.normal import fields_in
from rota.model.query.tree import NOTHING, Condition
from rota.store.found_lines import FoundLine
from rota.store.graph import WorkflowFilter
from rota.store.line_search.blocks import Found
from rota.store.line_search.plan import Plan
from rota.store.log_store import MOST_JOBS
from rota.store.values import JobFilter, JobPage

if TYPE_CHECKING:
    from rota.store.base import Store


class _Job(NamedTuple):
    task: str
    owner: str
    left: Condition  # for its lines
    attempts: dict[int, int]  # numbers by fence


class Jobs:
    def __init__(self, store: Store, who: Principal, plan: Plan) -> None:
        self._store, self._who, self._plan = store, who, plan
        self._known: dict[str, _Job | None] = {}  # None: it is gone, or none of its lines fits

    async def few(self) -> frozenset[str] | None:
        """The jobs that lines may be of, if these are few and a look finds them."""
        if not self._plan.selects_jobs:
            return None
        page = await self._store.page(self._who, JobFilter(where=self._plan.of_job, limit=MOST_JOBS))
        if page.last is not None:
            return None
        await self._learn(page.jobs)
        return frozenset(info.id for info in page.jobs)

    async def know(self, ids: Iterable[str]) -> None:
        unknown = sorted(set(ids) - self._known.keys())
        for start in range(0, len(unknown), MOST_JOBS):
            part = unknown[start : start + MOST_JOBS]
            self._known.update(dict.fromkeys(part))
            query = JobFilter(ids=tuple(part), where=self._plan.of_job, limit=len(part))
            page: JobPage | None = None
            while page is None or page.last is not None:
                page = await self._store.page(self._who, query)
                await self._learn(page.jobs)
                query = msgspec.structs.replace(query, after=page.last)

    async def _learn(self, infos: Sequence[JobInfo]) -> None:
        names = await self._names(infos)
        for info in infos:
            left = left_for_lines(self._plan.where, info, names.get(info.workflow or ""))
            attempts = {attempt.fence: attempt.number for attempt in info.attempts}
            self._known[info.id] = None if left == NOTHING else _Job(info.task, info.owner, left, attempts)

    async def _names(self, infos: Sequence[JobInfo]) -> dict[str, str]:
        ids = tuple({info.workflow for info in infos if info.workflow is not None})
        if not ids or "workflow" not in fields_in(self._plan.where):
            return {}
        found = await self._store.workflows(self._who, WorkflowFilter(ids=ids, limit=len(ids)))
        return {one.id: one.name for one in found}

    def fits(self, found: Found) -> bool:
        """Whether the line is shown. Its job must be known."""
        job, line = self._known[found.line.job_id], found.line
        if job is None or not self._plan.asks_jobs:
            return job is not None
        seen = OutputLine(line.text, line.at, line.stream, job.attempts.get(line.fence, 0), found.level)
        return line_holds(job.left, seen)

    def shown(self, found: Found) -> FoundLine:
        """A line that fits."""
        job, place = self._known[found.place.job_id], found.place
        assert job is not None
        return FoundLine(
            **msgspec.structs.asdict(found.shown), job_id=place.job_id, fence=place.fence,
            attempt=job.attempts.get(place.fence, 0), task=job.task, owner=job.owner, level=found.level,
            before=found.before, after=found.after,
        )  # fmt: skip
