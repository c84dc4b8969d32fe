"""Runs functions of the app: in other processes, or in this one those that no other process could import. How one ends
is said by what it returns or raises."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from rota.model.outcome import Cancelled, Interrupted, Outcome
from rota.tasks.catalogue import Catalogue, TaskDef
from rota.tasks.context import Context, RunningJob
from rota.work.attempt import TOO_LATE, Attempt, Stop
from rota.work.functions.ending import judge, succeeded
from rota.work.functions.in_node import Call, Handlers
from rota.work.progress import AttemptReporter


class Elsewhere(Protocol):
    """Runs functions in other processes."""

    def takes(self, task: TaskDef) -> bool: ...

    async def run(self, task: TaskDef, attempt: Attempt) -> Outcome: ...


class FunctionExecutor:
    def __init__(
        self,
        catalogue: Catalogue,
        handlers: Handlers,
        kill_grace: float,
        max_result: int,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        self._catalogue, self._handlers, self._elsewhere = catalogue, handlers, elsewhere
        self._kill_grace, self._max_result = kill_grace, max_result

    async def execute(self, attempt: Attempt) -> Outcome:
        claimed = attempt.claimed
        task = self._catalogue.get(claimed.task)
        if self._elsewhere is not None and self._elsewhere.takes(task):
            return await self._elsewhere.run(task, attempt)
        arguments = task.decode(claimed.args)
        context: Context | None = None
        if task.context is not None:
            job = RunningJob(claimed.job_id, claimed.task, claimed.queue, claimed.priority, claimed.owner)
            parents = await attempt.parents()
            reporter = AttemptReporter(attempt.sink, attempt.book)
            context = arguments[task.context] = Context(
                job, claimed.number, claimed.fence, reporter, parents, claimed.state, self._max_result
            )
        if task.is_async:
            call = self._handlers.call_async(self._async(task, arguments, attempt.too_late), attempt.sink)
        else:
            call = self._handlers.call_sync(self._sync(task, arguments, attempt.too_late), attempt.sink)
        attempt.on_stop(lambda reason: self._stop(call, context, at_once=task.is_async or reason is Stop.LOST))
        try:
            outcome: Outcome = await call.future
        except asyncio.CancelledError:
            if attempt.stopped is None:
                raise  # the node's own loop is being torn down
            return Cancelled(attempt.stopped)
        return outcome

    def _stop(self, call: Call, context: Context | None, at_once: bool) -> None:
        """First the polite word, then the rude one, then no more waiting. A lost lease leaves no time for manners."""
        if context is not None:
            context.cancel()
        loop = asyncio.get_running_loop()
        if at_once:
            call.cancel()
        else:
            loop.call_later(self._kill_grace / 2, call.cancel)
        loop.call_later(self._kill_grace, call.give_up)

    # The outcome is made where the function runs: encoding a large result must not hold up the node's loop.
    # And there it is asked whether it is too late: a neighbour may have blocked the loop, the store may have been away.

    def _async(
        self, task: TaskDef, arguments: dict[str, Any], too_late: Callable[[], bool]
    ) -> Callable[[], Coroutine[Any, Any, Outcome]]:
        async def run() -> Outcome:
            if too_late():
                return Interrupted(TOO_LATE)
            try:
                return succeeded(await task.function(**arguments), self._max_result)
            except BaseException as error:
                return judge(error)

        return run

    def _sync(self, task: TaskDef, arguments: dict[str, Any], too_late: Callable[[], bool]) -> Callable[[], Outcome]:
        def run() -> Outcome:
            if too_late():
                return Interrupted(TOO_LATE)
            try:
                return succeeded(task.function(**arguments), self._max_result)
            except BaseException as error:
                return judge(error)

        return run
