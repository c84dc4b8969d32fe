"""The functions of runs about output: what commands write too, from a process of the pool and from the shared loop."""

from __future__ import annotations

import asyncio
import sys
import time

import rota
from tests.chaos.app import app, pen
from tests.chaos.scribbles import Desk
from tests.chaos.witness import END, START, STOPPED

__all__ = ["app"]


def _desk(ctx: rota.Context, number: int, floods: bool = False) -> Desk:
    desk = Desk(pen(ctx, number), ctx.job.id, ctx.fence, floods, loses_last_words=True)
    desk.pen.note(START)
    return desk


def _say(desk: Desk) -> None:
    for stream, body in desk.next():
        file = sys.stdout if stream == "stdout" else sys.stderr
        file.write(body.decode())
        file.flush()
        desk.wrote(stream)


@app.task
def declaim(ctx: rota.Context, number: int, seconds: float, floods: bool) -> int:
    """In a process."""
    desk, end = _desk(ctx, number, floods), time.monotonic() + seconds
    while time.monotonic() < end:
        _say(desk)
        time.sleep(desk.pause())
    desk.pen.note(END)
    return ctx.fence


@app.task
async def murmur(ctx: rota.Context, number: int, seconds: float) -> int:
    """On the loop, beside others."""
    desk, end = _desk(ctx, number), time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            _say(desk)
            await asyncio.sleep(desk.pause())
    except asyncio.CancelledError:
        desk.pen.note(STOPPED)
        raise
    desk.pen.note(END)
    return ctx.fence
