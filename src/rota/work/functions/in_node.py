"""Where functions run that no other process could import: in the node's process, but never on the loop that renews the
lease. (All others run in processes of their own or in one that they share: `pool`.)

Async functions share one loop in a thread of its own; a function that blocks it slows its neighbours, and nothing
else. Sync functions get a thread each. Calls and results cross between the loops in batches: one wake-up for many.
"""

from __future__ import annotations

import asyncio
import contextvars
import ctypes
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Protocol

from rota.logs.capture import CURRENT
from rota.logs.shipper import Sink
from rota.work.attempt import Stuck


class Call(ABC):
    """A function that was called: what will come of it, and how to ask it to stop. Belongs to the node's loop."""

    def __init__(self, future: asyncio.Future[Any]) -> None:
        self.future = future
        self._over: asyncio.Event | None = None  # made for those who must wait longer than for the future

    @abstractmethod
    def cancel(self) -> None: ...

    def give_up(self) -> None:
        """No more waiting: whoever awaits the future hears that the function is stuck."""
        if not self.future.done():
            self._over = asyncio.Event()
            self.future.set_exception(Stuck(self._over))

    def arrive(self, result: Any, error: BaseException | None) -> None:
        """The function has ended, perhaps too late for anyone to care about its result."""
        if self._over is not None:
            self._over.set()
        if self.future.done():
            return
        if isinstance(error, asyncio.CancelledError):
            self.future.cancel()
        elif error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


class Handlers(Protocol):
    def call_async(self, make: Callable[[], Coroutine[Any, Any, Any]], sink: Sink) -> Call: ...

    def call_sync(self, function: Callable[[], Any], sink: Sink) -> Call: ...

    def close(self) -> None: ...


class _Crossing(Call):
    """A call on its way to the other loop and back."""

    def __init__(self, owner: ThreadHandlers, make: Callable[[], Coroutine[Any, Any, Any]], sink: Sink) -> None:
        super().__init__(owner.home.create_future())
        self._owner, self.make, self.sink = owner, make, sink
        self.task: asyncio.Task[Any] | None = None
        self.begun = self.cancelled = False

    async def run(self) -> None:
        """On the other loop."""
        self.begun = True
        CURRENT.set(self.sink)
        try:
            if self.cancelled:
                raise asyncio.CancelledError
            result = await self.make()
        except BaseException as error:
            self._owner.bring(self, None, error)
        else:
            self._owner.bring(self, result, None)

    def cancel(self) -> None:
        with suppress(RuntimeError):  # the loop has closed, and everything in it has ended
            self._owner.loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        self.cancelled = True
        # A task that has not begun would end without a word; it will see the flag instead.
        if self.task is not None and self.begun:
            self.task.cancel()


class ThreadHandlers:
    """The real thing: a loop in a thread for async functions, a thread each for sync ones."""

    def __init__(self) -> None:
        self.home = asyncio.get_running_loop()
        self.loop = asyncio.new_event_loop()
        self._out: deque[_Crossing] = deque()
        self._back: deque[tuple[Call, Any, BaseException | None]] = deque()
        self._out_rung = self._back_rung = self._closing = False
        self._thread = threading.Thread(target=self._run, name="rota-handlers", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            while not self._closing:
                # A SystemExit in a task that a function started ends the loop, and so does loop.stop(): not for long.
                with suppress(BaseException):
                    self.loop.run_forever()
        finally:
            self.loop.close()

    def call_async(self, make: Callable[[], Coroutine[Any, Any, Any]], sink: Sink) -> Call:
        crossing = _Crossing(self, make, sink)
        self._out.append(crossing)
        if not self._out_rung:
            self._out_rung = True
            self.loop.call_soon_threadsafe(self._depart)
        return crossing

    def _depart(self) -> None:
        self._out_rung = False
        while self._out:
            crossing = self._out.popleft()
            crossing.task = self.loop.create_task(crossing.run())

    def bring(self, call: Call, result: Any, error: BaseException | None) -> None:
        """Carries an ending home, from any thread."""
        self._back.append((call, result, error))
        if not self._back_rung:
            self._back_rung = True
            with suppress(RuntimeError):  # the node's loop has closed: nobody waits for this any more
                self.home.call_soon_threadsafe(self._return)

    def _return(self) -> None:
        self._back_rung = False
        while self._back:
            call, result, error = self._back.popleft()
            call.arrive(result, error)

    def call_sync(self, function: Callable[[], Any], sink: Sink) -> Call:
        return _Threaded(self, function, sink)

    def close(self) -> None:
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._wind_up)
        self._thread.join(1.0)

    def _wind_up(self) -> None:
        """Whatever still runs hears that it is over; then the loop ends, with or without it."""
        self._closing = True
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.call_soon(self.loop.call_soon, self.loop.stop)


class _Threaded(Call):
    """A sync function in a thread of its own. A daemon: a thread that doesn't stop must not keep the process from
    ending."""

    def __init__(self, owner: ThreadHandlers, function: Callable[[], Any], sink: Sink) -> None:
        super().__init__(owner.home.create_future())
        self._owner, self._function, self._context = owner, function, _context(sink)
        self._ending, self._ended = threading.Lock(), False
        self._thread = threading.Thread(target=self._run, name="rota-function", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        result, error = None, None
        try:
            result = self._context.run(self._function)
        except BaseException as caught:
            error = caught
        self._report(result, error)

    def _report(self, result: Any, error: BaseException | None) -> None:
        """The exception of `cancel` may arrive as late as here; the ending must be told all the same."""
        for _ in range(3):
            try:
                with self._ending:
                    self._ended = True
                self._owner.bring(self, result, error)
                return
            except asyncio.CancelledError:
                continue

    def cancel(self) -> None:
        with self._ending:
            if not self._ended:
                cancel_thread(self._thread)


def cancel_thread(thread: threading.Thread) -> None:
    """Raises an exception in the thread: it arrives at the next line of Python, not inside a blocking call."""
    if thread.ident is not None:
        identity = ctypes.c_ulong(thread.ident)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(identity, ctypes.py_object(asyncio.CancelledError))


class InlineHandlers:
    """For tests and simulation: async functions on the loop that is there, sync ones on the spot."""

    def call_async(self, make: Callable[[], Coroutine[Any, Any, Any]], sink: Sink) -> Call:
        task = asyncio.get_running_loop().create_task(make(), context=_context(sink))
        call = _Inline(task)
        task.add_done_callback(call.ended)
        return call

    def call_sync(self, function: Callable[[], Any], sink: Sink) -> Call:
        call = _Inline(None)
        try:
            call.arrive(_context(sink).run(function), None)
        except Exception as error:
            call.arrive(None, error)
        return call

    def close(self) -> None:
        pass


class _Inline(Call):
    def __init__(self, task: asyncio.Task[Any] | None) -> None:
        super().__init__(asyncio.get_running_loop().create_future())
        self._task = task

    def ended(self, task: asyncio.Task[Any]) -> None:
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        self.arrive(None if error else task.result(), error)

    def cancel(self) -> None:
        if self._task:
            self._task.cancel()


def _context(sink: Sink) -> contextvars.Context:
    context = contextvars.copy_context()
    context.run(CURRENT.set, sink)
    return context
