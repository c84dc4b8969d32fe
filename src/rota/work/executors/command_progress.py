"""The pipe through which a command reports progress: lines such as `0.4 loading`, of which the newest counts.

Invalid lines are ignored. A flood is read a little at a time: it fills the pipe and slows down only its own command.
"""

from __future__ import annotations

import asyncio
import os

from rota.model.progress import read_line
from rota.work.progress import ProgressBook

PROGRESS_FD = "ROTA_PROGRESS_FD"  # the variable that names the descriptor
PROGRESS_NUMBER = 3  # and its number: the first after the standard three
READ_SIZE = 64 << 10  # as much as a pipe holds
LONGEST_LINE = 4096
PAUSE = 0.02  # between two looks
LAST_READS = 16  # as much as the largest pipe holds; only a foreign process with the pipe's other end could write more


class ProgressPipe:
    def __init__(self, book: ProgressBook) -> None:
        self._book = book
        self._reader, self.writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(self.writer, True)  # a write must not fail because the pipe is full
        self._loop = asyncio.get_running_loop()
        self._rest = b""

    def follow(self) -> None:
        """Our write end stays open until the command ends: a closing pipe would wake the loop for nothing."""
        self._listen()

    def _listen(self) -> None:
        if self._reader >= 0:
            self._loop.add_reader(self._reader, self._read)

    def _read(self) -> None:
        self._loop.remove_reader(self._reader)
        if self._hear():
            self._loop.call_later(PAUSE, self._listen)

    def _hear(self) -> bool:
        """Reads the available lines; False if the pipe is closed."""
        try:
            body = os.read(self._reader, READ_SIZE)
        except BlockingIOError:
            return True
        *lines, self._rest = (self._rest + body).split(b"\n")
        self._rest = self._rest[:LONGEST_LINE]
        now = self._book.now()
        # From the end: only the newest valid line counts.
        told = (read_line(line, now) for line in reversed(lines) if len(line) <= LONGEST_LINE)
        if progress := next(filter(None, told), None):
            self._book.tell(progress)
        return bool(body)

    def end(self) -> None:
        """Reads the rest after the command's end: all that it wrote is in the pipe."""
        self._hang_up()
        for _ in range(LAST_READS):
            if not self._hear():
                break
        if progress := read_line(self._rest, self._book.now()):
            self._book.tell(progress)
        self.close()

    def close(self) -> None:
        self._hang_up()
        if self._reader >= 0:
            self._loop.remove_reader(self._reader)
            os.close(self._reader)
            self._reader = -1

    def _hang_up(self) -> None:
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1
