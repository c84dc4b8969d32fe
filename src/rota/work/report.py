"""What becomes of one command, as the process above it reports through a pipe.

Every process that answers for the command holds the pipe's other end. So its closing without a word of how the
command ended is a report too: nobody is left who could know, the command is lost.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Exit:
    """How a command ended: by `code` or by `signal`; by neither if the process above it was lost.

    `max_rss_bytes` is at least the few megabytes of the process that started the command: Linux counts so.
    """

    code: int | None
    signal: int | None
    cpu_seconds: float
    max_rss_bytes: int
    lost: bool


LOST = Exit(code=None, signal=None, cpu_seconds=0.0, max_rss_bytes=0, lost=True)


class Report:
    """Reads the pipe, and is in `unfinished` until all is said. `pid` is 0 if it never was."""

    def __init__(self, pipe: int, unfinished: set[Report]) -> None:
        self.pid = 0
        self._pipe = pipe
        self._unfinished = unfinished
        self._rest = b""
        self._limit: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self.started: asyncio.Future[tuple[int, str] | None] = self._loop.create_future()  # errno and what failed
        self.exit: asyncio.Future[Exit] = self._loop.create_future()
        unfinished.add(self)
        self._loop.add_reader(pipe, self._read)

    def lose(self) -> None:
        """Wait no longer for what is still to be said."""
        self._finish(LOST)

    def lose_after(self, seconds: float) -> None:
        if self._limit is None and not self.exit.done():
            self._limit = self._loop.call_later(seconds, self.lose)

    def _read(self) -> None:
        data = os.read(self._pipe, 4096)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._hear(*line.decode().split())
        if not data:
            self.lose()

    def _hear(self, verb: str, *words: str) -> None:
        match verb:
            case "started":
                self.pid = int(words[0])
                self._answer(None)
            case "failed":
                self._answer((int(words[0]), words[1]))
                self.lose()
            case "exit":
                self._finish(_exit(*words))

    def _answer(self, failure: tuple[int, str] | None) -> None:
        if not self.started.done():
            self.started.set_result(failure)

    def _finish(self, exit: Exit) -> None:
        if not self.exit.done():
            if self._limit is not None:
                self._limit.cancel()
            self._loop.remove_reader(self._pipe)
            os.close(self._pipe)
            self._unfinished.discard(self)
            self.exit.set_result(exit)
            self._answer(None)


def _exit(status: str, cpu_seconds: str, max_rss_bytes: str) -> Exit:
    code = os.waitstatus_to_exitcode(int(status))
    return Exit(
        code=code if code >= 0 else None,
        signal=-code if code < 0 else None,
        cpu_seconds=float(cpu_seconds),
        max_rss_bytes=int(max_rss_bytes),
        lost=False,
    )
