"""Orders `within` a transaction of the code under test.

A store in memory has no transactions but its own. There the harness takes any connection, a mock too, and accepts the
order at once: it stays if the code rolls back. On a PostgreSQL store the order is part of the caller's transaction, as
in production; the harness records it when it is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rota.callers import CallerClients
from rota.clients.jobs import JobsClient, KnownTasks
from rota.clients.schedules import SchedulesClient
from rota.handles import schedule_builder
from rota.handles.schedule import Schedule
from rota.model.job import JobInfo, NewJob, Submitted
from rota.testing.connections import HarnessConnections, WatchedClient

if TYPE_CHECKING:
    from rota.app_core import AppCore


class HarnessCallers(CallerClients):
    def __init__(self, opened: HarnessConnections, in_memory: bool) -> None:
        super().__init__(opened, inline=True)
        self._harness, self._in_memory = opened, in_memory

    async def jobs(self, app: AppCore, connection: Any, waits: bool) -> JobsClient:
        if not self._in_memory:
            made = await super().jobs(app, connection, waits)
            return WatchedClient(made.store, made.who, made.chance, self._harness, committed=False)
        client = self._harness.client
        assert client is not None, "the harness has opened it"
        kind = WatchedClient if waits else _BlockingClient
        return kind(client.store, client.who, client.chance, self._harness)

    async def schedule(self, app: AppCore, connection: Any, waits: bool, given: tuple[str, Any, Any, Any]) -> Schedule:
        if not self._in_memory:
            return await super().schedule(app, connection, waits, given)
        built = schedule_builder.build(app, *given)
        store = (await self.jobs(app, connection, waits)).store
        saved = SchedulesClient(store, app.who, app.chance).save(*built)
        if waits:
            await saved
        else:
            self._harness.block(saved)
        return Schedule(app, given[0])


class _BlockingClient(WatchedClient):
    """For sync code, which has no loop to await on: each call is over when it returns."""

    async def make_known(self, tasks: KnownTasks) -> None:
        self._harness.block(super().make_known(tasks))

    async def submit_whole(self, jobs: Sequence[NewJob]) -> list[Submitted]:
        return self._harness.block(super().submit_whole(jobs))

    async def get(self, job_id: str) -> JobInfo:
        return self._harness.block(super().get(job_id))

    async def workflow(self, part: str) -> str:
        return self._harness.block(super().workflow(part))
