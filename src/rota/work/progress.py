"""Carries the progress of attempts, and the states that they save for the next attempt, into the store.

A task reports from any thread. Reporting progress never waits and never fails: only the newest report of a moment is
written, and progress that the store keeps refusing is dropped. A save is written at once, and returns when it is
durable; it waits while the store is unavailable, and fails only if the store can't hold its values. Reports that come
during a write go into the next one.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import msgspec

from rota.batching import Batcher
from rota.errors import RotaError, Stale
from rota.logs.capture import OutputWriter
from rota.model.job import Ref, Verdict
from rota.model.principal import SYSTEM
from rota.model.progress import CUT_MARK, Progress
from rota.model.secrets import Mask
from rota.model.times import Instant
from rota.refusals import CERTAIN, Refusals, anyones
from rota.store.base import Store
from rota.store.values import Note

# Often enough to look live, and rare enough that a thousand jobs that report every step cost five writes a second.
GATHER = 0.2


class ProgressBook:
    """The progress and the saves of one attempt."""

    def __init__(self, ref: Ref, notes: ProgressWriter) -> None:
        self.ref, self._notes = ref, notes
        self.saved = False
        self.mask: Mask | None = None  # of the secrets of the attempt
        self._told: Progress | None = None  # the newest report, until it is sent
        self._lock = threading.Lock()
        self._number = 0
        self._lost = False
        self._telling: asyncio.Task[None] | None = None
        self._saving: set[asyncio.Task[RotaError | None]] = set()

    # -- from any thread ---------------------------------------------------------------------------------------------
    def now(self) -> Instant:
        return self._notes.now()

    def progress(self, fraction: float | None, text: str = "") -> None:
        self.tell(Progress.told(fraction, text, self.now()))

    def tell(self, progress: Progress) -> None:
        if self.mask is not None:
            progress = msgspec.structs.replace(progress, text=self.mask.cut_text(progress.text, CUT_MARK))
        with self._lock:
            first, self._told = self._told is None, progress
        if first:
            self._notes.call(self._notes.remember, self)

    def save(self, body: str) -> Future[None]:
        done: Future[None] = Future()
        self.saved = True
        if not self._notes.call(self._save, body, done):
            done.set_exception(Stale())
        return done

    # -- on the node's loop ------------------------------------------------------------------------------------------
    def write(self) -> None:
        """Sends the newest progress. One at a time: notes must not pile up while the store is unavailable."""
        if self._told is not None and self._telling is None:
            self._telling = asyncio.create_task(self._tell())

    async def flush(self) -> None:
        """Returns when all earlier reports are in the store, or were refused by it."""
        if self._telling is not None:
            await asyncio.wait([self._telling])
        self.write()
        under_way: set[asyncio.Future[Any]] = {*self._saving, *([self._telling] if self._telling else ())}
        if under_way:
            await asyncio.wait(under_way)

    def lose(self) -> None:
        """The node has lost the attempt: nothing more is written, and waiting saves end."""
        self._lost = True
        for task in (*self._saving, *([self._telling] if self._telling else ())):
            task.cancel()

    async def _tell(self) -> None:
        refusals = Refusals()
        try:
            while (progress := self._take()) is not None and not self._lost:
                try:
                    await self._notes.put(self._note(progress, None))
                    break
                except Exception as error:
                    if refusals.hopeless(error) or (refusals.count >= CERTAIN and not anyones(error)):
                        break
                with self._lock:
                    self._told = self._told or progress
                await asyncio.sleep(refusals.pause)
        finally:
            self._telling = None
            if self._told is not None and not self._lost:
                self._notes.remember(self)

    def _save(self, body: str, done: Future[None]) -> None:
        if self._lost:
            done.set_exception(Stale())
            return
        task = asyncio.create_task(self._keep(self._note(self._take(), body)))
        self._saving.add(task)
        task.add_done_callback(self._saving.discard)
        task.add_done_callback(lambda ended: conclude(done, Stale() if ended.cancelled() else ended.result()))

    async def _keep(self, note: Note) -> RotaError | None:
        """Writes a note; returns the error if it could not be kept."""
        refusals = Refusals()
        while True:
            try:
                return Stale() if await self._notes.put(note) is Verdict.STALE else None
            except Exception as error:
                if refusals.hopeless(error):
                    # If the store refuses a note without values too, the values are not the cause.
                    with suppress(Exception):
                        await self._notes.put(Note(note.job_id, note.fence, note.number))
                        return RotaError(f"it could not be saved: {error}")
                await asyncio.sleep(refusals.pause)

    def _take(self) -> Progress | None:
        with self._lock:
            progress, self._told = self._told, None
        return progress

    def _note(self, progress: Progress | None, state: str | None) -> Note:
        self._number += 1
        return Note(self.ref.job_id, self.ref.fence, self._number, progress, state)


class ProgressWriter:
    """All books of one worker, written together. Belongs to the loop it was made on."""

    def __init__(self, store: Store) -> None:
        self.now = store.now
        self._loop, self._context = asyncio.get_running_loop(), contextvars.copy_context()
        self._batcher: Batcher[Note, Verdict] = Batcher(lambda batch: store.note(SYSTEM, batch), weigh=_weight)
        self._told: list[ProgressBook] = []  # with progress to be written
        self.put = self._batcher.put

    def open(self, ref: Ref) -> ProgressBook:
        return ProgressBook(ref, self)

    def call(self, act: Callable[..., None], *args: object) -> bool:
        """Calls `act` on the loop, outside the context of the task: its errors must not become output of the task.
        False if the loop is closed: the node is gone."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(act, *args, context=self._context)
            return True
        return False

    def remember(self, book: ProgressBook) -> None:
        if not self._told:
            self._loop.call_later(GATHER, self._write)
        self._told.append(book)

    def _write(self) -> None:
        told, self._told = self._told, []
        for book in told:
            book.write()


class AttemptReporter:
    """For tasks that run in the node's own process."""

    def __init__(self, output: OutputWriter, book: ProgressBook, conceal: Callable[[Sequence[str]], None]) -> None:
        self._sink, self._book, self.mask = output, book, conceal

    def log(self, line: str) -> None:
        self._sink.write("log", (line + "\n").encode("utf-8", "backslashreplace"))

    def progress(self, fraction: float | None, text: str) -> None:
        self._book.progress(fraction, text)

    def save(self, body: str) -> Future[None]:
        return self._book.save(body)


def _weight(note: Note) -> int:
    """The weight of a note in a batch, in notes of ordinary size."""
    return 1 + len(note.state or "") // 4096


def conclude(done: Future[None], error: RotaError | None) -> None:
    if not done.set_running_or_notify_cancel():
        return  # the caller was cancelled meanwhile
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
