"""Functions that misuse what they were given: their process, their context, their exceptions."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import msgspec

import rota

app = rota.App()
ONCE = rota.Retry(0)


@app.task
def where() -> dict[str, int]:
    return {"pid": os.getpid(), "parent": os.getppid()}


@app.task
def witness(path: str) -> str:
    """Long enough to be there when another ends late."""
    time.sleep(0.6)
    with Path(path).open("a") as file:
        file.write("ran\n")
    return "ran"


@app.task(retry=ONCE)
def returns_twice() -> str:
    """The child of a fork goes on as if it were the function, and is first."""
    if os.fork() == 0:
        return "child"
    time.sleep(0.3)
    return "parent"


@app.task(retry=ONCE)
async def async_returns_twice() -> str:
    if os.fork() == 0:
        return "child"
    await asyncio.sleep(0.3)
    return "parent"


def square(number: int) -> int:
    logging.getLogger("below").warning("logged")
    print("printed")
    return number * number


@app.task(retry=ONCE)
def has_a_pool(ctx: rota.Context) -> int:
    """Of its own, whose processes are forks of this one, and which ends them with SIGTERM."""
    with multiprocessing.get_context("fork").Pool(3) as pool:
        return sum(pool.map(square, range(20)))


def save_often(ctx: rota.Context, number: int) -> None:
    for step in range(20):
        ctx.save([number, step])


@app.task(retry=ONCE)
def saves_from_children(ctx: rota.Context) -> list[int | None]:
    fork = multiprocessing.get_context("fork")
    children = [fork.Process(target=save_often, args=(ctx, number)) for number in range(3)]
    for child in children:
        child.start()
    save_often(ctx, 3)
    for child in children:
        child.join()
    return [child.exitcode for child in children]


old: rota.Context | None = None


@app.task
def lends_its_context(ctx: rota.Context) -> int:
    global old
    old = ctx
    return os.getpid()


@app.task(retry=rota.Retry(1, backoff="1ms"))
def uses_anothers(ctx: rota.Context) -> Any:
    """With the context of a job that is over; the second attempt tells what was kept."""
    if ctx.attempt == 2:
        return [ctx.state, said]
    assert old is not None
    said.append(os.getpid())
    old.progress(0.7, "a stranger")
    old.log("a stranger")
    try:
        old.save("a stranger")
    except rota.Stale:
        said.append("stale")
    raise RuntimeError("again")


said: list[Any] = []


class Hostile(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt


@app.task(retry=ONCE)
def hostile() -> None:
    raise Hostile


@app.task(retry=ONCE)
async def async_hostile() -> None:
    raise Hostile


@app.task(retry=ONCE, isolation="thread")
def thread_hostile() -> None:
    raise Hostile


@app.task(retry=ONCE, isolation="thread")
def takes_all_memory(path: str) -> None:
    """No thread can be started beside it."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    held = int(Path("/proc/self/statm").read_text().split()[0]) * 4096
    resource.setrlimit(resource.RLIMIT_AS, (held + (1 << 20), before[1]))
    Path(path + ".up").touch()
    while not Path(path).exists():
        time.sleep(0.01)
    resource.setrlimit(resource.RLIMIT_AS, before)


@app.task(retry=ONCE, isolation="thread")
def in_a_thread() -> str:
    return "done"


@app.task(retry=ONCE)
async def waits(path: str) -> int:
    Path(path + ".up").touch()
    while not Path(path).exists():  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return os.getpid()


@app.task(retry=ONCE)
def stops_its_parent() -> None:
    os.kill(os.getppid(), signal.SIGSTOP)
    while True:
        with suppress(BaseException):
            time.sleep(60)


class Deaf:
    """What can't be flushed."""

    closed = False

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None:
        if threading.current_thread() is threading.main_thread() and self.used:
            time.sleep(3600)
        self.used = True

    used = False


@app.task(retry=ONCE)
def stays_for_ever() -> int:
    sys.stdout = cast(Any, Deaf())
    return os.getpid()


class Given(msgspec.Struct):
    number: int

    def __post_init__(self) -> None:
        raise RuntimeError("not like this")


def picky(given: Given) -> None: ...
