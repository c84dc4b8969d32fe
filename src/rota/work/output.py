"""The pipes that jobs write to, and the thread that empties them.

A job must never wait because its output is not read. So the pipes are read by one thread for all commands and function
processes of the node: it goes on while the node's loop is busy, and a flood costs the loop little, since the
interpreter is free while the kernel copies. The bytes go into the attempt's sink, which never waits.

The two streams of a command are two pipes, and the order between them can't be known for sure. The kernel lists
pipes in the order in which they got something to read; they are read in that order, so lines come out as they were
written if there was time to wake up in between.
"""

from __future__ import annotations

import fcntl
import os
import select
import threading
import time
from contextlib import suppress
from typing import Protocol

from rota.logs.capture import OutputWriter

# The largest size for unprivileged users: a job can go on writing while this thread waits for its turn.
PIPE_SIZE = 1 << 20
READ_SIZE = 64 << 10
# Seconds that a flooded pipe is not read, unless it was nearly full: few large reads cost the others less than many
# small ones, because each read takes the interpreter lock from the loop.
REST = 0.008
# The kernel reports a pipe once; after it was read, we ask for the next report. A pipe that rests is not asked for.
ONCE = select.EPOLLIN | select.EPOLLONESHOT
# A thread that has nothing to read for this long ends; the next command starts another.
IDLE = 10.0


class Counter(Protocol):
    """Gets every read: before it, and the number of bytes after it."""

    def begin(self) -> None: ...

    def end(self, came: int) -> None: ...


class Puller(Protocol):
    """Reads a pipe into a sink, as `os.read` does."""

    def __call__(self, stream: str, pipe: int, size: int) -> bytes: ...


class Output:
    """The pipes of one command, or of one process for functions."""

    def __init__(
        self, sink: OutputWriter, drain: Drain, counter: Counter | None = None, pull: Puller | None = None
    ) -> None:
        self._sink, self._drain, self._counter, self._pull = sink, drain, counter, pull
        self._lock = (
            threading.Lock()
        )  # held while reading, so that bytes are written in the order in which they were read
        self._readers: dict[int, str] = {}
        self.writers: list[int] = []
        self.capacity = PIPE_SIZE
        try:
            for stream in ("stdout", "stderr"):
                reader, writer = os.pipe2(os.O_CLOEXEC)
                os.set_blocking(reader, False)
                self._readers[reader] = stream
                self.writers.append(writer)
                with suppress(OSError):  # the user's pipe quota is used up: keep the small size
                    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
                self.capacity = min(self.capacity, fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ))
        except OSError:
            self.close()
            raise

    def follow(self) -> None:
        """Starts reading. Our write ends stay open until the job ends: a closing pipe would wake the thread for every
        command, though the keeper reports the end anyway."""
        self._drain.add(self, list(self._readers))

    def read(self, reader: int, much: bool) -> int:
        """Called by the thread: reads the available bytes, probably `much`. Returns their number; -1 if the pipe is
        closed."""
        came = 0
        with self._lock, suppress(BlockingIOError):
            stream = self._readers.get(reader)
            if stream is None:
                return -1
            for size in (PIPE_SIZE,) if much else (READ_SIZE, PIPE_SIZE):  # a small buffer first if little is expected
                body = self._read(stream, reader, size)
                if not body:
                    self._shut(reader)
                    return -1
                came += len(body)
                if len(body) < size:
                    break
        return came

    def read_all(self) -> None:
        """Reads all bytes written so far, for a caller that can't wait for the thread. Bounded by the size of the
        pipes: a writer may never stop."""
        with self._lock:
            for reader, stream in self._readers.items():
                left = self.capacity
                with suppress(BlockingIOError):
                    while left > 0 and (body := self._read(stream, reader, left)):
                        left -= len(body)

    def _read(self, stream: str, reader: int, size: int) -> bytes:
        """Reads into the sink."""
        if self._pull is not None:
            return self._pull(stream, reader, size)
        body = os.read(reader, size) if self._counter is None else self._counted(reader, size)
        if body:
            self._sink.write(stream, body)
        return body

    def _counted(self, reader: int, size: int) -> bytes:
        assert self._counter is not None
        body = b""
        self._counter.begin()
        try:
            body = os.read(reader, size)
        finally:
            self._counter.end(len(body))
        return body

    def end(self) -> None:
        """Reads the rest. The whole tree is gone, so all output is in the pipes; a foreign process that holds their
        other ends must not keep us waiting."""
        self.read_all()
        self.close()

    def _shut(self, reader: int) -> None:
        del self._readers[reader]
        self._drain.forget(reader)
        os.close(reader)

    def close(self) -> None:
        self._close_writers()
        with self._lock:
            for reader in list(self._readers):
                self._shut(reader)

    def _close_writers(self) -> None:
        for writer in self.writers:
            os.close(writer)
        self.writers = []


class Drain:
    """The reading thread. It exists while there are pipes to read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._outputs: dict[int, Output] = {}  # by the number of the pipe's end
        self._poll: select.epoll | None = None

    def add(self, output: Output, readers: list[int]) -> None:
        with self._lock:
            if self._poll is None:
                poll = select.epoll()
                threading.Thread(target=self._run, args=(poll,), name="rota-output", daemon=True).start()
                self._poll = poll  # set only once the thread runs
            for reader in readers:
                self._outputs[reader] = output
                self._poll.register(reader, ONCE)

    def forget(self, reader: int) -> None:
        with self._lock:
            if self._outputs.pop(reader, None) and self._poll is not None:
                with suppress(OSError):  # it could not be registered
                    self._poll.unregister(reader)

    def _run(self, poll: select.epoll) -> None:
        resting: dict[int, float] = {}  # until when each pipe rests; earliest end first
        while True:
            news = poll.poll(max(next(iter(resting.values())) - time.monotonic(), 0.0) if resting else IDLE)
            if not news and not resting and self._retire(poll):
                return
            rested = set(resting)
            for reader in self._in_order([reader for reader, _ in news], resting):
                if (output := self._outputs.get(reader)) is None:
                    continue  # it has ended meanwhile
                try:
                    came = output.read(reader, reader in rested)
                except Exception:  # such as no memory: the thread must go on
                    came = READ_SIZE
                if READ_SIZE <= came < output.capacity * 7 // 8:
                    resting[reader] = time.monotonic() + REST
                elif came >= 0:
                    with suppress(OSError):  # it has ended meanwhile
                        poll.modify(reader, ONCE)

    def _in_order(self, news: list[int], resting: dict[int, float]) -> list[int]:
        """The pipes to read now: pipes whose rest is over, and pipes with news. If one stream of a job has news, its
        other stream is read first, even if that still rests: it was written before."""
        now = time.monotonic()
        speakers = {self._outputs.get(reader) for reader in news}
        first = [one for one, until in resting.items() if until <= now or self._outputs.get(one) in speakers]
        for reader in first:
            del resting[reader]
        return first + news

    def _retire(self, poll: select.epoll) -> bool:
        with self._lock:
            if self._outputs:
                return False
            self._poll = None
            poll.close()
            return True
