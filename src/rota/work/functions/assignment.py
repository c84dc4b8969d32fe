"""One attempt of a function on the node's side: its place, its stop and its end."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, Protocol

import msgspec

from rota.errors import RotaError
from rota.model.graph import ParentInfo
from rota.model.outcome import Interrupted, Outcome
from rota.tasks.catalogue import TaskDef
from rota.tasks.results import filled
from rota.work.attempt import Attempt, Stop, Stuck
from rota.work.functions.wire import Order, frame

_keys = itertools.count(1)


class Runner(Protocol):
    """Runs assignments: a pool process, a host, or the node's own process."""

    def single_out(self) -> None:
        """Takes back assignments that have not begun."""

    def stop(self, assignment: Assignment, rude: bool) -> None:
        """Asks it to stop: by `ctx.cancelled` if its function can see that, `rude` by an exception."""

    def end_of_grace(self, assignment: Assignment) -> None:
        """Called if it still runs at the end of its grace."""

    def lose(self, assignment: Assignment) -> None:
        """The node has lost its lease: stops it at once."""


class Assignment:
    def __init__(self, attempt: Attempt, task: TaskDef, parents: Sequence[ParentInfo], grace: float) -> None:
        claimed = attempt.claimed
        self.key = next(_keys)
        self.attempt, self.task, self.grace = attempt, task, grace
        self.order = Order(
            self.key, claimed.job_id, claimed.fence, claimed.number, task.name, claimed.queue, claimed.priority,
            claimed.owner, claimed.args, tuple(parents), claimed.state, attempt.start_by, claimed.meta,
        )  # fmt: skip
        self.rank = claimed.rank, self.key  # while it waits
        self.future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.runner: Runner | None = None
        self.over: asyncio.Event | None = None  # set when a function that did not stop ends

    @cached_property
    def body(self) -> bytes:
        return frame(self.order)

    def stop(self, reason: Stop) -> None:
        """By a message, then by an exception, then by force; each after half of the grace."""
        if self.runner is not None:
            self.runner.single_out()
        if self.future.done():
            return
        runner, loop = self.runner, asyncio.get_running_loop()
        if runner is None:
            self.end(Interrupted("stopped before it began"))  # the reason decides the outcome
            return
        loop.call_later(self.grace, self._press, runner.end_of_grace)
        if reason is Stop.LOST:
            runner.lose(self)
        else:
            runner.stop(self, False)
            loop.call_later(self.grace / 2, self._press, lambda one: runner.stop(one, True))

    def _press(self, act: Callable[[Assignment], None]) -> None:
        if not self.future.done():
            act(self)

    def give_up(self) -> None:
        """Ends the wait: the attempt gets `Stuck`."""
        self.over = asyncio.Event()
        self.future.set_exception(Stuck(self.over))

    def end(self, outcome: Outcome) -> None:
        if self.over is not None:
            self.over.set()
        if not self.future.done():
            self.future.set_result(outcome)


async def _parents(attempt: Attempt, task: TaskDef) -> Sequence[ParentInfo]:
    """The parents that the function needs: all for its context and its hooks, else those whose results are arguments.
    These have null in their places."""
    if task.context is not None or task.hooks.attempts:
        return await attempt.parents()
    return [one for one in await attempt.parents() if one.fills] if "null" in attempt.claimed.args else ()


def _arguments(attempt: Attempt, parents: Sequence[ParentInfo]) -> dict[str, Any]:
    """None if they don't fit: then the function can't run, which its place reports."""
    with suppress(msgspec.MsgspecError, RecursionError, RotaError):
        return msgspec.json.decode(filled(attempt.claimed.args, parents), type=dict[str, Any])
    return {}


async def assign(attempt: Attempt, task: TaskDef, grace: float, add: Callable[[Assignment], None]) -> Outcome:
    """Runs an attempt to its end at the place that `add` chooses. Raises Stuck."""
    parents = await _parents(attempt, task) if attempt.claimed.parents else ()
    if attempt.secrets:
        attempt.conceal_named(_arguments(attempt, parents))
    assignment = Assignment(attempt, task, parents, grace)
    add(assignment)
    attempt.on_stop(assignment.stop)
    return await assignment.future
