"""The tasks of runs in which executors crash: some that go on from what they saved, some that crash by themselves, some
that leave processes behind. In all three places: a process of their own, a thread, the loop that they share.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import rota
from tests.chaos.app import app, pen
from tests.chaos.saves import NOTHING, REFUSED, SAVED, SAVING, SAW
from tests.chaos.witness import ALIVE, CRASH, END, START, STOPPED, TICK, cast_shadow, note_save

__all__ = ["app"]

CRASHES: dict[str, Callable[[], object]] = {
    "abort": os.abort,
    "exit": lambda: os._exit(3),
    "segfault": lambda: ctypes.string_at(0),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
}


class Diary:
    """What one attempt does, in its own words."""

    def __init__(self, ctx: rota.Context, number: int) -> None:
        self._ctx, self._pen = ctx, pen(ctx, number)
        self._pen.note(START)
        self._save(SAW, NOTHING if ctx.state is None else ctx.state)

    @property
    def begun(self) -> int:
        """How many steps were done by those before it."""
        return 0 if self._ctx.state is None else int(self._ctx.state[1]) + 1

    def _save(self, word: str, state: Sequence[int]) -> None:
        note_save(word, self._ctx.job.id, self._ctx.fence, state)

    @contextmanager
    def step(self, number: int, steps: int) -> Iterator[list[int]]:
        """Gives what is to be saved."""
        self._pen.note(ALIVE)
        state = [self._ctx.fence, number]
        self._ctx.progress((number + 1) / steps, f"{self._ctx.fence}")
        self._save(SAVING, state)
        try:
            yield state
        except rota.Stale:
            self._save(REFUSED, state)
            raise
        self._save(SAVED, state)

    def alive(self) -> None:
        self._pen.note(ALIVE)

    def crash(self, how: str) -> None:
        self._pen.note(CRASH)
        CRASHES[how]()

    def stopped(self) -> None:
        self._pen.note(STOPPED)

    def end(self) -> int:
        self._pen.note(END)
        return self._ctx.fence


def _labour(number: int, steps: int, ctx: rota.Context) -> int:
    diary = Diary(ctx, number)
    for step in range(diary.begun, steps):
        time.sleep(TICK)
        with diary.step(step, steps) as state:
            ctx.save(state)
    return diary.end()


@app.task
def labour(number: int, steps: int, ctx: rota.Context) -> int:
    """In a process."""
    return _labour(number, steps, ctx)


@app.task(isolation="thread")
def attend(number: int, steps: int, ctx: rota.Context) -> int:
    """In a thread, beside others."""
    return _labour(number, steps, ctx)


@app.task
async def persevere(number: int, steps: int, ctx: rota.Context) -> int:
    """On the loop, beside others."""
    diary = Diary(ctx, number)
    try:
        for step in range(diary.begun, steps):
            await asyncio.sleep(TICK)
            with diary.step(step, steps) as state:
                await ctx.save(state)
    except asyncio.CancelledError:
        diary.stopped()
        raise
    return diary.end()


@app.task
def crash(number: int, how: str, times: int, ctx: rota.Context) -> int:
    """In a process. Its first so many attempts end in a crash."""
    diary = Diary(ctx, number)
    time.sleep(TICK)
    diary.alive()
    if ctx.fence <= times:
        diary.crash(how)
    return diary.end()


@app.task
async def crash_beside(number: int, how: str, times: int, ctx: rota.Context) -> int:
    """On the loop, beside others, who die with it."""
    diary = Diary(ctx, number)
    await asyncio.sleep(TICK)
    diary.alive()
    if ctx.fence <= times:
        diary.crash(how)
    return diary.end()


@app.task
def litter(number: int, steps: int, ctx: rota.Context) -> int:
    """In a process, and leaves another behind: whoever ends this attempt must find it."""
    cast_shadow(ctx.job.id, ctx.fence, number, os.environ["CHAOS_NODE"])
    return _labour(number, steps, ctx)
