"""The tasks that the nodes run: each says when it starts, that it is alive, and when it ends.

Witnesses look at the machine's clock. What rota takes for the wall clock of a node may be wrong by CHAOS_SKEW seconds.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence

import rota
from rota.clock import SystemClock
from tests.chaos.witness import ALIVE, END, START, STOPPED, Pen, note_fire, note_keys, slices

SKEW = float(os.environ.get("CHAOS_SKEW", "0"))


class Skewed(SystemClock):
    def now(self) -> int:
        return super().now() + round(SKEW * 1_000_000)


app = rota.App()
app._core.clock = Skewed()


def pen(ctx: rota.Context, number: int) -> Pen:
    return Pen(ctx.job.id, ctx.fence, number, os.environ["CHAOS_NODE"])


class Broken(Exception):
    """What fails on purpose."""


@app.task
async def linger(ctx: rota.Context, number: int, seconds: float, keys: Sequence[str] = ()) -> int:
    witness = pen(ctx, number)
    if keys:
        note_keys(ctx.job.id, keys)
    witness.note(START)
    try:
        for slice in slices(seconds):
            await asyncio.sleep(slice)
            witness.note(ALIVE)
    except asyncio.CancelledError:
        witness.note(STOPPED)
        raise
    witness.note(END)
    return ctx.fence


@app.task
def block(ctx: rota.Context, number: int, seconds: float, keys: Sequence[str] = ()) -> int:
    """Does not listen to anybody who wants it to stop."""
    witness = pen(ctx, number)
    if keys:
        note_keys(ctx.job.id, keys)
    witness.note(START)
    for slice in slices(seconds):
        time.sleep(slice)
        witness.note(ALIVE)
    witness.note(END)
    return ctx.fence


@app.task
async def recite(ctx: rota.Context, number: int, seconds: float, keys: Sequence[str] = ()) -> int:
    """Prints numbered lines; the last one tells how many there were."""
    witness = pen(ctx, number)
    if keys:
        note_keys(ctx.job.id, keys)
    witness.note(START)
    said = 0
    try:
        for said, slice in enumerate(slices(seconds), 1):
            await asyncio.sleep(slice)
            print(f"{number} {ctx.fence} {said}")
            witness.note(ALIVE)
    except asyncio.CancelledError:
        witness.note(STOPPED)
        raise
    print(f"{number} {ctx.fence} of {said}")
    witness.note(END)
    return ctx.fence


@app.task
async def tick(ctx: rota.Context, number: int, schedule: str, fire: str, seconds: float) -> int:
    """What schedules make."""
    witness = pen(ctx, number)
    witness.note(START)
    note_fire(ctx.job.id, ctx.fence, schedule, fire, os.environ["CHAOS_NODE"])
    if seconds:
        await asyncio.sleep(seconds)
    witness.note(END)
    return ctx.fence


@app.task(retry=rota.Retry(3, backoff="1s", jitter=0))
async def stumble(ctx: rota.Context, number: int, seconds: float) -> int:
    """Fails at first, unless that attempt is lost."""
    if ctx.fence == 1:
        pen(ctx, number).note(START)
        raise Broken
    return int(await linger.function(ctx, number, seconds))


@app.task
async def step(ctx: rota.Context, number: int, seconds: float, fails: bool) -> int:
    """Of a workflow."""
    fence = await linger.function(ctx, number, seconds)
    if fails:
        raise Broken
    return int(fence)
