"""What a program does with an app that forks, or has many event loops and threads: `python -m tests.forking_program
DEED URL`. It prints what it has seen as JSON; `test_forking.py` starts it, for a process of pytest is no good to fork.
"""

from __future__ import annotations

import asyncio
import gc
import json
import multiprocessing
import os
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import rota
from rota.errors import WaitTimeout

URL = sys.argv[2] if len(sys.argv) > 2 else ""
LIMIT = 60.0
DELAY = os.environ.get("FORKING_DELAY", "1d")
Seen = dict[str, Any]


def order(app: rota.App) -> str:
    return app.submit_command_sync(["true"], delay=DELAY).id


def found(app: rota.App, job_id: str) -> bool:
    return app.sync(app.job(job_id)).id == job_id


def connections() -> list[int]:
    """The sessions of rota in this database, without this look at them; of SQLite the open descriptors."""
    if URL.startswith("sqlite:"):
        return [int(name) for name in os.listdir("/proc/self/fd")][:-1]  # noqa: PTH208 - the last is for looking
    import psycopg

    with psycopg.connect(URL) as db:
        mine = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'rota'"
        return sorted(pid for (pid,) in db.execute(mine))


def in_child(work: Callable[[], Any], *, leave: Callable[[], Any] = lambda: os._exit(0)) -> Any:
    """What the child has to tell, over a pipe. One that does not end in time is killed."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.write(writing, json.dumps(work()).encode())
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os.close(writing)
            if code:
                os._exit(code)
        leave()
    os.close(writing)
    alarm = threading.Timer(LIMIT, os.kill, (pid, 9))
    alarm.start()
    with os.fdopen(reading) as pipe:
        told = pipe.read()
    _, status = os.waitpid(pid, 0)
    alarm.cancel()
    assert status == 0, f"the child ended with {status}"
    return json.loads(told)


# -- forks -----------------------------------------------------------------------------------------------------------
def forks() -> Seen:
    """Children of a parent that has used the app, and goes on with it."""
    app = rota.App(URL)
    jobs = [order(app)]
    asyncio.run(app._core.client())
    before = connections() if found(app, jobs[0]) else []
    for leave in (lambda: sys.exit(0), lambda: os._exit(0)):
        jobs.append(in_child(lambda: order(app), leave=leave))
    jobs.append(in_child(lambda: in_child(lambda: order(app))))
    jobs.append(in_child(lambda: asyncio.run(_order(app))))
    jobs += in_child(lambda: [order(app), *_in_threads(app, 4)])
    jobs.append(asyncio.run(_fork_in_loop(app)))
    jobs.append(order(app))
    assert all(found(app, job) for job in jobs)
    after = connections()
    kept = len(before) == len(after) if URL.startswith("sqlite:") else set(before) <= set(after)
    waited = app.sync(_wait_a_little(app, jobs[0]))
    app.close_sync()
    return {"different": len(set(jobs)) == len(jobs) == 12, "kept": kept, "waited": waited}


async def _order(app: rota.App) -> str:
    return (await app.submit_command(["true"], delay=DELAY)).id


async def _fork_in_loop(app: rota.App) -> str:
    mine = await _order(app)
    theirs: str = in_child(lambda: order(app))
    await (await app.job(mine)).info()
    return theirs


async def _wait_a_little(app: rota.App, job_id: str) -> bool:
    """Listens for wake-ups after all that."""
    try:
        await (await app.job(job_id)).wait(timeout=0.05)
    except WaitTimeout:
        return True
    return False


def busy_forks() -> Seen:
    """Children of a parent whose other threads use the app at that moment."""
    app = rota.App(URL)
    over = threading.Event()
    jobs = [order(app)]

    def work() -> None:
        while not over.is_set():
            jobs.append(order(app))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    children = [in_child(lambda: order(app)) for _ in range(8)]
    over.set()
    for thread in threads:
        thread.join()
    assert all(found(app, job) for job in [*jobs, *children])
    app.close_sync()
    return {"different": len({*jobs, *children}) == len(jobs) + 8}


SHARED = rota.App(URL) if URL else None


def pooled_order(_: int) -> str:
    assert SHARED is not None
    return order(SHARED)


def pools() -> Seen:
    """`multiprocessing` with both of its ways to start a process."""
    assert SHARED is not None
    jobs = [order(SHARED)]
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            jobs += pool.map_async(pooled_order, range(4)).get(LIMIT)
    assert all(found(SHARED, job) for job in jobs)
    SHARED.close_sync()
    return {"different": len(set(jobs)) == 9}


def unannounced() -> Seen:
    """A fork that Python is not told of before it happens, as programs in C do it."""
    app = rota.App(URL)
    order(app)
    store = app.sync(app._core.client()).store
    store.before_fork = lambda: None  # type: ignore[attr-defined]

    def try_it() -> str:
        try:
            return order(app)
        except rota.RotaError as error:
            return f"{type(error).__name__}: {error}"

    return {"said": in_child(try_it), "parent": bool(order(app))}


# -- loops and threads -----------------------------------------------------------------------------------------------
def loops() -> Seen:
    app = rota.App(URL)
    asyncio.run(_order(app))  # opens the store, which listens for wake-ups
    asyncio.run(_use(app))
    first = fewest(0)
    for _ in range(60):
        asyncio.run(_use(app))
    many = fewest(first)
    for _ in range(5):
        loop = asyncio.new_event_loop()
        loop.run_until_complete(_use(app))
        loop.close()  # without what `asyncio.run` does before
    asyncio.run(_use(app))
    rude = fewest(first)
    asyncio.run(app.close())
    return {"first": first, "many": many, "rude": rude, "closed": fewest(0)}


def thousand_loops() -> Seen:
    """One order in each loop, four loops at a time."""
    app = rota.App(URL)
    jobs, most = _watched(lambda: [asyncio.run(_order(app)) for _ in range(250)], 4)
    left = fewest(0)
    assert threading.active_count() == 1, threading.enumerate()
    asyncio.run(app.close())
    return {"different": len(set(jobs)) == 1000, "most": most, "left": left, "closed": fewest(0)}


def async_to_sync() -> Seen:
    """Django's way from threads to coroutines: each call has a loop of its own."""
    import asgiref.sync

    app = rota.App(URL)
    order_ = asgiref.sync.async_to_sync(_order)
    jobs, most = _watched(lambda: [order_(app) for _ in range(25)], 6)
    assert found(app, jobs[0])
    app.close_sync()
    return {"different": len(set(jobs)) == 150, "most": most, "closed": fewest(0)}


def _watched(work: Callable[[], list[str]], count: int) -> tuple[list[str], int]:
    """What these threads have ordered, and the most connections that were seen meanwhile."""
    most = 0
    with ThreadPoolExecutor(count) as pool:
        working = [pool.submit(work) for _ in range(count)]
        while wait(working, timeout=0.1).not_done:
            most = max(most, len(connections()))
    return [job for one in working for job in one.result()], most


async def _use(app: rota.App) -> None:
    """Orders and looks, and lets the wake-ups for others go out."""
    job = await app.submit_command(["true"], delay=DELAY)
    if others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others)
    await asyncio.gather(*(job.info() for _ in range(3)))


def fewest(expected: int) -> int:
    """How many connections are open; a server takes a moment to notice that one was closed."""
    if not URL.startswith("sqlite:"):
        pause = threading.Event()
        for _ in range(100):
            if len(connections()) <= expected:
                break
            pause.wait(0.05)
    return len(connections())


def threads() -> Seen:
    app = rota.App(URL)
    jobs = _in_threads(app, 16)
    open_ = len(connections())
    with app:
        assert found(app, jobs[0])
    return {"different": len(set(jobs)) == 16, "connections": open_}


def _in_threads(app: rota.App, count: int) -> list[str]:
    start = threading.Barrier(count)

    def work(_: int) -> str:
        start.wait(LIMIT)
        return order(app)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(work, range(count)))


# -- ends ------------------------------------------------------------------------------------------------------------
def ends() -> Seen:
    """Apps that are closed, and others that nobody has any more."""
    app = rota.App(URL)
    order(app)
    app.close_sync()
    before = fewest(0)
    for _ in range(3):
        with rota.App(URL) as app:
            order(app)
    asyncio.run(_use_and_close())
    closed = fewest(before)
    for _ in range(3):
        order(rota.App(URL))
        asyncio.run(_order(rota.App(URL)))
    del app
    gc.collect()
    _until(lambda: len(connections()) <= before and threading.active_count() == 1)
    return {"before": before, "closed": closed, "threads": [one.name for one in threading.enumerate()]}


async def _use_and_close() -> None:
    async with rota.App(URL) as app:
        await _order(app)
        await asyncio.to_thread(order, app)


def _until(true: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(200):
        if true():
            return
        pause.wait(0.05)
    raise AssertionError(f"{connections()} are open")


def left_open() -> Seen:
    """Nobody closes anything: the process must end all the same."""
    apps = [rota.App(URL) for _ in range(2)]
    for app in apps:
        order(app)
    asyncio.run(_order(apps[0]))
    globals()["apps"] = apps
    return {}


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]]()))
