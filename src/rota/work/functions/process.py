"""A pool process: a fork of the fork server that runs functions on its main thread, one after the other.

Only a signal reaches a main thread that is inside a function, so SIGTERM is how an attempt is told to stop. After a job
the process is cleaned as far as that is cheap (folder, umask, timers, the descriptors of its output, memory, processes
left behind); where it can't be, it leaves, and another is forked. Changes that a function makes in memory stay, as in
any worker process.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import socket
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from rota.errors import Stale
from rota.logs.capture import Handler, listen_to_logs
from rota.model.outcome import Outcome
from rota.model.times import SECOND
from rota.tasks.hooks import finished
from rota.work.functions import wire
from rota.work.functions.engine import FunctionCall, prepare
from rota.work.functions.forked import ProcessConfig, resident
from rota.work.functions.reporter import ChannelReporter
from rota.work.functions.tally import Ear
from rota.work.functions.wire import frame
from rota.work.keeper.lean import signal as lean
from rota.work.progress import conclude

RESET_PEAK = b"5"  # to /proc/self/clear_refs: the peak counts from now on
NO_JOB = 0  # the key of log lines between jobs


class _LogHandler(Handler):
    """There is one job at a time here, so every record belongs to it."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        super().__init__()
        self._write = write

    def emit(self, record: logging.LogRecord) -> None:
        self._write(self.line(record))


class Process:
    def __init__(self, config: ProcessConfig, orders: socket.socket, channel: socket.socket, ear: Ear) -> None:
        self._config, self._orders, self._channel, self._ear = config, orders, channel, ear
        self._parts = wire.Frames(1 << 40, wire.decode_order)
        self._pid = os.getpid()
        self._hooks = config.hooks("pool")
        self._key = NO_JOB  # of the job that runs
        self._call: FunctionCall | None = None
        self._task: asyncio.Task[Any] | None = None
        self._runner: asyncio.Runner | None = None
        self._jobs = 0
        self._told = 0  # how often the job was asked to stop
        self._inside = False  # user code
        self._speaking = self._late = False  # a stop that arrives in the middle of a frame waits for its end
        self._sending = threading.RLock()
        self._spoiled = False
        self._home = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._umask = os.umask(0o22)
        os.umask(self._umask)
        self._limits = resource.getrlimit(resource.RLIMIT_AS)
        self._streams = sys.stdout, sys.stderr
        self._pipes = _identity(1), _identity(2)
        self._peak: int | None = None
        with suppress(OSError):
            self._peak = os.open("/proc/self/clear_refs", os.O_WRONLY | os.O_CLOEXEC)
        listen_to_logs(_LogHandler(self._log))
        lean.signal(lean.SIGTERM, self._when_told)
        os.register_at_fork(after_in_child=self._in_child)

    def _in_child(self) -> None:
        """In the child of a fork by a function: SIGTERM ends it, as its parent expects, unless the function has its own
        handler."""
        if lean.getsignal(lean.SIGTERM) == self._when_told:
            lean.signal(lean.SIGTERM, lean.SIG_DFL)

    def run(self) -> None:
        try:
            finished(self._hooks.starting(), self._on_loop)
        except BaseException:  # also SystemExit; attempts try again, and fail if it fails again
            sys.excepthook(*sys.exc_info())
        if os.getpid() != self._pid:
            os._exit(0)  # a child that a hook has forked takes no orders
        if self._config.says_started:
            with suppress(OSError):  # the node needs it no more
                self._send(wire.Started())
        self._serve()
        finished(self._hooks.stopping(), self._on_loop)

    def _serve(self) -> None:
        while (order := self._receive()) is not None:
            end = self._attend(order)
            with self._sending:
                self._key = NO_JOB
                self._channel.sendall(frame(end))
            if end.leaves:
                return
            if end.printed:
                if not isinstance(self._answer(wire.OUTPUT_READ_SIZE), wire.OutputRead):
                    return
                for stream in self._streams:
                    stream.buffer.written = 0  # type: ignore[union-attr]

    def _receive(self) -> wire.Order | None:
        """None when the node has closed the socket. Orders may be waiting in the socket, and the node may take them
        back: only an order that was received is this process's."""
        while data := self._orders.recv(wire.LARGEST_MESSAGE):
            for order in self._parts.feed(data):
                return order
        return None

    def _answer(self, size: int) -> wire.ToProcess | None:
        """The node's next message; None when it has closed the socket."""
        data = self._channel.recv(size)
        return wire.decode_request(data[wire.HEAD :]) if data else None

    # -- one job -----------------------------------------------------------------------------------------------------
    def _attend(self, order: wire.Order) -> wire.CallEnd:
        self._jobs += 1
        self._late = False
        lean.signal(lean.SIGTERM, self._when_told)
        before, began = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
        if self._peak is not None:
            os.write(self._peak, RESET_PEAK)
        self._ear.begin()
        outcome = self._outcome(order)
        if os.getpid() != self._pid:
            os._exit(0)  # a forked child returned from the function: its parent reports the end
        self._call = self._task = None
        try:
            return self._end(order.key, outcome, before, began)
        except Exception as error:  # the clean-up failed: the process may be in a bad state
            sys.excepthook(type(error), error, error.__traceback__)
            return wire.CallEnd(order.key, outcome, 0, 0, 0, leaves=True, litter=True, printed=True)

    def _outcome(self, order: wire.Order) -> Outcome:
        self._key = order.key
        reporter = ChannelReporter(self, order.key)
        task, most = self._config.tasks.get(order.task), self._config.max_result
        call = prepare(task, order, reporter, most, self._hooks)
        if not isinstance(call, FunctionCall):
            return call
        call.run_hooks = lambda steps: finished(steps, self._on_loop)
        self._call = call
        return call.run(self._invoke)

    def _invoke(self, call: FunctionCall) -> Any:
        try:
            return self._enter(call)
        except BaseException as error:
            self._inside = False
            self._spoiled |= call.task.is_async and not isinstance(error, Exception)  # its loop was ended from within
            raise

    def _enter(self, call: FunctionCall) -> Any:
        try:
            self._inside = True
            if self._told:
                self._stop_early(call)
            if not call.task.is_async:
                return call.invoke()
            return self._on_loop(self._await(call))
        finally:
            self._inside = False

    def _on_loop(self, work: Coroutine[Any, Any, Any]) -> Any:
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(work)

    async def _await(self, call: FunctionCall) -> Any:
        self._task = asyncio.current_task()
        return await call.invoke()

    def _stop_early(self, call: FunctionCall) -> None:
        """Handles a stop that came before the function began."""
        call.tell()
        if call.context is None or call.task.is_async:
            raise asyncio.CancelledError

    def _when_told(self, number: int, frame: FrameType | None) -> None:
        """Handles SIGTERM: first sets `ctx.cancelled`, if the function can see it, then raises an exception in the
        function. (A process that was told to stop takes no other job, so this can't hit a wrong one.)"""
        self._told += 1
        if not self._inside:
            return
        context = self._call.context if self._call is not None else None
        if self._call is not None:
            self._call.tell()
        if self._told == 1 and self._task is not None:
            self._task.get_loop().call_soon_threadsafe(self._task.cancel)
        elif self._told == 1 and context is not None:
            pass  # it sees `ctx.cancelled`
        elif self._speaking:
            self._late = True
        else:
            raise asyncio.CancelledError

    # -- what is left of it ------------------------------------------------------------------------------------------
    def _end(self, key: int, outcome: Outcome, before: resource.struct_rusage, began: float) -> wire.CallEnd:
        wall = time.monotonic() - began
        with suppress(ValueError, OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        after = resource.getrusage(resource.RUSAGE_SELF)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        memory = after.ru_maxrss * 1024
        changed = self._changed()
        printed = changed or self._ear.heard()
        litter = _has_children()
        leaves = litter or self._spoiled or self._jobs >= self._config.jobs or changed
        leaves = leaves or (memory > self._config.memory and resident() > self._config.memory)
        os.fchdir(self._home)
        os.umask(self._umask)
        for timer in (lean.ITIMER_REAL, lean.ITIMER_VIRTUAL, lean.ITIMER_PROF):
            lean.setitimer(timer, 0)
        return wire.CallEnd(key, outcome, round(wall * SECOND), round(cpu * SECOND), memory, leaves, litter, printed)

    def _changed(self) -> bool:
        """Whether the job has changed something that would disturb the next."""
        if (sys.stdout, sys.stderr) != self._streams or any(stream.closed for stream in self._streams):
            return True
        try:
            if (_identity(1), _identity(2)) != self._pipes:
                return True
        except OSError:
            return True
        return resource.getrlimit(resource.RLIMIT_AS) != self._limits

    # -- what it says, for the job that runs only: threads that an earlier job has left behind are not heard ---------
    def write(self, key: int, stream: str, body: bytes) -> None:
        with self._whole_words():
            if key != self._key:
                return
            mine = os.getpid() == self._pid  # the prints of a child can't be counted from here
            out, err = (getattr(one.buffer, "written", 0) if mine else 0 for one in self._streams)
            for start in range(0, len(body), wire.LARGEST_OUTPUT):
                self._send(wire.OutputChunk(key, stream, body[start : start + wire.LARGEST_OUTPUT], out, err))

    def _log(self, body: bytes) -> None:
        with self._whole_words():
            self.write(self._key, "log", body)

    def progress(self, report: wire.ProgressReport) -> None:
        with self._whole_words():
            if report.key == self._key:
                self._send(report)

    def save(self, key: int, body: str) -> Future[None]:
        """Waits for the answer on the spot: the process does nothing else meanwhile."""
        done: Future[None] = Future()
        answer: wire.ToProcess | None = None
        with self._whole_words():
            if key == self._key:
                self._send(wire.SaveRequest(key, 0, body))
                answer = self._answer(wire.SAVE_ANSWER_SIZE)
        conclude(done, answer.error() if isinstance(answer, wire.SaveAnswer) else Stale())
        return done

    def mask(self, key: int, values: Sequence[str]) -> None:
        """Returns when the node knows them: prints go another way."""
        with self._whole_words():
            if key == self._key:
                with suppress(ValueError, OSError):
                    sys.stdout.flush()
                    sys.stderr.flush()
                self._send(wire.MaskRequest(key, list(values), waits=True))
                self._answer(wire.SAVE_ANSWER_SIZE)

    def _send(self, word: wire.FromProcess) -> None:
        self._channel.sendall(frame(word))

    @contextmanager
    def _whole_words(self) -> Iterator[None]:
        """Lets one thread write at a time, and delays a stop to the end of its frame."""
        mine = threading.current_thread() is threading.main_thread()
        self._speaking = self._speaking or mine
        try:
            with self._sending:
                yield
        finally:
            if mine:
                self._speaking = False
        if mine and self._late and self._inside:
            self._late = False
            raise asyncio.CancelledError


def _identity(fd: int) -> tuple[int, int]:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True
