"""What open event streams cost the node that serves them.

Node, writer of events and readers of streams are processes of their own. The CPU time of the node with streams, less
its time without any, is the cost of the streams: reading the outbox, encoding, and sending.

`python -m bench.http.streams write STORE RATE` writes events; `... read PORT KEY COUNT` opens streams, and prints how
many events it got when its stdin is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench import processes
from bench.figure import Figure, Size
from bench.http.serving import api, new_key, request
from rota.clock import Chance, SystemClock
from rota.model.principal import LOCAL
from rota.store.sqlite import SqliteStore

STREAMS, RATE, SECONDS, SETTLING = 200, 100, 10.0, 4.0
MOST = 10.0  # per cent of a core


def streams(folder: Path, size: Size) -> Iterator[Figure]:
    path = folder / "store.db"
    with api(path) as (pid, port):
        key = new_key(path)
        idle, _ = _cpu(path, pid, port, key, 0)
        busy, got = _cpu(path, pid, port, key, STREAMS)
    each = got / (SECONDS + SETTLING) / STREAMS
    yield Figure(
        f"{STREAMS} event streams at {RATE} events a second, part of a core", busy - idle, "%", most=MOST,
        ours=f"{busy:.1f} %, {each:.0f} events a second and stream", other=f"{idle:.1f} % without",
    )  # fmt: skip


def _cpu(path: Path, pid: int, port: int, key: str, count: int) -> tuple[float, int]:
    """The CPU use of the node in per cent of a core while events are written, and how many events its readers got."""
    with _process("read", port, key, count) as reader, _process("write", path, RATE):
        time.sleep(SETTLING)
        before = _used(pid)
        time.sleep(SECONDS)
        used = _used(pid) - before
        got = int(reader.communicate()[0] or 0)
    return 100 * used / SECONDS, got


def _used(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


@contextlib.contextmanager
def _process(*words: object) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "bench.http.streams", *map(str, words)]
    process = subprocess.Popen(command, cwd=processes.ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


# -- the processes ---------------------------------------------------------------------------------------------------
async def write(path: str, rate: int) -> None:
    """An event at a time, as jobs that end one by one would make them."""
    store = SqliteStore(path, SystemClock(), Chance())
    await store.open()
    loop = asyncio.get_running_loop()
    began, number = loop.time(), 0
    while True:
        await store.pause_queue(LOCAL, f"queue-{number % 10}", "bench")
        number += 1
        await asyncio.sleep(max(0.0, began + number / rate - loop.time()))


async def read(port: int, key: str, count: int) -> None:
    got = 0

    async def follow() -> None:
        nonlocal got
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
        writer.write(request("GET", "/api/v1/events", key))
        while piece := await reader.read(1 << 20):
            got += piece.count(b"event: queue.paused")

    tasks = [asyncio.create_task(follow()) for _ in range(count)]
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.buffer.read)
    print(got, flush=True)
    for task in tasks:
        task.cancel()


if __name__ == "__main__":
    if sys.argv[1] == "write":
        asyncio.run(write(sys.argv[2], int(sys.argv[3])))
    asyncio.run(read(int(sys.argv[2]), sys.argv[3], int(sys.argv[4])))
