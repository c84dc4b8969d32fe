"""Runs functions of the app in other processes, or in this one if no other process could import them."""

from __future__ import annotations

import os
from typing import Protocol

from rota.model.outcome import Outcome
from rota.tasks.catalogue import Catalogue, TaskDef
from rota.work.attempt import Attempt
from rota.work.functions.assignment import assign
from rota.work.functions.in_node import InNode


class Elsewhere(Protocol):
    """Runs functions in other processes."""

    def takes(self, task: TaskDef) -> bool: ...

    async def run(self, task: TaskDef, attempt: Attempt) -> Outcome: ...


def _conceal(attempt: Attempt, task: TaskDef) -> None:
    """The task's own secrets count also for an order that was made before they were declared. A function that sees its
    context may learn more of them."""
    if task.info.secrets or attempt.secrets:
        attempt.secrets = tuple({*attempt.secrets, *task.info.secrets})
        attempt.conceal_named(os.environ)
    elif task.context is not None or task.hooks.attempts:
        attempt.conceal(())


class FunctionExecutor:
    def __init__(
        self, catalogue: Catalogue, in_node: InNode, kill_grace: float, elsewhere: Elsewhere | None = None
    ) -> None:
        self._catalogue, self._in_node, self._elsewhere = catalogue, in_node, elsewhere
        self._kill_grace = kill_grace

    async def execute(self, attempt: Attempt) -> Outcome:
        task = self._catalogue.get(attempt.claimed.task)
        _conceal(attempt, task)
        if self._elsewhere is not None and self._elsewhere.takes(task):
            return await self._elsewhere.run(task, attempt)
        return await assign(attempt, task, self._kill_grace, self._in_node.add)
