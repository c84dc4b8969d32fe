"""A process of its own that works on a SQLite file: `python program.py VERB PATH ARGUMENT...`.

It prints one JSON value per line and waits for its standard input to end where it must stay.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))

from rota.clock import Chance, SystemClock
from rota.errors import RotaError
from rota.model.job import Kind, NewJob, Spec
from rota.model.lifecycle import JobEvent
from rota.model.node import NewNode
from rota.model.outcome import Ending, Settlement
from rota.model.principal import LOCAL, SYSTEM
from rota.store.sqlite import SqliteStore
from rota.store.values import Topic

chance = Chance()


def say(value: Any) -> None:
    print(json.dumps(value), flush=True)


async def until_told() -> None:
    await asyncio.to_thread(sys.stdin.read)


def node(name: str) -> NewNode:
    return NewNode(name, chance.token(), ("worker",), {"default": 8}, "1", 10_000_000)


def job(store: SqliteStore) -> NewJob:
    return NewJob(chance.job_id(store.now()), "true", Spec.command(["true"]))


async def drain(store: SqliteStore, name: str, batch: str) -> None:
    """Claims and finishes until nothing is left; says which jobs it had."""
    me = node(name)
    await store.register(SYSTEM, me, [])
    say("ready")
    await asyncio.to_thread(sys.stdin.readline)
    while claimed := await store.claim(
        SYSTEM, me.incarnation, {"default": int(batch)}, list(Kind), {"default": int(batch)}
    ):
        endings = [Settlement(c.job_id, c.fence, JobEvent.SUCCEED, Ending.SUCCEEDED) for c in claimed]
        verdicts = await store.finish(SYSTEM, endings)
        say([[c.job_id, c.fence, verdict] for c, verdict in zip(claimed, verdicts, strict=True)])
    await store.leave(SYSTEM, me.incarnation)


async def hold(store: SqliteStore, name: str, count: str) -> None:
    """Registers, claims so many, and stays."""
    me = node(name)
    await store.register(SYSTEM, me, [])
    claimed = await store.claim(SYSTEM, me.incarnation, {"default": int(count)}, list(Kind), {"default": int(count)})
    say([me.incarnation, [c.job_id for c in claimed]])
    await until_told()


async def bequeath(store: SqliteStore, name: str, fifo: str) -> None:
    """Registers, leaves a child behind that holds the guards until the pipe ends, and is killed."""
    me = node(name)
    await store.register(SYSTEM, me, [])
    pipe = os.open(fifo, os.O_RDONLY)  # here, while its other end is open for certain: later this could wait for ever
    if os.fork() == 0:
        for descriptor in (0, 1, 2):
            os.close(descriptor)
        os.read(pipe, 1)
        os._exit(0)
    say(me.incarnation)
    os.kill(os.getpid(), signal.SIGKILL)


async def listen(store: SqliteStore, *topics: str) -> None:
    end = store.listen(frozenset(Topic(topic) for topic in topics), lambda: say("rung"))
    say("listening")
    await until_told()
    end()


async def submit(store: SqliteStore, count: str) -> None:
    jobs = [job(store) for _ in range(int(count))]
    await store.submit(LOCAL, [jobs])
    say([j.id for j in jobs])


async def submit_and_die(store: SqliteStore, count: str) -> None:
    """Says what was acknowledged, and is killed in the middle of things."""
    for number in range(int(count)):
        await submit(store, "3")
        if number == int(count) - 1:
            os.kill(os.getpid(), signal.SIGKILL)


async def migrate(store: SqliteStore) -> None:
    say("ready")
    await asyncio.to_thread(sys.stdin.readline)
    say(await store.migrate())
    await store.open()


async def attempt(store: SqliteStore) -> None:
    """Tries to open and to migrate, and says what it was told."""
    for verb in (store.open, store.migrate):
        try:
            await verb()
        except RotaError as error:
            say([type(error).__name__, str(error)])
        else:
            say(["done", ""])


async def fill(store: SqliteStore) -> None:
    """Submits until the disk is full; says what was accepted, then what the last call was told."""
    await store.migrate()
    padding = json.dumps({"text": "x" * 20_000})
    for _ in range(10_000):
        order = [NewJob(chance.job_id(store.now()), "t", Spec.command(["true"]), padding) for _ in range(3)]
        try:
            await store.submit(LOCAL, [order])
        except RotaError as error:
            say([type(error).__name__, [j.id for j in order]])
            break
        say(["accepted", [j.id for j in order]])
    found = await store.counts(SYSTEM)
    say(["count", sum(found.values())])
    await store.get(SYSTEM, "nothing")


async def main(verb: str, path: str, *arguments: str) -> None:
    store = SqliteStore(path, SystemClock(), chance)
    if verb not in ("migrate", "attempt", "fill"):
        await store.open()
    await globals()[verb](store, *arguments)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
