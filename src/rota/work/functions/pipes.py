"""The stdout and stderr of a function process, and the log lines that belong in between.

The pipes are read by the thread that reads those of commands (`work/output.py`): a function never waits because the
node's loop is busy. Log lines come by the channel, which the loop reads; each says how much was printed before it.
So bytes that the thread has read are held here until the loop has read the channel: every log line that was written
before them has arrived by then. If a flood outruns the loop, the order between prints and log lines is given up.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from rota.logs.capture import OutputWriter
from rota.work.functions.tally import Tally
from rota.work.functions.wire import OutputChunk
from rota.work.output import Drain, Output

MOST_HELD = 4 << 20


class Pipes:
    """Output goes to the sink of the attempt that runs in the process, and to `stray` while there is none."""

    def __init__(
        self, drain: Drain, stray: Callable[[bytes], None], listen: Callable[[], None], tally: Tally | None = None
    ) -> None:
        """`listen` reads the channel, and calls `log` among others. Raises OSError."""
        self._stray, self._listen = stray, listen
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._sink: OutputWriter | None = None
        self._held: deque[tuple[str, bytes]] = deque()
        self._size = 0  # bytes held
        self._came = self._went = 0  # bytes since the start of the process
        self._printed = {"stdout": 0, "stderr": 0}  # bytes of this job that arrived
        self._passed = {"stdout": 0, "stderr": 0}  # and that were passed on
        self._rung = False
        self._output = Output(self, drain, tally)

    @property
    def writers(self) -> list[int]:
        return self._output.writers

    def follow(self) -> None:
        """The process lives."""
        self._output.follow()

    def belong_to(self, sink: OutputWriter | None) -> None:
        with self._lock:
            self._sink = sink

    def write(self, stream: str, body: bytes) -> None:
        """Takes printed bytes, from the thread that reads the pipes, or from the loop when it can't wait."""
        with self._lock:
            if self._size > MOST_HELD and self._sink is None:
                return  # output of no attempt
            self._held.append((stream, body))
            self._size += len(body)
            self._came += len(body)
            self._printed[stream] += len(body)
            if self._size > MOST_HELD:
                self._pass_on(self._came)
            rings, self._rung = not self._rung, True
        if rings:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._heard)

    def _heard(self) -> None:
        with self._lock:
            self._rung, upto = False, self._came
            if not self._held:
                return
        self._listen()
        with self._lock:
            self._pass_on(upto)

    def _pass_on(self, upto: int) -> None:
        while self._held and self._went < upto:
            self._emit(*self._held.popleft())

    def _emit(self, stream: str, body: bytes) -> None:
        self._size -= len(body)
        self._went += len(body)
        self._passed[stream] += len(body)
        if self._sink is None:
            self._stray(body)
        else:
            self._sink.write(stream, body)

    def log(self, chunk: OutputChunk) -> None:
        """Takes a log line, and puts it after the bytes that were printed before it."""
        marks = {"stdout": chunk.out, "stderr": chunk.err}
        if any(self._printed[stream] < mark for stream, mark in marks.items()):
            self._output.read_all()
        with self._lock:
            self._pass_on_to(marks)
            if self._sink is None:
                self._stray(chunk.body)
            else:
                self._sink.write("log", chunk.body)

    def _pass_on_to(self, marks: dict[str, int]) -> None:
        held, self._held = self._held, deque()
        for stream, body in held:
            cut = max(0, marks[stream] - self._passed[stream])
            if body[:cut]:
                self._emit(stream, body[:cut])
            if body[cut:]:
                self._held.append((stream, body[cut:]))

    def drain(self) -> None:
        """Passes all printed bytes of an ended job to its sink."""
        self._output.read_all()
        with self._lock:
            self._pass_on(self._came)
            self._printed, self._passed = dict.fromkeys(self._printed, 0), dict.fromkeys(self._passed, 0)

    def close(self) -> None:
        self._output.end()
