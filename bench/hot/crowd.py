"""Many nodes in one process: `python -m bench.hot.crowd NODES`, on the store that ROTA_STORE names, until SIGTERM.

Each has a store and connections of its own, as if it were a process. They run no jobs, so they have no processes for
functions: an idle node does nothing with these.
"""

from __future__ import annotations

import asyncio
import signal
import sys

import rota
from rota.node import Node

# Not all at once: each opens several connections.
AT_ONCE = 5


async def main(count: int) -> None:
    apps = [rota.App(node=f"node-{number}") for number in range(count)]
    room = asyncio.Semaphore(AT_ONCE)
    running: list[tuple[Node, asyncio.Task[None]]] = []

    async def start(app: rota.App) -> None:
        async with room:
            node = await app.node()
            running.append((node, asyncio.create_task(node.run())))
            await node.started.wait()

    await asyncio.gather(*(start(app) for app in apps))
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    await told.wait()
    for node, _ in running:
        node.stop()
    await asyncio.gather(*(task for _, task in running))
    for app in apps:
        await app.close()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
