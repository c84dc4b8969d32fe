"""The last write of a node whose functions did not stop: `python -m rota.cli.last_writes INCARNATION SOCKET`.

`rota up` becomes this program by exec when it ends. Exec is the only way to stop a Python thread from outside: it ends
all threads of the process at once. Only then are their jobs handed back, so that no other node starts one beside them.
The process ends after that write.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence
from typing import NoReturn

from rota.config import Settings
from rota.errors import RotaError
from rota.work.keeper.kernel import hide
from rota.work.keeper.wire import receive, send


def become(settings: Settings, incarnation: str, guards: Sequence[int]) -> NoReturn:
    """Ends this process's threads and everything else in it. The guards stay open: the node lives until it has left."""
    from rota.work.own_programs import bare, packed

    place = {"ROTA_STORE": settings.store}
    if settings.server:
        place = {"ROTA_SERVER": settings.server, "ROTA_KEY": settings.key, "ROTA_SERVER_CA": settings.server_ca}
        place["ROTA_SERVER_INSECURE"] = "true"  # the node has said so
    # The address of the store may hold a password, and a key is a secret. Other processes can't read data in a socket
    # while the new program is not yet hidden.
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        body = os.memfd_create("rota-environment")
        os.write(body, packed(**place))
        send(ours, b"begin", [body])
        os.close(body)
        for descriptor in (*guards, theirs.fileno()):
            os.set_inheritable(descriptor, True)
        sys.stderr.flush()
        command = [sys.executable, "-m", "rota.cli.last_writes", incarnation, str(theirs.fileno())]
        os.execve(sys.executable, command, bare(os.environ))


def prepare(channel: socket.socket) -> None:
    """Restores the environment of the node that this process was."""
    from rota.work.own_programs import unpack

    _, _, (body,) = receive(channel)
    unpack(os.pread(body, os.fstat(body).st_size, 0))
    os.close(body)


async def leave(incarnation: str) -> None:
    from rota.app_core import AppCore
    from rota.model.principal import SYSTEM

    async with AppCore() as app:
        await (await app.client()).store.leave(SYSTEM, incarnation)


if __name__ == "__main__":
    hide()
    import asyncio

    try:
        prepare(socket.socket(fileno=int(sys.argv[2])))
        asyncio.run(leave(sys.argv[1]))
    except RotaError as error:
        sys.exit(f"rota: {error}; the jobs of this node will be taken over by others")
