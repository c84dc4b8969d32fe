"""Reports a blocked loop of a node, with the stacks of all threads.

While the loop is blocked all services stand still, and if it lasts the keeper ends the node together with its lease
(`lease.py`). So a thread watches the loop. After a few seconds it reports a line and the stacks of all threads, once.
If a call holds the interpreter itself, no thread can run; then a timer of the C library prints the stacks.

The thread counts its looks, not the time: a process that was stopped was not blocked. (The timer can't tell the
difference: stacks without a line may mean that.)
"""

from __future__ import annotations

import asyncio
import faulthandler
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

PERIOD = 1.0
LOOKS = 5
# Later than the thread, which cancels the timer after its own report.
BEYOND = 2.0


@contextmanager
def watched(stream: TextIO, tell: Callable[[float], None], period: float = PERIOD) -> Iterator[None]:
    """Reports a blocked loop while this is open: `tell` gets the seconds, and `stream`, a real file, the stacks."""
    watch = _LoopWatch(asyncio.get_running_loop(), stream, tell, period)
    try:
        yield
    finally:
        watch.close()


class _LoopWatch:
    def __init__(
        self, loop: asyncio.AbstractEventLoop, stream: TextIO, tell: Callable[[float], None], period: float
    ) -> None:
        self._loop, self._stream, self._tell, self._period = loop, stream, tell, period
        self._looks = 0  # since the loop last ran
        self._over = threading.Event()
        self._handle = loop.call_soon(self._beat)
        self._thread = threading.Thread(target=self._run, name="rota-stall", daemon=True)
        self._thread.start()

    def _beat(self) -> None:
        self._looks = 0
        faulthandler.dump_traceback_later((LOOKS + BEYOND) * self._period, file=self._stream)
        self._handle = self._loop.call_later(self._period, self._beat)

    def _run(self) -> None:
        while not self._over.wait(self._period):
            self._looks += 1
            if self._looks == LOOKS + 1:  # one more, because the loop sleeps between two beats
                faulthandler.cancel_dump_traceback_later()
                self._tell(LOOKS * self._period)
                faulthandler.dump_traceback(self._stream)

    def close(self) -> None:
        self._over.set()
        self._handle.cancel()
        faulthandler.cancel_dump_traceback_later()
