"""A host: a fork of the nursery for functions that share a process. Async ones share its loop, sync ones that asked for
a thread get one each.

What they say and how they end goes back in batches: one write for all that has come together meanwhile. Who says more
than the controller takes has to wait, as for a full pipe. When the loop is blocked by one of them, the host doesn't
answer to `Ping`; the controller draws the conclusions.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import os
import select
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, NoReturn

from rota.logs.capture import CURRENT, captured
from rota.logs.shipper import Sink
from rota.model.job import Ref
from rota.model.outcome import Failed, Interrupted, Outcome, Problem
from rota.model.progress import Progress
from rota.model.times import SECOND
from rota.tasks.catalogue import TaskDef
from rota.tasks.context import Context
from rota.work.attempt import TOO_LATE
from rota.work.functions.ending import judge, succeeded
from rota.work.functions.in_node import cancel_thread
from rota.work.functions.process import Prepared, Rules, resident, settle_in
from rota.work.functions.wire import (
    LARGEST_SAYING,
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
    arrived,
    decode_given,
    frame,
    saved,
)

Word = Uttered | Progressed | Keep | Ended | Pong
# Words that may wait to be sent; whoever prints when there are more waits until there are half as many.
MOST_HELD = 256
SEND_SIZE = 256 << 10
# How often a thread looks whether there are; on the loop's own thread the kernel tells, and this is the longest wait.
LOOK_AGAIN = 0.002
LONGEST_LOOK = 0.1


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
            self._host.utter(Uttered(self._key, stream, body[start : start + LARGEST_SAYING]))


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
        self._told: Told | None = None  # the newest; it is on its way already

    def begin(self) -> None:
        prepared = self._host.rules.prepare(self._order, self)
        if not isinstance(prepared, Prepared):
            self._end(prepared)
            return
        task, arguments, self._context = prepared
        try:
            self._start(task, arguments)
        except Exception as error:  # no thread to be had: the process's trouble, and perhaps a passing one
            self._end(Failed(Problem("rota.ExecutorError", f"{type(error).__name__}: {error}")))

    def _start(self, task: TaskDef, arguments: dict[str, Any]) -> None:
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
            if self._order.too_late():
                self._end(Interrupted(TOO_LATE))
                return
            outcome = succeeded(await task.function(**arguments), self._host.rules.max_result)
        except BaseException as error:
            outcome = judge(error)
        self._end(outcome, time.monotonic() - began)

    def _call(self, task: TaskDef, arguments: dict[str, Any]) -> None:
        began = time.monotonic()
        if self._order.too_late():
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
        if os.getpid() != self._host.pid:
            os._exit(0)  # the child of a fork that came back as if it were the function
        self._host.guests.pop(self.key, None)
        self._host.tell(Ended(self.key, outcome, round(wall * SECOND)))

    # -- what its function says --------------------------------------------------------------------------------------
    def log(self, line: str) -> None:
        self._sink.write("log", (line + "\n").encode("utf-8", "backslashreplace"))

    def progress(self, fraction: float | None, text: str) -> None:
        """Only the newest is sent, when there is time for it."""
        told = Progress.told(fraction, text, 0)
        before, self._told = self._told, Told(told.fraction, told.text)
        if before is None:
            self._host.tell(self._progressed)

    def _progressed(self) -> Progressed:
        told, self._told = self._told, None
        return Progressed(self.key, told or Told(None, ""))

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
                if not self._ended:
                    cancel_thread(self._thread)


class Host:
    def __init__(self, rules: Rules, channel: socket.socket) -> None:
        self.rules, self._channel = rules, channel
        self.pid = os.getpid()
        self.loop = asyncio.new_event_loop()
        self.guests: dict[int, Guest] = {}
        self._frames = Frames(1 << 40, decode_given)
        self._out: deque[bytes | Callable[[], Word]] = deque()
        self._writing = False
        self._thread = threading.get_ident()
        self._saving: dict[int, Future[None]] = {}  # what waits to be kept
        self._numbers = itertools.count(1)
        self._rung = self._over = False
        self._unsent = b""
        channel.setblocking(False)
        os.register_at_fork(after_in_child=self._leave)

    def run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.add_reader(self._channel, self._hear)
        while not self._over:
            # A SystemExit in a task that a function started ends the loop, and so does loop.stop(): not for long.
            with suppress(BaseException):
                self.loop.run_forever()

    def _leave(self) -> None:
        """In the child of a fork by a function, where all that is here is here twice: it must not speak, nor take
        orders, and if it comes back to the loop, it ends."""
        self._channel.close()
        self._over = True
        self.loop.stop()

    def _hear(self) -> None:
        if (data := arrived(self._channel)) is None:
            return
        if not data:
            self._over = True
            self.loop.stop()
            return
        for word in self._frames.feed(data):
            if isinstance(word, Given):
                guest = self.guests[word.key] = Guest(self, word.key, word.order)
                guest.begin()
            elif isinstance(word, Halt):
                if word.key in self.guests:
                    self.guests[word.key].halt(word.rude)
            elif isinstance(word, Kept):
                _settle(self._saving.pop(word.number), word.answer)
            elif isinstance(word, Ping):
                # First of all: it tells that the loop lives, however much is to be sent.
                self._out.appendleft(frame(Pong(resident())))
                self._flush()

    def save(self, key: int, body: str) -> Future[None]:
        """From any thread."""
        number, done = next(self._numbers), Future[None]()
        self._saving[number] = done
        self.tell(Keep(key, number, body))
        return done

    def tell(self, word: Word | Callable[[], Word]) -> None:
        """From any thread. A word that may change is made when it is sent."""
        self._out.append(word if callable(word) else frame(word))
        if not self._rung:
            self._rung = True
            try:
                self.loop.call_soon_threadsafe(self._flush)
            except BaseException:  # of `halt`, which may arrive in the middle of this: the next must ring again
                self._rung = False
                raise

    def utter(self, word: Uttered) -> None:
        """The same for what may come without end."""
        self.tell(word)
        if len(self._out) > MOST_HELD:
            while len(self._out) > MOST_HELD // 2 and not self._over:
                if threading.get_ident() == self._thread:
                    select.select([], [self._channel], [], LONGEST_LOOK)
                    self._flush()
                else:
                    time.sleep(LOOK_AGAIN)

    def _flush(self) -> None:
        self._rung = False
        parts, size = [self._unsent], len(self._unsent)
        while self._out and size < SEND_SIZE:
            word = self._out.popleft()
            parts.append(frame(word()) if callable(word) else word)
            size += len(parts[-1])
        data = b"".join(parts)
        try:
            sent = self._channel.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            sent = len(data)  # the controller is gone, and so are we, soon
        self._unsent = data[sent:]
        if (self._unsent or self._out) and not self._writing:
            self._writing = True
            self.loop.add_writer(self._channel, self._flush)
        elif self._writing and not (self._unsent or self._out):
            self._writing = False
            self.loop.remove_writer(self._channel)


def _settle(saving: Future[None], answer: bytes) -> None:
    if not saving.set_running_or_notify_cancel():
        return  # whoever asked was cancelled meanwhile
    if (error := saved(answer)) is None:
        saving.set_result(None)
    else:
        saving.set_exception(error)
