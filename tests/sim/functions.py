"""Plays rota.work.functions: functions in played processes, sync ones in one each, async ones in one that they share.
What has crashed before gets one of its own.

Such a process can die without its node: then all that ran in it has crashed. And if one that shares it does not stop
when it is told to, it is killed: then its neighbours are put back, uncounted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

import msgspec

from rota.model.outcome import Crashed, Interrupted, Outcome, Problem
from rota.tasks.catalogue import TaskDef
from rota.work.attempt import TOO_LATE, Attempt, Stop
from rota.work.functions.ending import judge, succeeded
from tests.sim.jobs import CRASHED, EVICTED, Work

if TYPE_CHECKING:
    from tests.sim.runtime import SimRuntime

MAX_RESULT = 1 << 20


class SimPool:
    def __init__(self, runtime: SimRuntime, kill_grace: float) -> None:
        self._runtime, self._kill_grace = runtime, kill_grace

    def takes(self, task: TaskDef) -> bool:
        return self._runtime.world.plan.pool

    async def run(self, task: TaskDef, attempt: Attempt) -> Outcome:
        runtime, claimed = self._runtime, attempt.claimed
        await asyncio.sleep(runtime.world.rng.uniform(0.001, 0.01))
        if runtime.closed:
            return Interrupted("its node stopped")
        if attempt.too_late():
            return Interrupted(TOO_LATE)
        work = runtime.begin(claimed.ref, attempt.sink, "host" if task.is_async and not claimed.crashes else "process")
        work.saw(None if claimed.state is None else msgspec.json.decode(claimed.state))

        def save(state: Any) -> Awaitable[None]:
            return asyncio.wrap_future(attempt.book.save(msgspec.json.encode(state).decode()))

        runtime.loop.create_task(work.perform(save, attempt.book.progress), context=work.process.context)
        attempt.on_stop(lambda reason: self._stop(work, reason))
        await work.exit
        return _outcome(work)

    def _stop(self, work: Work, reason: Stop) -> None:
        if reason is Stop.LOST:
            self._end(work)
        else:
            work.tell()
            self._runtime.loop.call_later(self._kill_grace, self._end, work)

    def _end(self, work: Work) -> None:
        if not work.ended:
            neighbours = [one for one in self._runtime.works if one.kind == "host" and one is not work]
            work.kill()
            for other in neighbours if work.kind == "host" else []:
                other.kill(EVICTED)


def _outcome(work: Work) -> Outcome:
    if work.how == CRASHED:
        return Crashed(Problem("rota.ExecutorCrashed", "simulated"))
    if work.how in (EVICTED, "killed"):
        return Interrupted(f"simulated: {work.how}")
    try:
        return succeeded(work.conclude(), MAX_RESULT)
    except BaseException as error:
        return judge(error)
