"""The two threads on which a store calls SQLite: one for writes, one for reads."""

from __future__ import annotations

import concurrent.futures
import concurrent.futures.thread  # now: after a fork during its import the child could not import it
from collections.abc import Callable, Sequence
from contextlib import suppress


class Threads:
    def __init__(self, shared: bool) -> None:
        self._write = concurrent.futures.ThreadPoolExecutor(1, "rota-store-write")
        self._read = self._write if shared else concurrent.futures.ThreadPoolExecutor(1, "rota-store-read")

    def of(self, writes: bool) -> concurrent.futures.Executor:
        return self._write if writes else self._read

    def end(self, last: Sequence[tuple[bool, Callable[[], None]]]) -> None:
        with suppress(RuntimeError):  # the process ends
            for writes, call in last:
                self.of(writes).submit(call)
        self.stop()

    def stop(self) -> None:
        self._write.shutdown(wait=False)
        self._read.shutdown(wait=False)
