"""A host: a fork of the nursery for functions that share a process. Async ones share its loop, sync ones that asked for
a thread get one each.

What they say and how they end goes back in batches: one write for all that has come together meanwhile. When the loop
is blocked by one of them, the host doesn't answer to `Ping`; the controller draws the conclusions.
"""

from __future__ import annotations

import asyncio
import contextvars
import ctypes
import itertools
import os
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, NoReturn

from rota.clock import SystemClock
from rota.errors import RotaError
from rota.logs.capture import CURRENT, captured
from rota.logs.shipper import Sink
from rota.model.job import Ref
from rota.model.outcome import Failed, Interrupted, Outcome, Problem, SetAside
from rota.model.progress import Progress
from rota.model.times import SECOND
from rota.work.attempt import TOO_LATE
from rota.work.catalogue import TaskDef
from rota.work.context import Context, RunningJob
from rota.work.ending import judge, succeeded
from rota.work.pool.process import Rules, resident, settle_in
from rota.work.pool.wire import (
    LARGEST_SAYING,
    READ_SIZE,
    Ended,
    Frames,
    Given,
    Halt,
    Keep,
    Kept,
    Order,
    Ping,
    Pong,
    Progressed,
    Told,
    Uttered,
    decode_given,
    frame,
    saved,
)


def be_host(nursery: int, rules: Rules, channel: int, out: int, err: int) -> NoReturn:
    """What a fresh fork of the nursery does."""
    status = 1
    try:
        settle_in(nursery, out, err, b"rota-host")
        with captured():
            Host(rules, socket.socket(fileno=channel)).run()
        status = 0
    except BaseException:
        with suppress(BaseException):
            sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)


class _Sink(Sink):
    """What one attempt says."""

    def __init__(self, host: Host, key: int, ref: Ref) -> None:
        super().__init__(ref, 0, lambda: 0, lambda _: None)
        self._host, self._key = host, key

    def write(self, stream: str, body: bytes) -> None:
        for start in range(0, len(body), LARGEST_SAYING):
            self._host.tell(Uttered(self._key, stream, body[start : start + LARGEST_SAYING]))


class Guest:
    """One attempt here."""

    def __init__(self, host: Host, key: int, order: Order) -> None:
        self._host, self.key, self._order = host, key, order
        self._sink = _Sink(host, key, Ref(order.job, order.fence))
        self._context: Context | None = None
        self._task: asyncio.Task[None] | None = None
        self._thread: threading.Thread | None = None
        self._ending, self._ended = threading.Lock(), False
        self._stopped = self._begun = False

    def begin(self, tasks: Mapping[str, TaskDef]) -> None:
        order = self._order
        try:
            task = tasks.get(order.task)
            if task is None:
                raise Unknown(order.task)
            arguments = task.decode(order.args)
            if task.context is not None:
                job = RunningJob(order.job, order.task, order.queue, order.priority, order.owner)
                most = self._host.rules.max_result
                self._context = Context(job, order.number, order.fence, self, order.parents, order.state, most)
                arguments[task.context] = self._context
        except Unknown:
            self._end(Failed(Problem("rota.NotImportable", f"task {order.task!r} was not found by its module's name")))
            return
        except RotaError as error:
            self._end(SetAside(Problem(f"rota.{type(error).__name__}", str(error))))
            return
        context = contextvars.copy_context()
        context.run(CURRENT.set, self._sink)
        if task.is_async:
            self._task = self._host.loop.create_task(self._await(task, arguments), context=context)
        else:
            self._thread = threading.Thread(
                target=context.run, args=(self._call, task, arguments), name="rota-function", daemon=True
            )
            self._thread.start()

    async def _await(self, task: TaskDef, arguments: dict[str, Any]) -> None:
        began, self._begun = time.monotonic(), True
        try:
            if self._stopped:
                raise asyncio.CancelledError
            if self._too_late():
                self._end(Interrupted(TOO_LATE))
                return
            outcome = succeeded(await task.function(**arguments), self._host.rules.max_result)
        except BaseException as error:
            outcome = judge(error)
        self._end(outcome, time.monotonic() - began)

    def _call(self, task: TaskDef, arguments: dict[str, Any]) -> None:
        began = time.monotonic()
        if self._too_late():
            self._end(Interrupted(TOO_LATE))
            return
        try:
            outcome = succeeded(task.function(**arguments), self._host.rules.max_result)
        except BaseException as error:
            outcome = judge(error)
        for _ in range(3):  # the exception of `halt` may arrive as late as here
            with suppress(asyncio.CancelledError):
                with self._ending:
                    self._ended = True
                self._end(outcome, time.monotonic() - began)
                return

    def _end(self, outcome: Outcome, wall: float = 0.0) -> None:
        self._host.guests.pop(self.key, None)
        self._host.tell(Ended(self.key, outcome, round(wall * SECOND)))

    def _too_late(self) -> bool:
        return self._order.start_by is not None and SystemClock().monotonic() > self._order.start_by

    # -- what its function says --------------------------------------------------------------------------------------
    def log(self, line: str) -> None:
        self._sink.write("log", (line + "\n").encode("utf-8", "backslashreplace"))

    def progress(self, fraction: float | None, text: str) -> None:
        told = Progress.told(fraction, text, 0)
        self._host.tell(Progressed(self.key, Told(told.fraction, told.text)))

    def save(self, body: str) -> Future[None]:
        return self._host.save(self.key, body)

    def halt(self, rude: bool) -> None:
        self._stopped = True
        if self._context is not None:
            self._context.cancel()
        if self._task is not None:
            if self._begun:  # one that has not begun would end without a word; it will see for itself
                self._task.cancel()
        elif self._thread is not None and (rude or self._context is None):
            with self._ending:
                if not self._ended and self._thread.ident is not None:
                    identity = ctypes.c_ulong(self._thread.ident)
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(identity, ctypes.py_object(asyncio.CancelledError))


class Unknown(Exception):
    pass


class Host:
    def __init__(self, rules: Rules, channel: socket.socket) -> None:
        self.rules, self._channel = rules, channel
        self.loop = asyncio.new_event_loop()
        self.guests: dict[int, Guest] = {}
        self._frames = Frames(1 << 40, decode_given)
        self._out: deque[bytes] = deque()
        self._saving: dict[int, Future[None]] = {}  # what waits to be kept
        self._numbers = itertools.count(1)
        self._rung = self._over = False
        self._unsent = b""
        channel.setblocking(False)

    def run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.add_reader(self._channel, self._hear)
        while not self._over:
            # A SystemExit in a task that a function started ends the loop, and so does loop.stop(): not for long.
            with suppress(BaseException):
                self.loop.run_forever()

    def _hear(self) -> None:
        try:
            data = self._channel.recv(READ_SIZE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._over = True
            self.loop.stop()
            return
        for word in self._frames.feed(data):
            if isinstance(word, Given):
                guest = self.guests[word.key] = Guest(self, word.key, word.order)
                guest.begin(self.rules.tasks)
            elif isinstance(word, Halt):
                if word.key in self.guests:
                    self.guests[word.key].halt(word.rude)
            elif isinstance(word, Kept):
                _settle(self._saving.pop(word.number), word.answer)
            elif isinstance(word, Ping):
                self.tell(Pong(word.number, resident()))

    def save(self, key: int, body: str) -> Future[None]:
        """From any thread."""
        number, done = next(self._numbers), Future[None]()
        self._saving[number] = done
        self.tell(Keep(key, number, body))
        return done

    def tell(self, word: Uttered | Progressed | Keep | Ended | Pong) -> None:
        """From any thread."""
        self._out.append(frame(word))
        if not self._rung:
            self._rung = True
            self.loop.call_soon_threadsafe(self._flush)

    def _flush(self) -> None:
        self._rung = False
        parts = [self._unsent] if self._unsent else []
        while self._out:
            parts.append(self._out.popleft())
        data = b"".join(parts)
        waiting = bool(self._unsent)
        try:
            sent = self._channel.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            sent = len(data)  # the controller is gone, and so are we, soon
        self._unsent = data[sent:]
        if self._unsent and not waiting:
            self.loop.add_writer(self._channel, self._flush)
        elif waiting and not self._unsent:
            self.loop.remove_writer(self._channel)


def _settle(saving: Future[None], answer: bytes) -> None:
    if not saving.set_running_or_notify_cancel():
        return  # whoever asked was cancelled meanwhile
    if (error := saved(answer)) is None:
        saving.set_result(None)
    else:
        saving.set_exception(error)
