"""`Schedule`: a handle for a rule that makes jobs, by its name."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from rota.clients.schedules import MOST
from rota.handles.handle import Handle, core_of, id_of
from rota.handles.job import Job
from rota.model.readers import whole
from rota.model.times import instant
from rota.model.trigger.records import Fate, FireInfo, ScheduleInfo
from rota.model.trigger.zones import zone

if TYPE_CHECKING:
    from rota.app import App
    from rota.app_core import AppCore
    from rota.clients.schedules import BackfillProgress


class Schedule(Handle):
    def __init__(self, app: App | AppCore, name: str) -> None:
        self._app, self.name = core_of(app), id_of(name, "schedule")

    def _identity(self) -> tuple[type[Handle], str]:
        return Schedule, self.name

    def __repr__(self) -> str:
        return f"Schedule({self.name!r})"

    async def info(self) -> ScheduleInfo:
        """The schedule as it is now."""
        return (await (await self._app.planning()).get(self.name)).shown()

    async def next(self, count: int = 1) -> list[datetime]:
        """Its next fires, in its own time zone."""
        whole(count, "count", 0, MOST)
        planning = await self._app.planning()
        parsed = await planning.parsed(await planning.get(self.name))
        where = zone(parsed.schedule.zone)
        return [where.local(fire) for fire in await planning.upcoming(self.name, count)]

    async def pause(self, note: str = "") -> ScheduleInfo:
        """Its fires are skipped from now on, and recorded as such."""
        return (await (await self._app.planning()).pause(self.name, note)).shown()

    async def resume(self) -> ScheduleInfo:
        return (await (await self._app.planning()).resume(self.name)).shown()

    async def fire(self) -> Job[Any] | None:
        """Makes a job now, beside the rule. None: its overlap policy is `skip`, and an earlier one still lives."""
        fate, job_id = await (await self._app.planning()).fire(self.name)
        return None if fate is Fate.SKIPPED else Job(self._app, job_id)

    async def backfill(
        self, start: datetime | str, end: datetime | str, *, dry_run: bool = False, many: bool = False
    ) -> BackfillProgress:
        """Makes the fires of a past span that were not made yet; `many` allows more than 10,000."""
        planning = await self._app.planning()
        steps = planning.backfill(self.name, instant(start, "start"), instant(end, "end"), dry_run=dry_run, many=many)
        return [progress async for progress in steps][-1]

    async def history(self, limit: int = 100) -> list[FireInfo]:
        """The record of its fires, latest first: made or skipped, and why."""
        return await (await self._app.planning()).history(self.name, limit)

    async def remove(self) -> None:
        """Removes the schedule; jobs that it made stay as they are."""
        await (await self._app.planning()).remove(self.name)

    # The sync face: the same calls for code that has no event loop.

    def info_sync(self) -> ScheduleInfo:
        return self._app.sync(self.info())

    def next_sync(self, count: int = 1) -> list[datetime]:
        return self._app.sync(self.next(count))

    def pause_sync(self, note: str = "") -> ScheduleInfo:
        return self._app.sync(self.pause(note))

    def resume_sync(self) -> ScheduleInfo:
        return self._app.sync(self.resume())

    def fire_sync(self) -> Job[Any] | None:
        return self._app.sync(self.fire())

    def backfill_sync(
        self, start: datetime | str, end: datetime | str, *, dry_run: bool = False, many: bool = False
    ) -> BackfillProgress:
        return self._app.sync(self.backfill(start, end, dry_run=dry_run, many=many))

    def history_sync(self, limit: int = 100) -> list[FireInfo]:
        return self._app.sync(self.history(limit))

    def remove_sync(self) -> None:
        self._app.sync(self.remove())
