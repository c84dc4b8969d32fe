"""Messages for the channel between node and function process, in batches: one write per turn of the loop."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable

from rota.work.functions.wire import FromProcess, ToProcess, frame

SEND_SIZE = 256 << 10
Word = FromProcess | ToProcess


class Outbox:
    """`soon` is `loop.call_soon`, or `loop.call_soon_threadsafe` if messages come from other threads."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, channel: socket.socket, soon: Callable[[Callable[[], None]], object]
    ) -> None:
        self._loop, self._channel, self._soon = loop, channel, soon
        self.waiting: deque[bytes | Callable[[], Word]] = deque()
        self.unsent = b""
        self._rung = self._writing = False

    def put(self, word: bytes | Callable[[], Word]) -> None:
        """Adds a frame, or a function that makes the message when it is sent."""
        self.waiting.append(word)
        if not self._rung:
            self._rung = True
            try:
                self._soon(self.flush)
            except BaseException:  # the exception of a stop may arrive here: the next call must wake the loop again
                self._rung = False
                raise

    def flush(self) -> None:
        """On the loop's thread."""
        self._rung = False
        parts, size = [self.unsent], len(self.unsent)
        while self.waiting and size < SEND_SIZE:
            word = self.waiting.popleft()
            parts.append(frame(word()) if callable(word) else word)
            size += len(parts[-1])
        if not size or self._channel.fileno() < 0:
            return
        data = b"".join(parts)
        try:
            sent = self._channel.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            sent = len(data)  # the other side has died, which is about to be reported
        self.unsent = data[sent:]
        if bool(self.unsent or self.waiting) is not self._writing:
            self._writing = not self._writing
            if self._writing:
                self._loop.add_writer(self._channel, self.flush)
            else:
                self._loop.remove_writer(self._channel)
