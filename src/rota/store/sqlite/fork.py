"""Why SQLite's connections are closed before a process forks.

POSIX locks belong to a process: a child does not inherit them. But SQLite keeps a table of the files that it has open,
by inode, with the locks that it believes to hold, and that table is inherited. When a child opens a connection *of its
own* on the same file, the table says that the process already has its shared lock and its place in the shared memory of
the WAL, so the kernel is never asked. Then another process that closes the file thinks that it is the last one, and
takes the WAL away under the child. And a connection of the parent can't be closed by the child to get rid of the entry:
closing may write.

So before a fork the store waits for its calls and closes both connections; parent and child open them again when
needed. That costs a few milliseconds per fork. If a fork is not announced (a C program that embeds Python may fork
without Python), or a call does not end in time, the child refuses to use the file.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
# Seconds. No write waits longer for other processes, and reads are shorter.
PATIENCE = 10.0
TORN = (
    "this process was forked while a call to {} was going on, or without Python knowing of it; "
    "use the app in the child only, or start the child in another way (docs/sdk.md)"
)


class Fork:
    """`torn`: this is a child that has inherited open connections."""

    def __init__(self, torn: bool = False) -> None:
        self.torn = torn
        self._calls = {True: threading.Lock(), False: threading.Lock()}
        self._taken: list[threading.Lock] = []

    def guarded(self, writes: bool, call: Callable[[], T]) -> Callable[[], T]:
        lock = self._calls[writes]

        def guarded() -> T:
            with lock:
                return call()

        return guarded

    def wait(self) -> bool:
        """Waits for running calls to end; True if they did. No call begins until the fork is `over`."""
        end = time.monotonic() + PATIENCE
        for lock in self._calls.values():
            if not lock.acquire(timeout=max(end - time.monotonic(), 0)):
                return False
            self._taken.append(lock)
        return True

    def over(self) -> None:
        taken, self._taken = self._taken, []
        for lock in taken:
            lock.release()
