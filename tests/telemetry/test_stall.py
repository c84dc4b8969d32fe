"""A loop that is blocked is told from outside, once, with the stacks of all threads."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import pytest

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


BLOCKED = """
import asyncio, sys, time
from rota.telemetry import stall

def block():
    time.sleep(4)

async def main():
    with stall.watched(sys.stderr, lambda seconds: print(f"blocked for {seconds:g}", file=sys.stderr), 0.3):
        await asyncio.sleep(2.5)
        print("not yet", file=sys.stderr, flush=True)
        block()
        await asyncio.sleep(0.2)

asyncio.run(main())
"""


@pytest.mark.slow
def test_a_loop_that_moves_is_not_told_and_one_that_is_blocked_then_is() -> None:
    done = subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True, timeout=60, check=True)
    before, _, after = done.stderr.partition("not yet\n")
    assert before == ""
    assert after.startswith("blocked for 1.5\n")
    assert after.count("blocked for") == after.count(" in block") == 1


HELD = BLOCKED.replace("time.sleep(4)", "ctypes.PyDLL(None).usleep(3_000_000)").replace(
    "import asyncio", "import ctypes, asyncio"
)


@pytest.mark.slow
def test_stacks_are_shown_though_a_call_holds_the_interpreter() -> None:
    done = subprocess.run([sys.executable, "-c", HELD], capture_output=True, text=True, timeout=60, check=True)
    assert " in block" in done.stderr.partition("not yet\n")[2]
