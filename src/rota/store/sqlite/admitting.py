"""The verbs of `store.admission` and `store.offers`, each one transaction."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Concatenate, ParamSpec, TypeVar

from rota.model.feedback import Feedback
from rota.model.gates import Gate
from rota.model.limits import Limit
from rota.model.principal import Principal
from rota.model.task import TaskInfo
from rota.model.times import Duration, Instant
from rota.store import base
from rota.store.admission import Admission, Admitted, FlowInfo, LimitInfo, NewGate, QueueInfo, Used, Waiting
from rota.store.offers import Offers, Unoffered
from rota.store.sqlite import alone, gates, limits, offers, queues, ranking
from rota.store.sqlite.database import Database

T = TypeVar("T")
P = ParamSpec("P")


class Admitting(Admission, Offers):
    @abstractmethod
    async def _write(self, work: Callable[Concatenate[Database, P], T], *args: P.args, **named: P.kwargs) -> T: ...

    @abstractmethod
    async def _read(self, work: Callable[Concatenate[Database, P], T], *args: P.args, **named: P.kwargs) -> T: ...

    async def close_gate(self, who: Principal, gate: NewGate) -> Gate:
        return await self._write(gates.close, who, gate)

    async def open_gate(self, who: Principal, gate_id: str) -> bool:
        return await self._write(gates.open_, who, gate_id)

    async def gates(self, who: Principal) -> list[Gate]:
        return await self._read(gates.gates, who)

    async def set_limit(self, who: Principal, limit: Limit) -> None:
        await self._write(limits.set_limit, who, limit)

    async def remove_limit(self, who: Principal, key: str) -> bool:
        return await self._write(limits.remove_limit, who, key)

    async def limits(self, who: Principal, keys: Sequence[str] | None = None) -> list[LimitInfo]:
        return await self._read(limits.limits, who, keys)

    async def pause_queue(self, who: Principal, name: str, note: str) -> None:
        base.require_operator(who, "pause a queue")
        await self._write(queues.pause, who, name, note)

    async def resume_queue(self, who: Principal, name: str) -> bool:
        base.require_operator(who, "resume a queue")
        return await self._write(queues.resume, who, name)

    async def set_step(self, who: Principal, name: str, step: Duration | None) -> None:
        base.require_operator(who, "change the ageing of a queue")
        await self._write(ranking.set_step, who, name, step)

    async def set_feedback(self, who: Principal, name: str, rule: Feedback | None) -> None:
        base.require_operator(who, "change the feedback of a queue")
        await self._write(ranking.set_feedback, who, name, rule)

    async def flows(self, who: Principal, limit: int) -> list[FlowInfo]:
        return await self._read(ranking.flows, who, limit)

    async def charge(self, who: Principal, used: Used) -> None:
        base.require_system(who, "charge")
        if used:
            await self._write(ranking.charge, used)

    async def queues(self, who: Principal) -> list[QueueInfo]:
        return await self._read(queues.queues, who)

    async def reprioritise(self, who: Principal, ids: Sequence[str], priority: int) -> list[bool]:
        return await self._write(queues.reprioritise, who, ids, priority)

    async def waiting(self, who: Principal, job_id: str) -> Waiting | None:
        return await self._read(queues.waiting, who, job_id)

    async def admit(self, who: Principal, limit: int) -> Admitted:
        base.require_system(who, "admit")
        # Looking costs no write lock and no sync to disk; most looks find nothing to do.
        idle, next_at = await self._read(_look)
        return Admitted(0, False, next_at) if idle else await self._write(_admit, limit)

    async def make_known(self, who: Principal, tasks: Sequence[TaskInfo]) -> None:
        if new := await self._read(offers.unknown, tasks):
            await self._write(offers.make_known, new)

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


def _look(db: Database) -> tuple[bool, Instant | None]:
    """Is there nothing to do; and when will there be."""
    planned = limits.plan(db, every=True, most=1)
    idle = not (
        planned.goes or planned.more or planned.far or gates.at_work(db) or db.value("any_freed")
        or db.value("any_lone") or ranking.any_to_put_forward(db)
    )  # fmt: skip
    return idle, _first(planned.next_at, gates.next_opening(db), ranking.next_boost(db))


def _admit(db: Database, limit: int) -> Admitted:
    moved, more = gates.sweep(db, limit)
    lines = limits.hand_on(db, every=True, most=limit)
    db.run("all_lines_looked_at")
    let_go, look_again = alone.sweep(db)
    forward = ranking.sweep(db, limit)
    upcoming = _first(lines.next_at, gates.next_opening(db), ranking.next_boost(db), look_again)
    return Admitted(moved + lines.moved + let_go + forward, more or lines.more or forward >= limit, upcoming)


def _first(*instants: Instant | None) -> Instant | None:
    return min((at for at in instants if at is not None), default=None)
