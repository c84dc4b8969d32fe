"""Loopback ports that stay ours while nobody listens on them."""

from __future__ import annotations

import random
import socket

# Below what Linux gives to outgoing connections (32768 and up). From that range, a port whose server is down for a
# moment could be given to a client, even to the very one that tries to reach it: it would be connected to itself.
RANGE = range(15_000, 32_000)


def bound_socket(port: int | None = None) -> socket.socket:
    """A socket bound to this loopback port, or to any free one."""
    for _ in range(100):
        bound = socket.socket()
        # As servers do, or a port is taken for a minute after the last connection was closed.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind(("127.0.0.1", port or random.SystemRandom().choice(RANGE)))
        except OSError:
            bound.close()
            if port:
                raise
        else:
            return bound
    raise OSError(f"no free port on 127.0.0.1 after 100 tries in {RANGE}")


def free_port() -> int:
    with bound_socket() as bound:
        return int(bound.getsockname()[1])
