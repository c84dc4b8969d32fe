"""Runs functions of the app. How one ends is said by what it returns or raises."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Coroutine
from typing import Any

from rota.errors import Cancel, Fatal, InvalidInput, RetryAfter, Snooze
from rota.model.outcome import Cancelled, Failed, Interrupted, Outcome, Problem, Snoozed, Succeeded
from rota.model.retry import names_of, qualified
from rota.model.times import duration
from rota.work.attempt import TOO_LATE, Attempt, Stop
from rota.work.catalogue import Catalogue, TaskDef, to_json
from rota.work.context import Context, RunningJob
from rota.work.handlers import Call, Handlers

LONGEST_MESSAGE = 2_000
LONGEST_TRACE = 20_000


class FunctionExecutor:
    def __init__(self, catalogue: Catalogue, handlers: Handlers, kill_grace: float, max_result: int) -> None:
        self._catalogue, self._handlers = catalogue, handlers
        self._kill_grace, self._max_result = kill_grace, max_result

    async def execute(self, attempt: Attempt) -> Outcome:
        claimed = attempt.claimed
        task = self._catalogue.get(claimed.task)
        arguments = task.decode(claimed.args)
        context: Context | None = None
        if task.context is not None:
            job = RunningJob(claimed.job_id, claimed.task, claimed.queue, claimed.priority, claimed.owner)
            parents = await attempt.parents()
            context = arguments[task.context] = Context(job, claimed.number, claimed.fence, attempt.sink, parents)
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
                return self._succeeded(await task.function(**arguments))
            except BaseException as error:
                return judge(error)

        return run

    def _sync(self, task: TaskDef, arguments: dict[str, Any], too_late: Callable[[], bool]) -> Callable[[], Outcome]:
        def run() -> Outcome:
            if too_late():
                return Interrupted(TOO_LATE)
            try:
                return self._succeeded(task.function(**arguments))
            except BaseException as error:
                return judge(error)

        return run

    def _succeeded(self, value: Any) -> Outcome:
        if value is None:
            return Succeeded()
        try:
            return Succeeded(to_json(value, self._max_result, "result"))
        except InvalidInput as wrong:
            # Fatal: the work was done, and doing it again would not make its result any better.
            return Failed(Problem("rota.BadResult", str(wrong)), fatal=True)


def judge(error: BaseException) -> Outcome:
    """What an exception out of a task means."""
    match error:
        case Fatal():
            return Failed(problem_of(error), fatal=True)
        case RetryAfter() | Snooze():
            try:
                delay = duration(error.delay, type(error).__name__)
            except InvalidInput as wrong:
                return Failed(Problem("rota.InvalidInput", str(wrong)), fatal=True)
            if isinstance(error, Snooze):
                return Snoozed(delay, _text(str(error), LONGEST_MESSAGE))
            return Failed(problem_of(error), names_of(type(error)), retry_in=delay)
        case Cancel():
            return Cancelled(_text(str(error) or "cancelled by the task itself", LONGEST_MESSAGE))
        case _:
            return Failed(problem_of(error), names_of(type(error)))


def problem_of(error: BaseException) -> Problem:
    try:
        message = str(error)
    except Exception:
        message = "(its message could not be made)"
    trace = "".join(traceback.format_exception(type(error), error, _own(error)))
    return Problem(qualified(type(error)), _text(message, LONGEST_MESSAGE), _text(trace, LONGEST_TRACE))


def _own(error: BaseException) -> Any:
    """The traceback from the task's own code on."""
    trace = error.__traceback__
    return trace.tb_next if trace is not None and trace.tb_next is not None else trace


def _text(text: str, limit: int) -> str:
    """Short enough to keep and safe to encode; of long texts the end matters more."""
    clean = text.encode("utf-8", "backslashreplace").decode()
    return clean if len(clean) <= limit else f"{clean[: limit // 4]}\n...\n{clean[-limit * 3 // 4 :]}"
