"""The start and end of one command, as reported through a pipe by the process above it.

Every process that is responsible for the command holds the pipe's other end. So a pipe that closes without a report of
the end is a report too: no process is left that could know, the command is lost.

A command may find that end (its parent's descriptors are in /proc) and write anything. So a report counts only once the
pipe is closed, and is valid only if it is exactly one start and one end. A command that forges one is killed, and lost.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Callable
from dataclasses import dataclass

LONGEST = 4096  # bytes of a whole report
# Seconds between the report of the end and the end of the pipe: the keeper must close its copy.
CLOSING_LIMIT = 5.0

_STARTED = re.compile(rb"started (\d{1,10}) ([a-z0-9_:+,-]{1,500})")
_FAILED = re.compile(rb"failed (\d{1,5}) ([a-z]{1,20})")
_EXIT = re.compile(rb"exit (\d{1,5}) (\d{1,12}(?:\.\d{1,20})?(?:e-\d\d)?) (\d{1,18}) (-|oom)")


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
    out_of_memory: bool = False


LOST = Exit(code=None, signal=None, cpu_seconds=0.0, max_rss_bytes=0, lost=True)


def signal_name(number: int) -> str:
    return signal.Signals(number).name if number in list(signal.Signals) else str(number)


class Report:
    """Reads the pipe, and is in `unfinished` until the report is complete. `pid` is 0 if the command never started."""

    def __init__(self, pipe: int, unfinished: set[Report]) -> None:
        self.pid = 0
        self.isolation: tuple[str, ...] = ()
        self.doubted: Callable[[], None] = lambda: None  # called once if the report can't be true
        self._pipe = pipe
        self._unfinished = unfinished
        self._rest = b""
        self._length = 0
        self._heard: Exit | None = None
        self._wrong = False
        self._limit: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self.started: asyncio.Future[tuple[int, str] | None] = (
            self._loop.create_future()
        )  # errno, and the step that failed
        self.exit: asyncio.Future[Exit] = self._loop.create_future()
        unfinished.add(self)
        self._loop.add_reader(pipe, self._read)

    def lose(self) -> None:
        """Wait no longer for the rest of the report."""
        self._finish(LOST)

    def lose_after(self, seconds: float) -> None:
        if self._limit is None and not self.exit.done():
            self._limit = self._loop.call_later(seconds, self.lose)

    def _read(self) -> None:
        data = os.read(self._pipe, LONGEST)
        if not data:
            self._finish(self._heard if self._heard is not None and not self._wrong and not self._rest else LOST)
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._length += len(data)
        if self._length > LONGEST:
            lines, self._rest = [b"too much"], b""
        for line in lines:
            if not self._wrong and not self.exit.done() and not self._hear(line):
                self._doubt()

    def _hear(self, line: bytes) -> bool:
        """False if the line is invalid, or out of order."""
        if self._heard is not None:
            return False
        if found := _STARTED.fullmatch(line):
            return self._start(int(found[1]), tuple(found[2].decode().split(",")))
        if found := _FAILED.fullmatch(line):
            if self.pid:
                return False
            self._answer((int(found[1]), found[2].decode()))
            self.lose()
            return True
        if (found := _EXIT.fullmatch(line)) and self.pid:
            self._heard = _exit(int(found[1]), float(found[2]), int(found[3]), found[4] == b"oom")
            if self._heard is not None and self._limit is None:
                self._limit = self._loop.call_later(CLOSING_LIMIT, self._doubt)
            return self._heard is not None
        return False

    def _start(self, pid: int, isolation: tuple[str, ...]) -> bool:
        if self.pid:
            return False
        self.pid, self.isolation = pid, isolation
        self._answer(None)
        return True

    def _doubt(self) -> None:
        """Has the command killed; its end is the end of the pipe."""
        if not self._wrong:
            self._wrong = True
            if self._limit is not None:
                self._limit.cancel()
                self._limit = None
            self.doubted()

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


def _exit(status: int, cpu_seconds: float, max_rss_bytes: int, out_of_memory: bool) -> Exit | None:
    """None if no process can end with this status."""
    try:
        code = os.waitstatus_to_exitcode(status)
    except ValueError:
        return None
    return Exit(
        code=code if code >= 0 else None,
        signal=-code if code < 0 else None,
        cpu_seconds=cpu_seconds,
        max_rss_bytes=max_rss_bytes,
        lost=False,
        out_of_memory=out_of_memory,
    )
