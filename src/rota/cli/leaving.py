"""The last write of a node whose functions did not stop: `python -m rota.cli.leaving INCARNATION`.

`rota up` becomes this program (by exec) when it ends. That is the one way to stop a Python thread from outside: exec
ends all threads of the process at once. Only then are their jobs handed back, so that no other node starts one beside
them; and whoever waits for the process sees it end after that, with everything in order.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from rota.errors import RotaError


def become(store: str, incarnation: str, guards: Sequence[int]) -> NoReturn:
    """Ends this process's threads and everything else in it. The guards stay open: the node lives until it has left."""
    for descriptor in guards:
        os.set_inheritable(descriptor, True)
    sys.stderr.flush()
    # The address may hold a password: it has no place among the arguments, which everyone on the machine can read.
    environment = {**os.environ, "ROTA_STORE": store}
    os.execve(sys.executable, [sys.executable, "-m", "rota.cli.leaving", incarnation], environment)


async def leave(incarnation: str) -> None:
    from rota.app import App
    from rota.model.principal import SYSTEM

    async with App() as app:
        await (await app.client()).store.leave(SYSTEM, incarnation)


if __name__ == "__main__":
    try:
        asyncio.run(leave(sys.argv[1]))
    except RotaError as error:
        sys.exit(f"rota: {error}; the jobs of this node will be taken over by others")
