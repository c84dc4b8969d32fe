"""Runs the app's hooks where its functions run: around attempts, and at the start and stop of a process."""

from __future__ import annotations

import asyncio
import logging
import os
import traceback
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from rota.daemon_thread import in_daemon_thread
from rota.errors import RotaError, place_in
from rota.model.outcome import Cancelled, Outcome, Snoozed, Succeeded
from rota.sync_bridge import SyncBridge
from rota.tasks.catalogue import TaskDef
from rota.tasks.context import Context
from rota.tasks.hooks import AttemptEnd, Hooks, ProcessInfo, Steps, call, finished, name_of
from rota.work.functions.ending import judge, succeeded

# Seconds that the hooks of one process have at its start and at its stop.
START_LIMIT = 30.0
STOP_LIMIT = 5.0

_log = logging.getLogger("rota.hooks")


def _logged(hook: str, error: Exception) -> None:
    _log.error("hook process.stop %s failed", hook, exc_info=error)


class Judged(NamedTuple):
    """What a function with hooks returns: the outcome, which its hooks know already."""

    outcome: Outcome


def attempt(
    task: TaskDef, ctx: Context, work: Callable[[], Any], max_result: int, start: ProcessHooks
) -> Steps[Judged]:
    """One attempt with its hooks. A start of the process that failed before is tried again, as a part of it."""
    error = None
    try:
        yield from start.starting()
        value = yield from task.hooks.attempt(ctx, work, task.is_async)
        outcome = succeeded(value, max_result)
    except BaseException as raised:
        outcome, error = judge(raised), raised
    try:
        yield from task.hooks.after_attempt(ctx, AttemptEnd(_word(outcome, ctx), error))
    except BaseException:  # told to stop once more: the outcome stands
        _log.warning("hooks attempt.after were stopped")
    return Judged(outcome)


def _word(outcome: Outcome, ctx: Context) -> str:
    if ctx.cancelled:
        return "stopped"
    match outcome:
        case Succeeded():
            return "succeeded"
        case Snoozed():
            return "snoozed"
        case Cancelled():
            return "cancelled"
        case _:
            return "failed"


class ProcessHooks:
    """The start and stop of one process."""

    def __init__(self, kind: str, hooks: Iterable[Hooks] = ()) -> None:
        self._info = ProcessInfo(kind, os.getpid())
        self._hooks = list({id(one): one for one in hooks}.values())
        self._to_start = deque(hook for one in self._hooks for hook in one.of("process.start"))

    @property
    def late(self) -> bool:
        """A start hook has failed: attempts try it again."""
        return bool(self._to_start)

    def starting(self) -> Steps[None]:
        """Runs the start hooks that have not succeeded yet."""
        while self._to_start:
            yield from call(self._to_start[0], self._info)
            self._to_start.popleft()

    def stopping(self, failed: Callable[[str, Exception], None] = _logged) -> Steps[None]:
        """`failed` gets the name of a hook that raises, and the error; the others run all the same."""
        for one in reversed(self._hooks):
            for hook in reversed(one.of("process.stop")):
                try:
                    yield from call(hook, self._info)
                except Exception as error:
                    failed(name_of(hook), error)


NO_PROCESS_HOOKS = ProcessHooks("")


class NodeHooks:
    """The start and stop of a node: in a thread, because its loop renews the lease. Hooks that take too long are left
    behind in it."""

    def __init__(self, hooks: Hooks, tell: Callable[[str], None]) -> None:
        """`tell` gets one sentence about each failure at the stop, on the loop."""
        self._used = hooks.has("process.start", "process.stop")
        self._process = ProcessHooks("node", [hooks])
        self._tell = tell

    async def start(self) -> None:
        """Raises RotaError."""
        try:
            ended = await self._ended(self._process.starting(), START_LIMIT)
        except Exception as error:
            raise RotaError(f"a hook process.start of the node failed: {type(error).__name__}: {error}") from error
        if not ended:
            raise RotaError(f"the hooks process.start of the node took longer than {START_LIMIT:g} s")

    async def stop(self) -> None:
        loop = asyncio.get_running_loop()

        def failed(hook: str, error: Exception) -> None:
            where = place_in("".join(traceback.format_exception(error)))
            said = f"hook process.stop {hook} of the node failed: {type(error).__name__}: {error} ({where})"
            with suppress(RuntimeError):  # the loop has closed
                loop.call_soon_threadsafe(self._tell, said)

        if not await self._ended(self._process.stopping(failed), STOP_LIMIT):
            self._tell(f"the hooks process.stop of the node took longer than {STOP_LIMIT:g} s")

    async def _ended(self, steps: Steps[None], limit: float) -> bool:
        """Runs steps; False if they take longer. Raises what they raise."""
        if not self._used:
            return True
        running = asyncio.ensure_future(in_daemon_thread(lambda: in_own_thread(steps), "rota-hooks"))
        try:
            await asyncio.wait([running], timeout=limit)
            return running.done() and running.result() is None
        finally:
            running.cancel()


def in_own_thread(steps: Steps[Any]) -> Any:
    """Runs steps in sync code. What they await runs on a loop in a thread of its own: this thread may have one."""
    bridges: list[SyncBridge] = []

    def run(work: Any) -> Any:
        if not bridges:
            bridges.append(SyncBridge())
        return bridges[0].run(work)

    try:
        return finished(steps, run)
    finally:
        for bridge in bridges:
            bridge.close()
