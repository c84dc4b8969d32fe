"""Runs attempts of functions, in any process: builds the context, calls the function, stops it, judges its end.

`FunctionCall` is one function with its arguments and its context. A pool process calls it on its main thread, one at a
time. `Engine` runs many side by side, async ones on a loop and sync ones in a thread each: in a host, and in the node
for functions that no other process could import.
"""

from __future__ import annotations

import asyncio
import contextvars
import ctypes
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from rota.errors import RotaError
from rota.logs.capture import CURRENT, OutputWriter
from rota.model.outcome import Failed, Interrupted, Outcome, Problem, SetAside
from rota.tasks.catalogue import TaskDef
from rota.tasks.context import Context, Reporter, RunningJob
from rota.tasks.hooks import awaited
from rota.tasks.results import ResultNotReady, filled
from rota.work.attempt import TOO_LATE
from rota.work.functions.ending import judge, succeeded
from rota.work.functions.hooked import NO_PROCESS_HOOKS, Judged, ProcessHooks, attempt, in_own_thread
from rota.work.functions.wire import Order


class FunctionCall:
    def __init__(
        self, task: TaskDef, order: Order, reporter: Reporter, max_result: int, start: ProcessHooks = NO_PROCESS_HOOKS
    ) -> None:
        """Raises RotaError if the order does not fit the task, and ResultNotReady."""
        self.task, self._max_result = task, max_result
        self.too_late = order.too_late
        self.arguments = task.decode(filled(order.args, order.parents))
        self.context: Context | None = None  # if the function sees it
        self._context: Context | None = None  # of the function or its hooks
        self._start, self.run_hooks = start, in_own_thread
        self._hooked = task.hooks.attempts or start.late
        if task.context is not None or self._hooked:
            job = RunningJob(order.job, order.task, order.queue, order.priority, order.owner)
            self._context = Context(
                job, order.number, order.fence, reporter, order.parents, order.state, max_result, order.meta
            )
        if task.context is not None:
            self.context = self.arguments[task.context] = self._context

    def tell(self) -> None:
        """Sets `ctx.cancelled`."""
        if self._context is not None:
            self._context._cancel()

    def invoke(self) -> Any:
        if not self._hooked or self._context is None:
            return self.task.function(**self.arguments)
        steps = attempt(
            self.task, self._context, lambda: self.task.function(**self.arguments), self._max_result, self._start
        )
        return awaited(steps) if self.task.is_async else self.run_hooks(steps)

    # The result is encoded where the function runs: a large one must not hold up the node's loop. And only there is it
    # known whether the start is too late: a neighbour may have blocked the loop.
    def run(self, invoke: Callable[[FunctionCall], Any] = invoke) -> Outcome:
        if self.too_late():
            return Interrupted(TOO_LATE)
        try:
            return self._ended(invoke(self))
        except BaseException as error:
            return judge(error)

    async def run_async(self) -> Outcome:
        if self.too_late():
            return Interrupted(TOO_LATE)
        try:
            return self._ended(await self.invoke())
        except BaseException as error:
            return judge(error)

    def _ended(self, value: Any) -> Outcome:
        return value.outcome if isinstance(value, Judged) else succeeded(value, self._max_result)


def prepare(
    task: TaskDef | None,
    order: Order,
    reporter: Reporter,
    max_result: int,
    start: ProcessHooks = NO_PROCESS_HOOKS,
) -> FunctionCall | Outcome:
    """An outcome if the order can't be carried out here."""
    if task is None:  # only an earlier fork server had the task; the next attempt goes elsewhere
        return Failed(Problem("rota.NotImportable", f"task {order.task!r} was not found by its module's name"))
    try:
        return FunctionCall(task, order, reporter, max_result, start)
    except ResultNotReady as error:
        return Failed(Problem("rota.ResultNotReady", str(error)))
    except RotaError as error:
        return SetAside(Problem(f"rota.{type(error).__name__}", str(error)))


class RunningCall:
    """One attempt in an engine: a task of the loop, or a thread."""

    def __init__(self, engine: Engine, order: Order, output: OutputWriter) -> None:
        self._engine, self._order, self._output = engine, order, output
        self._call: FunctionCall | None = None
        self._task: asyncio.Task[None] | None = None
        self._thread: threading.Thread | None = None
        self._ending, self._ended = threading.Lock(), False
        self._stopped = self._begun = False

    def begin(self, task: TaskDef | None, reporter: Reporter, too_late: Callable[[], bool] | None) -> None:
        try:
            call = prepare(task, self._order, reporter, self._engine.max_result, self._engine.start)
            if not isinstance(call, FunctionCall):
                self._end(call)
                return
            call.too_late = too_late or call.too_late
            self._call = call
            context = contextvars.copy_context()
            context.run(CURRENT.set, self._output)
            self._start(call, context)
        except Exception as error:  # no free thread: a problem of the process, perhaps a passing one
            self._end(Failed(Problem("rota.ExecutorError", f"{type(error).__name__}: {error}")))

    def _start(self, call: FunctionCall, context: contextvars.Context) -> None:
        if call.task.is_async:
            self._task = self._engine.loop.create_task(self._on_loop(call), context=context)
        else:
            # A daemon: a thread that doesn't stop must not keep the process from ending.
            self._thread = threading.Thread(
                target=context.run, args=(self._in_thread, call), name="rota-function", daemon=True
            )
            self._thread.start()

    async def _on_loop(self, call: FunctionCall) -> None:
        began, self._begun = time.monotonic(), True
        outcome = judge(asyncio.CancelledError()) if self._stopped else await call.run_async()
        self._end(outcome, time.monotonic() - began)

    def _in_thread(self, call: FunctionCall) -> None:
        began = time.monotonic()
        outcome = call.run()
        for _ in range(3):  # the exception of `stop` may arrive here; the end must be reported all the same
            with suppress(asyncio.CancelledError):
                with self._ending:
                    self._ended = True
                self._end(outcome, time.monotonic() - began)
                return

    def _end(self, outcome: Outcome, wall: float = 0.0) -> None:
        if os.getpid() != self._engine.pid:
            os._exit(0)  # the child of a fork that returned as if it were the function
        self._engine.calls.pop(self._order.key, None)
        self._engine.ended(self._order.key, outcome, wall)

    def stop(self, rude: bool) -> None:
        """First by `ctx.cancelled`, then by an exception. Async functions, and those without a context, get the
        exception at once."""
        self._stopped = True
        context = self._call.context if self._call is not None else None
        if self._call is not None:
            self._call.tell()
        if self._task is not None:
            if self._begun:  # a task that has not begun would end without a report; it checks `_stopped` itself
                self._task.cancel()
        elif self._thread is not None and (rude or context is None):
            with self._ending:
                if not self._ended:
                    _cancel_thread(self._thread)


class Engine:
    """Runs functions side by side. `ended` is called in the thread where a function ran, with the key of its order,
    its outcome and the seconds that it took."""

    call = RunningCall

    def __init__(
        self,
        max_result: int,
        loop: asyncio.AbstractEventLoop,
        ended: Callable[[int, Outcome, float], None],
        start: ProcessHooks = NO_PROCESS_HOOKS,
    ) -> None:
        self.max_result, self.loop, self.ended, self.start = max_result, loop, ended, start
        self.pid = os.getpid()
        self.calls: dict[int, RunningCall] = {}

    def begin(
        self,
        task: TaskDef | None,
        order: Order,
        reporter: Reporter,
        output: OutputWriter,
        too_late: Callable[[], bool] | None = None,
    ) -> None:
        """Called on the loop; for a sync function from any thread."""
        running = self.calls[order.key] = self.call(self, order, output)
        running.begin(task, reporter, too_late)

    def stop(self, key: int, rude: bool) -> None:
        if (call := self.calls.get(key)) is not None:  # it may end meanwhile, in a thread
            call.stop(rude)


def _cancel_thread(thread: threading.Thread) -> None:
    """Raises an exception in the thread: it arrives at the next line of Python, not inside a blocking call."""
    if thread.ident is not None:
        identity = ctypes.c_ulong(thread.ident)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(identity, ctypes.py_object(asyncio.CancelledError))


def run_loop(loop: asyncio.AbstractEventLoop, over: Callable[[], bool]) -> None:
    """Runs a loop that functions use. A SystemExit in one of their tasks ends it, and so does loop.stop(): it is
    restarted until `over` says so."""
    asyncio.set_event_loop(loop)
    while not over():
        with suppress(BaseException):
            loop.run_forever()
