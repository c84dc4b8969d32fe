"""A far-away worker as the server sees it: its access key, its incarnation and its calls."""

from __future__ import annotations

from collections.abc import Sequence

from rota.api.far_workers import FarWorkers
from rota.model.access import Grant, Role
from rota.model.job import Claimed, Kind, Verdict
from rota.model.outcome import Outcome
from rota.model.task import TaskInfo
from rota.model.times import SECOND
from rota.remote import work_calls as calls
from tests.contracts.world import DONE, OFFERED, settled


def worker_key(key: str = "k1", user: str = "anna", queues: Sequence[str] = ()) -> Grant:
    return Grant(key=key, user=user, role=Role.WORKER, queues=tuple(queues))


class Far:
    def __init__(self, door: FarWorkers, grant: Grant, incarnation: str, name: str = "") -> None:
        self.door, self.grant, self.incarnation = door, grant, incarnation
        self.name = name or f"far-{incarnation}"
        self._claims = 0

    def registration(self, **changes: object) -> calls.RegisterCall:
        given: dict[str, object] = {
            "incarnation": self.incarnation, "id": self.name, "roles": ("worker",), "queues": {"default": 4},
            "version": "1.0", "lease": 10 * SECOND, "tasks": tuple(OFFERED),
        }  # fmt: skip
        return calls.RegisterCall(**{**given, **changes})  # type: ignore[arg-type]

    async def join(self, tasks: Sequence[TaskInfo] = OFFERED, **changes: object) -> Far:
        await self.door.register(self.grant, self.registration(tasks=tuple(tasks), **changes))
        return self

    def claim_call(self, claim: str = "", count: int = 10, queue: str = "default", start: int = 10) -> calls.ClaimCall:
        self._claims += 1
        return calls.ClaimCall(
            self.incarnation, claim or f"claim{self._claims}", {queue: count}, tuple(Kind), {queue: start}
        )

    async def claim(
        self, claim: str = "", count: int = 10, queue: str = "default", start: int = 10
    ) -> calls.ClaimedJobs:
        return await self.door.claim(self.grant, self.claim_call(claim, count, queue, start))

    async def take(self) -> tuple[Claimed, str]:
        found = await self.claim(count=1)
        ((job,), (ticket,)) = found.jobs, found.tickets
        return job, ticket

    async def finish(self, job: Claimed, ticket: str, result: Outcome = DONE) -> Verdict:
        call = calls.FinishCall(self.incarnation, (ticket,), (settled(job, result),))
        return (await self.door.finish(self.grant, call)).verdicts[0]

    async def renew(self, line: str | None = None) -> calls.Renewed:
        return await self.door.renew(self.grant, calls.RenewCall(self.incarnation, line=line))
