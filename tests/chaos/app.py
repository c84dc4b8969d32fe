"""The tasks that the nodes run: each says when it starts, that it is alive, and when it ends."""

from __future__ import annotations

import asyncio
import os
import time

import rota
from tests.chaos.witness import ALIVE, END, START, STOPPED, Pen, slices

app = rota.App()


def pen(ctx: rota.Context, number: int) -> Pen:
    return Pen(ctx.job.id, ctx.fence, number, os.environ["CHAOS_NODE"])


@app.task
async def linger(number: int, seconds: float, ctx: rota.Context) -> int:
    witness = pen(ctx, number)
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
def block(number: int, seconds: float, ctx: rota.Context) -> int:
    """Does not listen to anybody who wants it to stop."""
    witness = pen(ctx, number)
    witness.note(START)
    for slice in slices(seconds):
        time.sleep(slice)
        witness.note(ALIVE)
    witness.note(END)
    return ctx.fence
