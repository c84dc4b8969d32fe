"""A loop that is blocked is told from outside, once, with the stacks of all threads."""

from __future__ import annotations

import asyncio
import io
import threading
from pathlib import Path

from rota.telemetry.stall import LOOKS, watched

PERIOD = 0.02
LONG = 20.0


async def test_a_blocked_loop_is_told_once_with_what_blocks_it(tmp_path: Path) -> None:
    told: list[float] = []
    heard = threading.Event()

    def tell(seconds: float) -> None:
        told.append(seconds)
        heard.set()

    with (tmp_path / "stacks").open("w+") as stream:
        with watched(stream, tell, PERIOD):
            await asyncio.sleep(0)
            assert heard.wait(LONG)  # this is what blocks it
            threading.Event().wait(10 * PERIOD)  # and goes on to
        stream.seek(0)
        stacks = stream.read()
    assert told == [LOOKS * PERIOD]
    assert "test_a_blocked_loop_is_told_once" in stacks


async def test_a_loop_that_moves_is_left_alone(tmp_path: Path) -> None:
    """However late its beats are: an hour of looks would be needed."""
    told: list[float] = []
    with (tmp_path / "stacks").open("w+") as stream:
        with watched(stream, told.append, period=3600.0):
            await asyncio.sleep(0.05)
        assert not told
        assert stream.seek(0, io.SEEK_END) == 0


async def test_nobody_looks_any_more_when_it_is_closed(tmp_path: Path) -> None:
    told: list[float] = []
    with (tmp_path / "stacks").open("w+") as stream:
        with watched(stream, told.append, PERIOD):
            pass
        watchers = [thread for thread in threading.enumerate() if thread.name == "rota-stall"]
        for thread in watchers:
            thread.join(LONG)
            assert not thread.is_alive()
    assert not told
