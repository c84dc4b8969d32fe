"""A short tour: jobs that run, are retried, delayed, cancelled and recovered, on a throwaway store.

It starts two real nodes, kills one of them with -9, and shows what became of everything.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import rota

app = rota.App()


@app.task
async def hello(name: str) -> str:
    return f"hello, {name}"


@app.task(retry=rota.Retry(3, backoff="300ms"))
def flaky(ctx: rota.Context) -> str:
    if ctx.attempt < 3:
        raise ConnectionError("no answer")
    return f"worked at attempt {ctx.attempt}"


@app.task(retry=0)
async def hopeless() -> None:
    raise rota.Fatal("this can't work")


@app.task
async def long_work(ctx: rota.Context, seconds: float) -> str:
    await asyncio.sleep(seconds)
    return f"done at attempt {ctx.attempt}, fence {ctx.fence}"


def say(text: str) -> None:
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}", flush=True)


def launch(name: str) -> subprocess.Popen[bytes]:
    """A node in a process of its own."""
    command = [sys.executable, "-m", "rota", "up", "--app", "demo:app", "--node", name, "--quiet"]
    return subprocess.Popen(command, cwd=Path(__file__).parent)


async def until(true: Callable[[], Awaitable[bool]]) -> None:
    """Other processes change the store: look until it is so."""
    async with asyncio.timeout(15):
        while not await true():  # noqa: ASYNC110 - there is no event to wait for across processes
            await asyncio.sleep(0.02)


async def nodes_are_up() -> bool:
    command = [sys.executable, "-m", "rota", "node", "list", "--json"]
    listed = await asyncio.to_thread(subprocess.run, command, capture_output=True, check=False)
    return len(json.loads(listed.stdout or "[]")) == 2


async def runs(job: rota.Job[Any]) -> bool:
    return (await job.info()).state == "running"


async def show(job: rota.Job[Any]) -> None:
    info = await job.wait(15)
    outcome = f"result {info.result!r}" if info.state == "succeeded" else f"reason {info.reason!r}"
    tries = ", ".join(f"{a.outcome} on {a.node}" for a in info.attempts) or "never started"
    print(f"  {info.task:10} {info.state:10} {outcome}  [{tries}]")


async def tour() -> None:
    nodes = {name: launch(name) for name in ("anna", "bert")}
    try:
        await until(nodes_are_up)
        say("1. Functions and commands run, and give back results and output")
        job = await hello.submit(name="you")
        command = await app.submit_command(["sh", "-c", "echo this is job $ROTA_JOB, attempt $ROTA_ATTEMPT"])
        await show(job)
        await show(command)
        print("  it said:", (await command.logs()).strip())

        say("2. What fails is tried again, with back-off; what can't work becomes a dead letter")
        await show(await flaky.submit())
        await show(await hopeless.submit())

        say("3. A delayed job starts on time")
        job = await hello.options(delay="1500ms").submit(name="later")
        info = await job.wait(15)
        late = (info.started_at - info.run_at) if info.started_at else timedelta()
        print(f"  it started {late / timedelta(milliseconds=1):.1f} ms after its time")

        say("4. Waiting and running jobs can be cancelled")
        waiting = await hello.options(delay="1h").submit(name="never")
        running = await app.submit_command(["sleep", "1000"])
        await until(lambda: runs(running))
        for job in (waiting, running):
            await job.cancel("not needed any more")
            await show(job)

        say("5. A node is killed with -9 in the middle of its work; the other one takes over")
        job = await long_work.submit(seconds=1.0)
        await until(lambda: runs(job))
        holder = (await job.info()).node or ""
        nodes[holder].kill()
        killed = time.monotonic()
        print(f"  killed {holder}")
        await show(job)
        print(f"  recovered {time.monotonic() - killed:.1f} s after the kill, the second attempt's own second included")
    finally:
        say("The nodes stop: running work is finished or handed back")
        for process in nodes.values():
            process.send_signal(signal.SIGTERM)
        for process in nodes.values():
            process.wait(30)
        await app.close()


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="rota-demo-") as folder:
        os.environ["ROTA_STORE"] = f"sqlite:///{folder}/rota.db"
        app.configure(store=os.environ["ROTA_STORE"])
        asyncio.run(tour())
    print("\nThat was all. `make up` starts a node of your own.")


if __name__ == "__main__":
    main()
