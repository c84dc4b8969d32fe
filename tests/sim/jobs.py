"""The jobs of the simulation: how long they take, what they do, how they end, and how they take a stop.

They note their doings themselves, so that what really ran is known without asking rota.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from rota.logs.capture import OutputWriter
from rota.model.job import Ref
from rota.signals import Cancel, Fatal, RetryAfter, Snooze
from rota.tasks.context import Context

if TYPE_CHECKING:
    from tests.sim.runtime import SimRuntime

# What is no part of the node's process: it goes on when that is stopped, and can crash without it.
APART = ("command", "process", "host")
CRASHED, EVICTED = "crashed", "evicted"  # evicted: the process that it shared was killed because of a neighbour
# How jobs end, and how many of a hundred; the last three only functions can.
ENDINGS = {"succeeded": 63, "failed": 20, "fatal": 5, "snoozed": 5, "retry_after": 4, "cancelled": 3}
ROUTINE = {"succeeded": 85, "failed": 10, "fatal": 5}
FOREVER = 10_000.0
Save = Callable[[Any], Awaitable[Any]]
Tell = Callable[[float, str], None]


@dataclass(frozen=True)
class Script:
    """How one attempt will go if nobody stops it."""

    pauses: tuple[float, ...]  # between what it does
    ending: str
    obeys: float | None  # after how long it stops when it is told to; None: not at all


def write_script(rng: Random, kind: str, may_hang: bool, rude_rate: float, crashes: bool = False) -> Script:
    pauses = [rng.expovariate(1.0) * rng.choice([0.1, 3, 6]) for _ in range(rng.randint(1, 3))]
    if may_hang and rng.random() < 0.15:
        pauses.append(FOREVER)
    obeys = None if rng.random() < rude_rate else rng.choice([0.0, rng.uniform(0, 1), rng.uniform(0, 4)])
    endings = list(ENDINGS)[:3] if kind == "command" else list(ENDINGS)
    ending = rng.choices(endings, [ENDINGS[ending] for ending in endings])[0]
    return Script(tuple(pauses), CRASHED if crashes else ending, obeys)


def write_routine(rng: Random, rude_rate: float, crashes: bool = False) -> Script:
    """What schedules order: mostly short, as it comes again and again."""
    pauses = [rng.expovariate(1.0) * rng.choice([0.02, 0.3, 0.3, 1.5]) for _ in range(rng.randint(1, 2))]
    obeys = None if rng.random() < rude_rate else rng.choice([0.0, rng.uniform(0, 1)])
    ending = rng.choices(list(ROUTINE), list(ROUTINE.values()))[0]
    return Script(tuple(pauses), CRASHED if crashes else ending, obeys)


class Work:
    """One attempt, really running: a process of its own, or a thread of the node."""

    def __init__(self, runtime: SimRuntime, ref: Ref, sink: OutputWriter, script: Script, kind: str) -> None:
        self.runtime, self.ref, self.kind = runtime, ref, kind
        self._sink, self._script = sink, script
        self.process = runtime.loop.process(f"{runtime.life.name}/{ref.job_id[-4:]}/{ref.fence}")
        self.began = self.ended = self.stopped = False
        self.how = ""
        self.exit: asyncio.Future[None] = runtime.loop.create_future()
        self._told = asyncio.Event()

    async def perform(self, save: Save | None = None, tell: Tell | None = None) -> None:
        """What it does; `save` keeps how far it is for the next attempt, `tell` is for those who look on."""
        self.began = True
        self._note("started", kind=self.kind, incarnation=self.runtime.incarnation)
        for number, pause in enumerate(self._script.pauses):
            if await self._is_told_within(pause):
                self.stopped = True
                await asyncio.sleep(self._script.obeys or 0)
                break
            self._act(number)
            if tell and number == 0:
                tell(0.5, f"{self.ref.fence}")
            if save:
                await self._keep(save, number)
        if not self.stopped and self._script.ending == CRASHED:
            self.runtime.crash(self)
        self.end("stopped" if self.stopped else self._script.ending)

    async def _is_told_within(self, pause: float) -> bool:
        if self._script.obeys is None:
            await asyncio.sleep(pause)
            return False
        try:
            async with asyncio.timeout(pause):
                await self._told.wait()
        except TimeoutError:
            return False
        return True

    def _act(self, number: int) -> None:
        line = f"{self.ref.job_id}/{self.ref.fence}/{number}\n"
        self._note("effect", line=line.strip())
        # Other processes write into a pipe, which the node reads when it can; threads share the node's memory.
        if self.kind in APART:
            self.runtime.loop.call_soon(
                self._sink.write, "stdout", line.encode(), context=self.runtime.life.process.context
            )
        else:
            self.runtime.life.process.context.copy().run(self._sink.write, "stdout", line.encode())

    async def _keep(self, save: Save, number: int) -> None:
        """Until it is kept or refused, or this work is told to stop."""
        self._note("saving", number=number)
        saving = asyncio.ensure_future(save([self.ref.fence, number]))
        told = asyncio.ensure_future(self._told.wait())
        awaited = {saving} if self._script.obeys is None else {saving, told}
        try:
            await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
            if saving.done() and saving.exception() is None:
                self._note("saved", number=number)
        finally:
            saving.cancel()
            told.cancel()

    def saw(self, state: list[int] | None) -> None:
        self._note("saw", state=state)

    def conclude(self) -> str:
        """What the function returns or raises at its end."""
        if self.stopped:
            raise asyncio.CancelledError
        match self._script.ending:
            case "failed":
                raise ValueError("simulated")
            case "fatal":
                raise Fatal("simulated")
            case "snoozed":
                raise Snooze("2s")
            case "retry_after":
                raise RetryAfter("1s")
            case "cancelled":
                raise Cancel("by itself")
        return f"{self.ref.job_id}/{self.ref.fence}"

    @property
    def ending(self) -> str:
        return "stopped" if self.stopped else self._script.ending

    def tell(self) -> None:
        self._told.set()
        if self._script.obeys is None and self.kind not in APART:
            self.runtime.life.leaks = True

    def end(self, how: str) -> None:
        """It does nothing any more from here on."""
        if not self.ended:
            self.ended, self.how = True, how
            if self.began:
                self._note("ended", how=how)
            self.runtime.works.remove(self)
            self.exit.set_result(None)

    def kill(self, how: str = "killed") -> None:
        if not self.ended:
            self.process.dead = True
            self.end(how)

    def _note(self, what: str, **data: object) -> None:
        self.runtime.world.witness.note(self.runtime.life.name, what, self.ref.job_id, self.ref.fence, **data)


class Stage:
    """Where the functions of the simulated app find out which work they are."""

    def __init__(self) -> None:
        self.works: dict[tuple[str, int, str], Work] = {}

    async def play(self, ctx: Context) -> str:
        work = self.works[ctx.job.id, ctx.fence, "play"]
        work.saw(ctx.state)
        await work.perform(ctx.save, ctx.progress)
        return work.conclude()

    def grind(self, ctx: Context) -> str:
        return self.works[ctx.job.id, ctx.fence, "grind"].conclude()
