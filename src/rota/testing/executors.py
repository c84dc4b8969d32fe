"""Runs the work of jobs in a harness: functions on the test's own thread, commands and HTTP calls by their fakes.

A sync function runs on the thread of the test, where its database transactions and thread-local values are, but outside
of the event loop: the loop is set aside while the function runs. So `submit_sync` and `asyncio.run` work in it as in
the process of a real node.
"""

from __future__ import annotations

import asyncio
import contextvars
import copy
import functools
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from rota.errors import InvalidInput
from rota.model.http import HttpSpec, Target, target
from rota.model.job import Claimed, CommandSpec
from rota.model.outcome import Outcome
from rota.model.resources import NO_BOUNDS
from rota.tasks.catalogue import Catalogue, TaskDef
from rota.tasks.context import Reporter
from rota.testing.fakes import Fakes, HttpFake, RecordedRequest, address, call_not_faked, command_not_faked
from rota.work.attempt import Attempt, Executor
from rota.work.executors.command_outcomes import outcome
from rota.work.executors.http_connection import Dialer, Exchange, Head, Unreachable
from rota.work.functions.assignment import assign
from rota.work.functions.engine import Engine, FunctionCall, RunningCall
from rota.work.functions.in_node import InNode
from rota.work.keeper.client import Exit

# Told of each exception that a function has raised, with the id of its job.
Raised = Callable[[str, BaseException], None]


class _Unwaited:
    """The reporter of a sync function: its saves are written before its attempt ends. Waiting for one would wait for
    the loop, which waits for the function."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self.log, self.progress, self.mask = reporter.log, reporter.progress, reporter.mask

    def save(self, body: str) -> Future[None]:
        self._reporter.save(body)
        done: Future[None] = Future()
        done.set_result(None)
        return done


class _OutsideTheLoop(RunningCall):
    def begin(self, task: TaskDef | None, reporter: Reporter, too_late: Callable[[], bool] | None) -> None:
        super().begin(task, reporter if task is None or task.is_async else _Unwaited(reporter), too_late)

    def _start(self, call: FunctionCall, context: contextvars.Context) -> None:
        if call.task.is_async:
            super()._start(call, context)
        else:
            # Not in the task of the attempt: a loop that the function starts would find that task running.
            self._engine.loop.call_soon(self._outside, call, context=context)

    def _outside(self, call: FunctionCall) -> None:
        asyncio._set_running_loop(None)
        try:
            self._in_thread(call)
        finally:
            asyncio._set_running_loop(self._engine.loop)


class _HarnessEngine(Engine):
    call = _OutsideTheLoop


class _OnTheTestsThread(InNode):
    engine = _HarnessEngine


class Functions:
    def __init__(self, catalogue: Catalogue, max_result: int, kill_grace: float, raised: Raised) -> None:
        self._catalogue, self._kill_grace, self._raised = catalogue, kill_grace, raised
        self._here = _OnTheTestsThread(max_result)

    async def execute(self, attempt: Attempt) -> Outcome:
        task = self._watched(self._catalogue.get(attempt.claimed.task), attempt.claimed.job_id)
        return await assign(attempt, task, self._kill_grace, self._here.add)

    def _watched(self, task: TaskDef, job_id: str) -> TaskDef:
        """The same task, whose exceptions are told."""
        watched, function = copy.copy(task), task.function

        @functools.wraps(function)
        def call(**arguments: Any) -> Any:
            try:
                return function(**arguments)
            except BaseException as error:
                self._raised(job_id, error)
                raise

        @functools.wraps(function)
        async def call_async(**arguments: Any) -> Any:
            try:
                return await function(**arguments)
            except BaseException as error:
                self._raised(job_id, error)
                raise

        watched.function = call_async if task.is_async else call
        return watched


class FakedCommands:
    """`real`: runs commands that no fake answers; None: these fail."""

    def __init__(self, fakes: Fakes, real: Executor | None) -> None:
        self._fakes, self._real = fakes, real

    async def execute(self, attempt: Attempt) -> Outcome:
        spec = _spec(attempt.claimed, CommandSpec)
        fake = self._fakes.for_command(spec.argv)
        if fake is None:
            if self._real is None:
                raise command_not_faked(spec.argv)
            return await self._real.execute(attempt)
        fake.calls.append(spec)
        for stream, text in (("stdout", fake.stdout), ("stderr", fake.stderr)):
            if text:
                attempt.output.write(stream, text)
        return outcome(Exit(fake.exit_code, None, 0.0, 0, lost=False), spec, NO_BOUNDS)


class FakedCalls:
    """`faked` has a `FakedDialer`. `real`: makes calls that no fake answers; None: these fail."""

    def __init__(self, fakes: Fakes, faked: Executor, real: Executor | None) -> None:
        self._fakes, self._faked, self._real = fakes, faked, real

    async def execute(self, attempt: Attempt) -> Outcome:
        if self._real is not None:
            spec = _spec(attempt.claimed, HttpSpec)
            if self._fakes.for_call(spec.method, address(target(spec.url))) is None:
                return await self._real.execute(attempt)
        return await self._faked.execute(attempt)


class FakedDialer(Dialer):
    def __init__(self, fakes: Fakes) -> None:
        self._fakes = fakes

    @asynccontextmanager
    async def dial(self, _: Target) -> AsyncIterator[Exchange]:
        yield _FakedExchange(self._fakes)


class _FakedExchange(Exchange):
    def __init__(self, fakes: Fakes) -> None:
        self._fakes = fakes
        self._fake: HttpFake | None = None

    def send(self, method: str, place: Target, headers: Sequence[tuple[str, str]], body: bytes) -> None:
        url = address(place)
        self._fake = self._fakes.for_call(method, url)
        if self._fake is None:
            raise call_not_faked(method, url)
        request = RecordedRequest(method, url, {name.lower(): value for name, value in headers}, body)
        self._fake.calls.append(request)

    async def head(self) -> Head:
        assert self._fake is not None
        if self._fake.error is not None:
            raise Unreachable(self._fake.error)
        return Head(self._fake.status, self._fake.headers)

    async def body(self) -> AsyncIterator[bytes]:
        assert self._fake is not None
        yield self._fake.body


def _spec(claimed: Claimed, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(claimed.spec, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidInput("specification", "of the job", f"that of a {claimed.kind} ({error})") from None
