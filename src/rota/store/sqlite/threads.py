"""The two threads on which a store calls SQLite: one for writes, one for reads.

A hop to a thread and back costs more than a small read. So reads of one loop that arrive while its thread is away on
earlier ones go there together.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import concurrent.futures.thread  # now: after a fork during its import the child could not import it
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")
# Answers that are ready wait this long, in seconds, for the reads that share their hop.
PATIENCE = 0.002


class Threads:
    def __init__(self, shared: bool) -> None:
        self._write = concurrent.futures.ThreadPoolExecutor(1, "rota-store-write")
        self._read = self._write if shared else concurrent.futures.ThreadPoolExecutor(1, "rota-store-read")
        self._hops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Hops] = weakref.WeakKeyDictionary()

    def run(self, writes: bool, call: Callable[[], T]) -> asyncio.Future[T]:
        """Runs the call on its thread, for the running loop."""
        loop = asyncio.get_running_loop()
        if writes:
            return loop.run_in_executor(self._write, call)
        hops = self._hops.get(loop)
        if hops is None:
            hops = self._hops[loop] = Hops(self._read)
        return hops.put(call)

    def end(self, last: Sequence[tuple[bool, Callable[[], None]]]) -> None:
        with suppress(RuntimeError):  # the process ends
            for writes, call in last:
                (self._write if writes else self._read).submit(call)
        self.stop()

    def stop(self) -> None:
        self._write.shutdown(wait=False)
        self._read.shutdown(wait=False)


class Hops:
    """The reads of one loop."""

    def __init__(self, executor: concurrent.futures.Executor) -> None:
        self._executor = executor
        self._waiting: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []
        self._away = False

    def put(self, call: Callable[[], T]) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._waiting.append((call, future))
        if not self._away:
            self._send(loop)
        return future

    def _send(self, loop: asyncio.AbstractEventLoop) -> None:
        batch, self._waiting = self._waiting, []
        try:
            self._executor.submit(self._carry, loop, batch)
            self._away = True
        except RuntimeError as error:  # the threads have ended
            self._away = False
            _deliver([(future, None, error) for _, future in batch])

    def _carry(
        self, loop: asyncio.AbstractEventLoop, batch: list[tuple[Callable[[], Any], asyncio.Future[Any]]]
    ) -> None:
        """On the thread. A slow read does not keep the answers of those before it."""
        answers: list[_Answer] = []
        begun = time.perf_counter()
        with suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits
            for call, future in batch:
                if not future.cancelled():
                    answers.append(_answer(call, future))
                if time.perf_counter() - begun > PATIENCE:
                    loop.call_soon_threadsafe(_deliver, answers)
                    answers, begun = [], time.perf_counter()
            loop.call_soon_threadsafe(self._back, loop, answers)

    def _back(self, loop: asyncio.AbstractEventLoop, answers: list[_Answer]) -> None:
        self._away = False
        if self._waiting:
            self._send(loop)
        _deliver(answers)


_Answer = tuple[asyncio.Future[Any], Any, BaseException | None]


def _answer(call: Callable[[], Any], future: asyncio.Future[Any]) -> _Answer:
    try:
        return future, call(), None
    except BaseException as error:
        return future, None, error


def _deliver(answers: Sequence[_Answer]) -> None:
    for future, value, error in answers:
        if future.done():
            continue
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)
