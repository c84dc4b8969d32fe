"""Wake-ups between processes that share one SQLite file: named pipes in a folder beside the database file.

A listener makes a named pipe whose ending lists the topics. A writer opens it without waiting, writes one byte and
closes it; a pipe without a reader is removed. (A Unix socket would work as well, but its path may have 107 bytes at
most, and database files may be in deeper folders.)
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from rota import forking
from rota.store.values import Topic

_PIPE = ".wake"


class Wakeups:
    """Wakes other processes, and is woken by them."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self._open: dict[Path, tuple[int, asyncio.AbstractEventLoop, Callable[[], None]]] = {}
        self._numbers = itertools.count()

    def hear(self, topics: Iterable[Topic], wake: Callable[[], None]) -> Callable[[], None]:
        """Calls `wake` on the running loop at every ring for one of the topics; returns the call that ends it."""
        for orphan in [one for one in list(self._open.values()) if one[1].is_closed()]:
            orphan[2]()
        self._folder.mkdir(mode=0o700, exist_ok=True)
        loop = asyncio.get_running_loop()
        path = self._folder / f"{self._name}-{next(self._numbers)}.{''.join(sorted(topics))}{_PIPE}"
        # It is renamed when it has a reader: a pipe without one counts as left by a dead process and is removed.
        unnamed = path.with_suffix(".new")
        os.mkfifo(unnamed, 0o600)
        # Read-write: with a writer of our own there is never an end-of-file to spin on.
        descriptor = os.open(unnamed, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        unnamed.rename(path)

        def rung() -> None:
            with suppress(BlockingIOError):
                os.read(descriptor, 65536)
            wake()

        loop.add_reader(descriptor, rung)

        def end() -> None:
            if self._open.pop(path, None):
                path.unlink(missing_ok=True)
                if not loop.is_closed():
                    loop.remove_reader(descriptor)
                os.close(descriptor)

        self._open[path] = descriptor, loop, end
        return end

    def close(self) -> None:
        for _, _, end in list(self._open.values()):
            end()

    def forget(self) -> None:
        """In a forked child: the pipes and the loops that read them are the parent's."""
        forking.keep_for_ever(self._open)
        forking.close_copies(descriptor for descriptor, _, _ in self._open.values())
        self._open = {}

    def sweep(self) -> None:
        """Removes pipes without a reader."""
        with suppress(OSError):
            for entry in os.listdir(self._folder):  # noqa: PTH208
                if entry.endswith(_PIPE) and not entry.startswith(self._name):
                    self._touch(self._folder / entry, body=b"")

    def ring(self, topics: Iterable[Topic]) -> None:
        """Wakes the listeners of other processes. Never waits, never fails: a lost ring costs one poll interval."""
        wanted = {topic.value for topic in topics}
        try:
            entries = os.listdir(self._folder)  # noqa: PTH208 - names are all we need, a hundred times a second
        except OSError:
            return
        for entry in entries:
            if entry.endswith(_PIPE) and not entry.startswith(self._name) and wanted & set(entry.split(".")[1]):
                self._touch(self._folder / entry)

    def _touch(self, path: Path, body: bytes = b".") -> None:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno == errno.ENXIO:  # no reader: left behind by a killed process
                path.unlink(missing_ok=True)
            return
        try:
            os.write(descriptor, body)
        except OSError:
            pass  # full: wake-ups are pending already
        finally:
            os.close(descriptor)
