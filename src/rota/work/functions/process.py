"""A pool process: a fork of the nursery that runs functions, one after the other.

It is as clean after a job as can be seen to cheaply (folder, umask, timers, the descriptors of its output, memory,
processes left behind); where it isn't, it leaves, and another is forked. What a function changes in memory stays, as
in any worker process.
"""

from __future__ import annotations

import asyncio
import io
import logging
import os
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, NoReturn

from rota.errors import RotaError
from rota.logs.capture import Handler, listen_to_logs
from rota.model.outcome import Failed, Interrupted, Outcome, Problem, SetAside
from rota.model.progress import Progress
from rota.model.times import SECOND
from rota.tasks.catalogue import TaskDef
from rota.tasks.context import Context, Reporter, RunningJob
from rota.work.attempt import TOO_LATE
from rota.work.functions.ending import judge, succeeded
from rota.work.functions.tally import Ear
from rota.work.functions.wire import (
    HEAD,
    LARGEST_MESSAGE,
    LARGEST_SAYING,
    READ,
    STALE,
    Done,
    Order,
    Said,
    Save,
    Told,
    decode_order,
    frame,
    saved,
)
from rota.work.keeper.kernel import PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG, prctl, set_name
from rota.work.keeper.lean import signal as lean

PAGE = os.sysconf("SC_PAGE_SIZE")
RESET_PEAK = b"5"  # to /proc/self/clear_refs: the peak counts from now on


class Prepared(NamedTuple):
    """What is to be called, and with what."""

    task: TaskDef
    arguments: dict[str, Any]
    context: Context | None


class Rules:
    """What every process of one nursery goes by."""

    def __init__(self, tasks: Mapping[str, TaskDef], max_result: int, jobs: int, memory: int) -> None:
        self.tasks, self.max_result, self.jobs, self.memory = tasks, max_result, jobs, memory

    def prepare(self, order: Order, reporter: Reporter) -> Prepared | Outcome:
        """An outcome if the order can't be carried out here."""
        task = self.tasks.get(order.task)
        if task is None:  # another nursery had it, and this one does not; the next attempt goes elsewhere
            return Failed(Problem("rota.NotImportable", f"task {order.task!r} was not found by its module's name"))
        context = None
        try:
            arguments = task.decode(order.args)
            if task.context is not None:
                job = RunningJob(order.job, order.task, order.queue, order.priority, order.owner)
                context = arguments[task.context] = Context(
                    job, order.number, order.fence, reporter, order.parents, order.state, self.max_result
                )
        except RotaError as error:
            return SetAside(Problem(f"rota.{type(error).__name__}", str(error)))
        return Prepared(task, arguments, context)


def be_process(nursery: int, rules: Rules, orders: int, channel: int, out: int, err: int, tally: int) -> NoReturn:
    """What a fresh fork of the nursery does."""
    status = 1
    try:
        settle_in(nursery, out, err, b"rota-function")
        Process(rules, socket.socket(fileno=orders), socket.socket(fileno=channel), Ear(tally)).run()
        status = 0
    except BaseException:
        with suppress(BaseException):
            sys.excepthook(*sys.exc_info())
    finally:
        with suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def settle_in(nursery: int, out: int, err: int, name: bytes) -> None:
    """Its own session, its own output; it dies with the nursery, and is parent of all that is left below it."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != nursery:
        os._exit(0)  # the nursery died before it could be tied to it
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    os.setsid()
    set_name(name)
    for place, pipe in ((1, out), (2, err)):
        os.dup2(pipe, place)
        os.close(pipe)
    sys.stdout, sys.stderr = _stream(1), _stream(2)
    sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr  # type: ignore[misc]


class _Counted(io.FileIO):
    """Knows how much was printed, so that log lines find their place between prints."""

    written = 0

    def write(self, data: Any) -> int:
        """All of it: a signal may cut a write short."""
        left = memoryview(data).cast("B")
        size = len(left)
        while left:
            count = super().write(left) or 0
            self.written += count
            left = left[count:]
        return size


def _stream(fd: int) -> io.TextIOWrapper:
    raw = _Counted(fd, "wb", closefd=False)
    return io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", write_through=True)


class _Log(Handler):
    """There is one job at a time here, so whatever is logged is its."""

    def __init__(self, said: Callable[[bytes], None]) -> None:
        super().__init__()
        self._said = said

    def emit(self, record: logging.LogRecord) -> None:
        self._said(self.line(record))


class Voice:
    """What the context of one job speaks through. Once the job is over nobody hears it: a thread that the job has left
    behind must not speak in the name of the next."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def log(self, line: str) -> None:
        self._process.tell_line(self, (line + "\n").encode("utf-8", "backslashreplace"))

    def progress(self, fraction: float | None, text: str) -> None:
        told = Progress.told(fraction, text, 0)
        self._process.tell(self, Told(told.fraction, told.text))

    def save(self, body: str) -> Future[None]:
        return self._process.save(self, body)


class Process:
    def __init__(self, rules: Rules, orders: socket.socket, channel: socket.socket, ear: Ear) -> None:
        self._rules, self._orders, self._channel, self._ear = rules, orders, channel, ear
        self._pid = os.getpid()
        self._voice: Voice | None = None  # of the job that runs
        self._runner: asyncio.Runner | None = None
        self._jobs = 0
        self._told = 0  # how often the job was asked to stop
        self._inside = False  # user code
        self._speaking = self._late = False  # half a frame must not be sent: being told to stop waits for its end
        self._mouth = threading.RLock()
        self._spoiled = False
        self._context: Context | None = None
        self._task: asyncio.Task[Any] | None = None
        self._home = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._umask = os.umask(0o22)
        os.umask(self._umask)
        self._limits = resource.getrlimit(resource.RLIMIT_AS)
        self._streams = sys.stdout, sys.stderr
        self._pipes = _identity(1), _identity(2)
        self._peak: int | None = None
        with suppress(OSError):
            self._peak = os.open("/proc/self/clear_refs", os.O_WRONLY | os.O_CLOEXEC)
        listen_to_logs(_Log(self._said))
        lean.signal(lean.SIGTERM, self._when_told)
        os.register_at_fork(after_in_child=self._in_child)

    def _in_child(self) -> None:
        """Of a fork by a function: SIGTERM ends it, as its parent expects, unless the function has a way of its own."""
        if lean.getsignal(lean.SIGTERM) == self._when_told:
            lean.signal(lean.SIGTERM, lean.SIG_DFL)

    def run(self) -> None:
        while (order := self._receive()) is not None:
            done = self._attend(order)
            with self._mouth:
                self._voice = None
                self._channel.sendall(frame(done))
            if done.leaves:
                return
            if done.spoke:
                if self._channel.recv(1) != READ:
                    return
                for stream in self._streams:
                    stream.buffer.written = 0  # type: ignore[union-attr]

    def _receive(self) -> Order | None:
        """None when the controller has hung up. Orders may be waiting here already, and the controller may take them
        back: only what was received is this process's."""
        data = self._orders.recv(LARGEST_MESSAGE)
        if not data:
            return None
        needed = HEAD + int.from_bytes(data[:HEAD], "big")
        if len(data) < needed:
            parts, size = [data], len(data)
            while size < needed:
                part = self._orders.recv(LARGEST_MESSAGE)
                if not part:
                    return None
                parts.append(part)
                size += len(part)
            data = b"".join(parts)
        return decode_order(data[HEAD:])

    # -- one job -----------------------------------------------------------------------------------------------------
    def _attend(self, order: Order) -> Done:
        self._jobs += 1
        self._late = False
        lean.signal(lean.SIGTERM, self._when_told)
        before, began = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
        if self._peak is not None:
            os.write(self._peak, RESET_PEAK)
        self._ear.begin()
        outcome = self._outcome(order)
        if os.getpid() != self._pid:
            os._exit(0)  # the child of a fork that came back as if it were the function: this is not its to tell
        self._context = self._task = None
        try:
            return self._done(outcome, before, began)
        except Exception as error:  # whatever it was, this process is not as it should be
            sys.excepthook(type(error), error, error.__traceback__)
            return Done(outcome, 0, 0, 0, True, True, True)

    def _outcome(self, order: Order) -> Outcome:
        self._voice = Voice(self)
        prepared = self._rules.prepare(order, self._voice)
        if not isinstance(prepared, Prepared):
            return prepared
        task, arguments, self._context = prepared
        if order.too_late():
            return Interrupted(TOO_LATE)
        try:
            return succeeded(self._call(task, arguments), self._rules.max_result)
        except BaseException as error:
            self._inside = False
            self._spoiled |= task.is_async and not isinstance(error, Exception)  # its loop was ended from within
            return judge(error)

    def _call(self, task: TaskDef, arguments: dict[str, Any]) -> Any:
        try:
            self._inside = True
            if self._told:
                self._stop_early(task)
            if not task.is_async:
                return task.function(**arguments)
            if self._runner is None:
                self._runner = asyncio.Runner()
            return self._runner.run(self._await(task, arguments))
        finally:
            self._inside = False

    async def _await(self, task: TaskDef, arguments: dict[str, Any]) -> Any:
        self._task = asyncio.current_task()
        return await task.function(**arguments)

    def _stop_early(self, task: TaskDef) -> None:
        """It was told before it began."""
        if self._context is None or task.is_async:
            raise asyncio.CancelledError
        self._context.cancel()

    def _when_told(self, number: int, frame: FrameType | None) -> None:
        """Asked to stop: first a word, if there is somebody to hear it, then an exception in the middle of things. (A
        process that was told takes no other job, so this can't hit a wrong one.)"""
        self._told += 1
        if not self._inside:
            return
        if self._told == 1 and self._task is not None:
            self._task.get_loop().call_soon_threadsafe(self._task.cancel)
        elif self._told == 1 and self._context is not None:
            self._context.cancel()
        elif self._speaking:
            self._late = True
        else:
            raise asyncio.CancelledError

    # -- what is left of it ------------------------------------------------------------------------------------------
    def _done(self, outcome: Outcome, before: resource.struct_rusage, began: float) -> Done:
        wall = time.monotonic() - began
        with suppress(ValueError, OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        after = resource.getrusage(resource.RUSAGE_SELF)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        memory = after.ru_maxrss * 1024
        changed = self._changed()
        spoke = changed or self._ear.heard()
        litter = _has_children()
        leaves = litter or self._spoiled or self._jobs >= self._rules.jobs or changed
        leaves = leaves or (memory > self._rules.memory and resident() > self._rules.memory)
        os.fchdir(self._home)
        os.umask(self._umask)
        for timer in (lean.ITIMER_REAL, lean.ITIMER_VIRTUAL, lean.ITIMER_PROF):
            lean.setitimer(timer, 0)
        return Done(outcome, round(wall * SECOND), round(cpu * SECOND), memory, leaves, litter, spoke)

    def _changed(self) -> bool:
        """Something that the next job would stumble over."""
        if (sys.stdout, sys.stderr) != self._streams or any(stream.closed for stream in self._streams):
            return True
        try:
            if (_identity(1), _identity(2)) != self._pipes:
                return True
        except OSError:
            return True
        return resource.getrlimit(resource.RLIMIT_AS) != self._limits

    # -- what it says ------------------------------------------------------------------------------------------------
    def tell_line(self, voice: Voice, body: bytes) -> None:
        with self._whole_words():
            if voice is self._voice:
                self._said(body)

    def tell(self, voice: Voice, word: Told) -> None:
        with self._whole_words():
            if voice is self._voice:
                self._channel.sendall(frame(word))

    def save(self, voice: Voice, body: str) -> Future[None]:
        """Waits for the answer itself, one at a time: nobody else has anything to do here meanwhile."""
        done: Future[None] = Future()
        answer = STALE
        with self._whole_words():
            if voice is self._voice:
                self._channel.sendall(frame(Save(body)))
                answer = self._channel.recv(1)
        if (error := saved(answer)) is None:
            done.set_result(None)
        else:
            done.set_exception(error)
        return done

    def _said(self, body: bytes) -> None:
        with self._whole_words():
            mine = os.getpid() == self._pid  # what a child has printed can't be counted from here
            out, err = (getattr(stream.buffer, "written", 0) if mine else 0 for stream in self._streams)
            for start in range(0, len(body), LARGEST_SAYING):
                self._channel.sendall(frame(Said(body[start : start + LARGEST_SAYING], out, err)))

    @contextmanager
    def _whole_words(self) -> Iterator[None]:
        """One thread at a time, and none is interrupted in the middle of a frame."""
        mine = threading.current_thread() is threading.main_thread()
        self._speaking = self._speaking or mine
        try:
            with self._mouth:
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


def resident() -> int:
    return int(Path("/proc/self/statm").read_bytes().split()[1]) * PAGE
