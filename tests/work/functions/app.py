"""Functions that misbehave, in a module of their own: so they run in processes of the pool."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import rota

app = rota.App()
ONCE = rota.Retry(0)
counter = 0
chatter: asyncio.Task[None] | None = None


@app.task
def where() -> dict[str, int]:
    return {"pid": os.getpid(), "parent": os.getppid(), "session": os.getsid(0)}


@app.task
def echo(text: str) -> str:
    return text


@app.task
def neighbour(path: str) -> str:
    """Runs beside a hostile one, until that is over."""
    Path(path + ".up").touch()
    while not Path(path).exists():
        time.sleep(0.01)
    return "untouched"


@app.task
def count() -> int:
    global counter
    counter += 1
    return counter


@app.task
def speak(ctx: rota.Context) -> None:
    print("first")
    logging.getLogger("shop").info("second")
    print("third")
    ctx.log("fourth", number=4)
    os.write(1, b"fifth\n")
    subprocess.run(["echo", "sixth"], check=True)
    sys.stdout.write("no line end")


@app.task
def shout(ctx: rota.Context, size: int) -> None:
    ctx.log("x" * size)


@app.task
def floods(size: int, path: str) -> None:
    """Writes to both streams once it is told to, and says so when it has done it."""
    Path(path + ".up").touch()
    while not Path(path + ".go").exists():
        time.sleep(0.01)
    body = b"x" * 99 + b"\n"
    for _ in range(size // len(body) // 2):
        os.write(1, body)
        os.write(2, body)
    Path(path).touch()


@app.task
def mutter(number: int) -> None:
    os.write(1, b"<%d>" % number)


@app.task
def binary() -> None:
    sys.stdout.buffer.write(b"\xff\xfe\x00")
    os.write(2, b"\x80")


@app.task
def see(ctx: rota.Context) -> dict[str, object]:
    return {"fence": ctx.fence, "attempt": ctx.attempt, "job": ctx.job.id, "queue": ctx.job.queue}


@app.task(retry=rota.Retry(1, backoff="0s"))
def saves(ctx: rota.Context) -> object:
    """In two attempts."""
    if ctx.state is None:
        ctx.progress(0.5, "half")
        ctx.save({"done": [1, 2]})
        raise ConnectionError("no route")
    return ctx.state


@app.task(isolation="process", retry=rota.Retry(1, backoff="0s"))
async def saves_async(ctx: rota.Context) -> object:
    if ctx.state is None:
        ctx.progress(None, "begun")
        await ctx.save("so far")
        raise ConnectionError("no route")
    return ctx.state


@app.task(retry=rota.Retry(1, backoff="0s"))
async def saves_on_the_loop(ctx: rota.Context) -> object:
    if ctx.state is None:
        ctx.progress(0.25, "a quarter")
        await ctx.save([1])
        await asyncio.gather(ctx.save([2]), ctx.save([2]))
        raise ConnectionError("no route")
    return ctx.state


@app.task(isolation="thread", retry=rota.Retry(1, backoff="0s"))
def saves_in_a_thread(ctx: rota.Context) -> object:
    if ctx.state is None:
        ctx.progress(0.75, "most")
        ctx.save("here")
        raise ConnectionError("no route")
    return ctx.state


@app.task
async def talks_on() -> None:
    """What it has started outlives it."""
    global chatter

    async def talk() -> None:
        for _ in range(50):
            print("on and on")
            await asyncio.sleep(0.002)

    chatter = asyncio.create_task(talk())


@app.task(retry=ONCE)
def saves_what_it_can_not(ctx: rota.Context) -> None:
    ctx.save({"x": object()})


@app.task(isolation="process")
async def see_async(ctx: rota.Context) -> int:
    await asyncio.sleep(0)
    print("from a loop")
    return os.getpid()


@app.task(retry=ONCE)
def order_another() -> str:
    return echo.submit_sync(text="ordered").id


@app.task(retry=ONCE)
def fails() -> None:
    raise ConnectionError("no route")


@app.task(retry=ONCE)
def leaves(how: str) -> None:
    raise SystemExit(3) if how == "exit" else KeyboardInterrupt


@app.task(retry=ONCE)
def crashes(how: str) -> None:
    match how:
        case "segfault":
            ctypes.string_at(0)
        case "exit":
            os._exit(3)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "abort":
            os.abort()


@app.task(retry=ONCE)
def crashes_once(ctx: rota.Context) -> int:
    if ctx.attempt == 1:
        os._exit(9)
    return ctx.attempt


@app.task(retry=ONCE)
def hangs(how: str, path: str) -> None:
    Path(path).touch()
    match how:
        case "holding the lock of the interpreter":
            sum(range(10**12))
        case "asleep":
            time.sleep(3600)
        case "swallowing":
            while True:
                with suppress(BaseException):
                    time.sleep(3600)
        case "deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(3600)


@app.task(retry=ONCE)
def stops_its_parent(again: bool) -> None:
    parent = os.getppid()
    while True:
        os.kill(parent, signal.SIGSTOP)
        time.sleep(0.001 if again else 3600)


@app.task(retry=ONCE)
def looks(ctx: rota.Context, path: str) -> None:
    Path(path).touch()
    while not ctx.cancelled:
        time.sleep(0.001)
    print("stopped in peace")


@app.task(retry=ONCE, isolation="process")
async def waits(path: str) -> None:
    Path(path).touch()
    try:
        await asyncio.sleep(3600)
    finally:
        print("stopped in peace")


@app.task(retry=ONCE)
def leaves_a_daemon(path: str) -> None:
    """Forked twice, in a session of its own, and it closes nothing."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            Path(path).write_text(str(os.getpid()))
            os.write(writer, b"x")
            time.sleep(3600)
        os._exit(0)
    os.wait()
    os.read(reader, 1)


@app.task(retry=ONCE)
def daemon_and_hang(path: str) -> None:
    leaves_a_daemon(path)
    time.sleep(3600)


@app.task(retry=ONCE)
def closes_stdout() -> str:
    os.close(1)
    os.close(2)
    return "closed"


@app.task(retry=ONCE)
def closes_sys_stdout() -> str:
    sys.stdout.close()
    return "closed"


@app.task(retry=ONCE)
def closes_everything() -> str:
    os.closerange(0, 1024)
    return "closed"


@app.task(retry=ONCE)
def deletes_its_folder() -> str:
    folder = Path("gone").absolute()
    folder.mkdir()
    os.chdir(folder)
    shutil.rmtree(folder)
    return "deleted"


@app.task
def folder() -> str:
    return str(Path.cwd())


@app.task(retry=ONCE)
def writes_to_everything() -> str:
    for entry in list(Path("/proc/self/fd").iterdir()):
        with suppress(OSError):
            os.write(int(entry.name), b"\xde\xad\xbe\xef" * 100)
    return "written"


@app.task(retry=ONCE)
def eats_memory() -> int:
    limit = 1 << 30
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    return len(bytearray(4 << 30))


@app.task
def large(size: int) -> str:
    return "x" * size


@app.task
def naps(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


@app.task(isolation="thread")
def in_a_thread() -> int:
    return os.getpid()


@app.task
async def on_a_loop() -> int:
    return os.getpid()


@app.task
async def async_neighbour(ctx: rota.Context, path: str) -> dict[str, int]:
    """Runs beside others in the same process, until it is told that they are over."""
    Path(f"{path}.up{ctx.attempt}").touch()
    while not Path(path).exists():  # noqa: ASYNC110 - whoever makes it is another process
        await asyncio.sleep(0.01)
    return {"attempt": ctx.attempt, "pid": os.getpid()}


@app.task(retry=ONCE)
async def async_crash(how: str) -> None:
    crashes(how)


@app.task(retry=ONCE)
async def blocks_the_loop(how: str) -> None:
    if how == "asleep":
        time.sleep(3600)
    sum(range(10**12))


@app.task(retry=ONCE)
async def async_swallow(path: str) -> None:
    Path(path).touch()
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)


@app.task(retry=ONCE, isolation="thread")
def thread_sleeps(path: str) -> None:
    Path(path).touch()
    time.sleep(3600)


@app.task(retry=ONCE, isolation="thread")
def thread_looks(ctx: rota.Context, path: str) -> None:
    Path(path).touch()
    while not ctx.cancelled:
        time.sleep(0.001)
    print("stopped in peace")


@app.task(retry=ONCE)
async def async_waits(path: str) -> None:
    Path(path).touch()
    try:
        await asyncio.sleep(3600)
    finally:
        print("stopped in peace")


@app.task
async def async_speak(ctx: rota.Context) -> None:
    print("first")
    await asyncio.sleep(0)
    logging.getLogger("shop").info("second")
    ctx.log("third", number=3)
    print("no line end", end="")


@app.task(retry=ONCE)
async def async_exit() -> None:
    async def leave() -> None:
        sys.exit(3)

    task = asyncio.create_task(leave())
    await asyncio.sleep(0.05)
    assert task.done()


def _tell(ctx: rota.Context, password: str, fetched: str) -> dict[str, object]:
    ctx.mask({"token": fetched, "short": "abc"})
    print(f"password {password}, token {fetched}, of the node {os.environ.get('SHOP_TOKEN')}")
    ctx.log("logged", password=password, token=fetched)
    ctx.progress(0.5, f"with {fetched}")
    if password.startswith("bad"):
        raise ValueError(f"refused: {password} {fetched!r}")
    return {"mine": f"{password}:{fetched}", fetched: [password, 1, True]}


@app.task(secrets=["password", "SHOP_TOKEN"], retry=0)
def tells(ctx: rota.Context, password: str, fetched: str) -> dict[str, object]:
    sys.stdout.write(password[:4])
    sys.stdout.flush()
    print(password[4:])
    return _tell(ctx, password, fetched)


@app.task(secrets=["password", "SHOP_TOKEN"], retry=0)
async def async_tells(ctx: rota.Context, password: str, fetched: str) -> dict[str, object]:
    sys.stdout.write(password[:4])
    await asyncio.sleep(0)
    print(password[4:])
    return _tell(ctx, password, fetched)
