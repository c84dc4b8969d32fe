"""The verbs of `store.admission` and `store.offers`, each one unit of work."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Concatenate, ParamSpec, TypeVar

from rota.model.feedback import Feedback
from rota.model.gates import Gate
from rota.model.limits import Limit
from rota.model.principal import Principal
from rota.model.task import TaskInfo
from rota.model.times import Duration
from rota.store import base
from rota.store.admission import Admission, Admitted, FlowInfo, LimitInfo, NewGate, QueueInfo, Used, Waiting
from rota.store.offers import Offers, Unoffered
from rota.store.postgres import admission, offers
from rota.store.postgres.database import Unit

T = TypeVar("T")
P = ParamSpec("P")


class Admitting(Admission, Offers):
    @abstractmethod
    async def _write(
        self, deed: Callable[Concatenate[Unit, P], Awaitable[T]], *args: P.args, **named: P.kwargs
    ) -> T: ...

    @abstractmethod
    async def _read(
        self, deed: Callable[Concatenate[Unit, P], Awaitable[T]], *args: P.args, **named: P.kwargs
    ) -> T: ...

    async def close_gate(self, who: Principal, gate: NewGate) -> Gate:
        return await self._write(admission.close_gate, who, gate)

    async def open_gate(self, who: Principal, gate_id: str) -> bool:
        return await self._write(admission.open_gate, who, gate_id)

    async def gates(self, who: Principal) -> list[Gate]:
        return await self._read(admission.gates, who)

    async def set_limit(self, who: Principal, limit: Limit) -> None:
        await self._write(admission.set_limit, who, limit)

    async def remove_limit(self, who: Principal, key: str) -> bool:
        return await self._write(admission.remove_limit, who, key)

    async def limits(self, who: Principal, keys: Sequence[str] | None = None) -> list[LimitInfo]:
        return await self._read(admission.limits, who, keys)

    async def pause_queue(self, who: Principal, name: str, note: str) -> None:
        base.require_operator(who, "pause a queue")
        await self._write(admission.pause_queue, who, name, note)

    async def resume_queue(self, who: Principal, name: str) -> bool:
        base.require_operator(who, "resume a queue")
        return await self._write(admission.resume_queue, who, name)

    async def set_step(self, who: Principal, name: str, step: Duration | None) -> None:
        base.require_operator(who, "change the ageing of a queue")
        await self._write(admission.set_step, who, name, step)

    async def set_feedback(self, who: Principal, name: str, rule: Feedback | None) -> None:
        base.require_operator(who, "change the feedback of a queue")
        await self._write(admission.set_feedback, who, name, rule)

    async def flows(self, who: Principal, limit: int) -> list[FlowInfo]:
        return await self._read(admission.flows, who, limit)

    async def charge(self, who: Principal, used: Used) -> None:
        base.require_system(who, "charge")
        if used:
            await self._write(admission.charge, used)

    async def queues(self, who: Principal) -> list[QueueInfo]:
        return await self._read(admission.queues, who)

    async def reprioritise(self, who: Principal, ids: Sequence[str], priority: int) -> list[bool]:
        return await self._write(admission.reprioritise, who, ids, priority)

    async def waiting(self, who: Principal, job_id: str) -> Waiting | None:
        return await self._read(admission.waiting, who, job_id)

    async def admit(self, who: Principal, limit: int) -> Admitted:
        base.require_system(who, "admit")
        return await self._write(admission.admit, limit)

    async def make_known(self, who: Principal, tasks: Sequence[TaskInfo]) -> None:
        await self._write(offers.make_known, tasks)

    async def unoffered(self, who: Principal) -> list[Unoffered]:
        base.require_system(who, "list")
        return await self._read(offers.unoffered)

    async def set_aside_unoffered(self, who: Principal, grace: Duration, limit: int) -> dict[str, int]:
        base.require_system(who, "set aside")
        gone: Counter[str] = Counter()
        for one in await self._read(offers.unoffered):
            if gone.total() < limit:
                gone[one.task] += await self._write(offers.set_aside, one, grace, limit)
        return dict(+gone)
