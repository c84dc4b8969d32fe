"""A bare loop that starts `/bin/true` and waits for it: `python -m bench.starting WAY COUNT` prints its seconds.

It imports next to nothing: what a fork costs depends on the size of the process, and wardens are small.
"""

from __future__ import annotations

import gc
import os
import resource
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

PROGRAM = "/bin/true"
ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
LIMITS = ((resource.RLIMIT_NOFILE, 100), (resource.RLIMIT_AS, 1 << 30), (resource.RLIMIT_FSIZE, 1 << 30))


def spawn() -> int:
    return os.posix_spawn(PROGRAM, [PROGRAM], ENVIRONMENT, setsid=True)


def prlimit() -> int:
    """The command may run for a moment before it has them."""
    pid = spawn()
    for kind, value in LIMITS:
        resource.prlimit(pid, kind, (value, value))
    return pid


def fork() -> int:
    pid = os.fork()
    if pid == 0:
        os.setsid()
        for kind, value in LIMITS:
            resource.setrlimit(kind, (value, value))
        os.execve(PROGRAM, [PROGRAM], ENVIRONMENT)
    return pid


WAYS: dict[str, Callable[[], int]] = {"spawn": spawn, "prlimit": prlimit, "fork": fork}


def loop(start: Callable[[], int], count: int) -> float:
    gc.disable()
    gc.freeze()
    begun = time.perf_counter()
    for _ in range(count):
        os.waitpid(start(), 0)
    return time.perf_counter() - begun


if __name__ == "__main__":
    print(loop(WAYS[sys.argv[1]], int(sys.argv[2])))
