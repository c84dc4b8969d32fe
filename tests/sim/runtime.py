"""The runtime of a simulated node: it plays jobs instead of running them, under a keeper that is true to the real one.

Commands are processes of their own: they go on while their node is paused, can always be killed, and crash. Functions
run in such processes too (`functions.py`), or in the node's: there they pause with it, and one that does not stop when
it is told lives until that process ends. The keeper is a process too: it kills everything at the lease deadline or when
the node is gone. It sleeps through its deadline only if the whole machine does.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING

from rota.logs.capture import OutputWriter
from rota.logs.masking import MaskedOutput
from rota.logs.shipper import Sink
from rota.model.job import Ref
from rota.model.outcome import Crashed, Failed, Outcome, Problem, Succeeded
from rota.store.forwarding import innermost
from rota.work.attempt import Attempt, Executor, Stop
from rota.work.executors.function import FunctionExecutor
from rota.work.functions.engine import Engine, FunctionCall, RunningCall
from rota.work.functions.in_node import InNode
from tests.sim.driver import SimStore
from tests.sim.functions import SimPool
from tests.sim.jobs import APART, CRASHED, Work, write_routine, write_script
from tests.sim.mutants import KEEPER_OFF

if TYPE_CHECKING:
    from tests.sim.machine import Life
    from tests.sim.world import World

MAX_RESULT = 1 << 20


class SimRuntime:
    def __init__(self, world: World, life: Life, guards: Sequence[int]) -> None:
        self.world, self.life, self.loop = world, life, world.loop
        self.keeper = self.loop.process(f"{life.name}/keeper")
        store = innermost(life.store)
        if isinstance(store, SimStore):
            self.incarnation = store.incarnation
            store.keep(self.keeper)
        else:
            self.incarnation = world.locks.incarnation(guards[0])
        self.closed = False
        self.works: list[Work] = []
        self._deadline: float | None = None
        self._alarm: asyncio.TimerHandle | None = None
        grace = float(world.plan.kill_grace)
        tasks = world.catalogue(life.machine.name)
        functions = FunctionExecutor(tasks, SimInNode(self), grace, SimPool(self, grace))
        self.executors: dict[str, Executor] = {"command": SimCommands(self, grace), "function": functions}
        life.runtimes.append(self)

    async def start(self) -> None:
        await asyncio.sleep(self.world.rng.uniform(0.01, 0.1))

    def able(self) -> Sequence[str]:
        return list(self.executors)

    def watch(self, more: Callable[[], None]) -> None: ...

    def guard(self, guards: Sequence[int]) -> None: ...

    def extend(self, deadline: float | None) -> None:
        if self._alarm:
            self._alarm.cancel()
        self._deadline = deadline
        if deadline is not None and not self.closed:
            self._alarm = self.loop.call_at(deadline, self._expire, context=self.keeper.context)

    async def close(self, stuck: bool = False) -> None:
        """Kills the commands and stops the loop of the async functions; threads can't be stopped, so the keeper
        stays."""
        if stuck:
            for work in list(self.works):
                if work.kind in APART:
                    work.kill()
            return
        self.closed = True
        self.extend(None)
        await asyncio.sleep(self.world.rng.uniform(0.001, 0.05))
        for work in list(self.works):
            if work.kind != "grind":
                work.kill()
        self.keeper.dead = True

    # -- the keeper --------------------------------------------------------------------------------------------------
    def _expire(self) -> None:
        if self.world.mutant == KEEPER_OFF:
            return
        # One that overslept needs a moment to come round, like everyone else.
        assert self._deadline is not None
        late = self.world.rng.uniform(0, 0.05) if self.loop.time() > self._deadline + 0.001 else 0.0
        self._alarm = self.loop.call_later(late, self._kill_all, context=self.keeper.context)

    def _kill_all(self) -> None:
        for work in list(self.works):
            work.kill()
        self.keeper.dead = True
        self.life.end("killed at its lease deadline")

    def orphan(self) -> None:
        """The node's process is gone. Its threads are too; the keeper notices and kills the rest."""
        for work in list(self.works):
            if work.kind not in APART:
                work.kill()
        delay = self.world.rng.uniform(0.001, 0.3)
        self.loop.call_later(delay, self._bury, context=self.keeper.context)

    def _bury(self) -> None:
        for work in list(self.works):
            work.kill()
        self.keeper.dead = True

    # -- works -------------------------------------------------------------------------------------------------------
    def begin(self, ref: Ref, sink: OutputWriter, kind: str) -> Work:
        plan, rng = self.world.plan, self.world.rng
        order = self.world.customer.orders.get(ref.job_id)
        rude = 0 if self.world.healed else plan.rude_rate
        crashes = kind in APART and self._crashes(ref.job_id)
        if order:
            script = write_script(rng, kind, order.timeout is not None, rude, crashes)
        else:
            script = write_routine(rng, rude, crashes)
        work = Work(self, ref, sink, script, kind)
        self.works.append(work)
        return work

    def _crashes(self, job_id: str) -> bool:
        plan = self.world.plan
        poison = Random(f"{plan.seed}/{job_id}").random() < plan.crash_rate
        return poison or (not self.world.healed and self.world.rng.random() < plan.crash_rate / 2)

    def crash(self, work: Work) -> None:
        """What it runs in dies, and all that share it."""
        for other in [one for one in self.works if one.kind == "host"] if work.kind == "host" else [work]:
            other.kill(CRASHED)

    def lose_all(self) -> None:
        """The keeper is killed, and all below it with it; there is another one at once."""
        for work in [one for one in self.works if one.kind in APART]:
            work.kill(CRASHED)


class SimCommands:
    """In the place of CommandExecutor."""

    def __init__(self, runtime: SimRuntime, kill_grace: float) -> None:
        self._runtime, self._kill_grace = runtime, kill_grace

    async def execute(self, attempt: Attempt) -> Outcome:
        await asyncio.sleep(self._runtime.world.rng.uniform(0.001, 0.01))
        if self._runtime.closed:
            return Failed(Problem("rota.SpawnError", "the keeper is closed"))
        work = self._runtime.begin(attempt.claimed.ref, attempt.sink, "command")
        self._runtime.loop.create_task(work.perform(), context=work.process.context)
        attempt.on_stop(lambda reason: self._stop(work, reason))
        await work.exit
        return _outcome(work)

    def _stop(self, work: Work, reason: Stop) -> None:
        if reason is Stop.LOST:
            work.kill()
        else:
            work.tell()
            self._runtime.loop.call_later(self._kill_grace, work.kill)


def _outcome(work: Work) -> Outcome:
    if work.how == CRASHED:
        return Crashed(Problem("rota.KeeperLost", "simulated"))
    if work.ending == "succeeded" and not work.process.dead:
        return Succeeded(exit_code=0)
    return Failed(Problem("rota.ExitCode", work.ending), fatal=work.ending == "fatal", exit_code=1)


class SimCall(RunningCall):
    """Plays a function inside of the node: async ones on a loop, sync ones in a thread."""

    _work: Work | None = None

    def _start(self, call: FunctionCall, context: contextvars.Context) -> None:
        assert isinstance(self._engine, SimEngine)
        sink = self._output._sink if isinstance(self._output, MaskedOutput) else self._output
        assert isinstance(sink, Sink)
        runtime, ref = self._engine.runtime, sink.ref
        kind = "play" if call.task.is_async else "grind"
        if runtime.closed and kind == "play":
            return  # its loop has stopped: the call never begins
        work = self._work = runtime.begin(ref, self._output, kind)
        runtime.world.stage.works[ref.job_id, ref.fence, kind] = work
        task = runtime.loop.create_task(_perform(call, work), context=work.process.context)
        task.add_done_callback(lambda done: self._end(done.result()))

    def stop(self, rude: bool) -> None:
        super().stop(rude)
        if self._work and (rude or self._work.kind == "play"):
            self._work.tell()


async def _perform(call: FunctionCall, work: Work) -> Outcome:
    if call.task.is_async:
        return await call.run_async()
    await work.perform()
    return call.run()


class SimEngine(Engine):
    call = SimCall
    runtime: SimRuntime


class SimInNode(InNode):
    """In the place of InNodeThreads. The runtime closes for all."""

    engine = SimEngine

    def __init__(self, runtime: SimRuntime) -> None:
        super().__init__(MAX_RESULT, runtime.loop)
        assert isinstance(self._engine, SimEngine)
        self._engine.runtime = runtime
