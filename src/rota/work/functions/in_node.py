"""Runs functions in the node's own process: functions that no other process could import, and all functions in tests.

The engine is the one of hosts. Its loop has a thread of its own, never the node's, which renews the lease: a function
that blocks it slows only its neighbours. Sync functions get a thread each. Nothing can be killed here: a function that
does not stop within its grace is stuck.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from rota.model.outcome import Outcome
from rota.work.functions.assignment import Assignment
from rota.work.functions.engine import Engine, run_loop
from rota.work.progress import AttemptReporter


class CallQueue:
    """Calls for a loop, from any thread, in batches: one wake-up for many."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: deque[Callable[[], None]] = deque()
        self._rung = False

    def put(self, call: Callable[[], None]) -> None:
        self._calls.append(call)
        if not self._rung:
            self._rung = True
            try:
                self._loop.call_soon_threadsafe(self._run)
            except RuntimeError:
                pass  # the loop has closed
            except BaseException:  # the exception of a stop may arrive here: the next call must wake the loop again
                self._rung = False
                raise

    def _run(self) -> None:
        self._rung = False
        while self._calls:
            self._calls.popleft()()


class InNode:
    """Runs functions on the current loop; harness and simulation have engines of their own for it."""

    engine: type[Engine] = Engine

    def __init__(self, max_result: int, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._assignments: dict[int, Assignment] = {}
        self._engine = self.engine(max_result, loop or asyncio.get_running_loop(), self._ended)

    def add(self, assignment: Assignment) -> None:
        attempt = assignment.attempt
        assignment.runner = self
        self._assignments[assignment.key] = assignment
        reporter = AttemptReporter(attempt.output, attempt.book, attempt.conceal)
        self._on_loop(
            assignment,
            lambda: self._engine.begin(assignment.task, assignment.order, reporter, attempt.output, attempt.too_late),
        )

    def _on_loop(self, assignment: Assignment, act: Callable[[], None]) -> None:
        act()

    def _ended(self, key: int, outcome: Outcome, wall: float) -> None:
        if (assignment := self._assignments.pop(key, None)) is not None:
            assignment.end(outcome)

    def single_out(self) -> None:
        """Nothing to take back: all its assignments have begun."""

    def stop(self, assignment: Assignment, rude: bool) -> None:
        self._on_loop(assignment, lambda: self._engine.stop(assignment.key, rude))

    def end_of_grace(self, assignment: Assignment) -> None:
        assignment.give_up()

    def lose(self, assignment: Assignment) -> None:
        self.stop(assignment, rude=True)

    def close(self) -> None:
        """Ends the calls that still run on the loop."""


class InNodeThreads(InNode):
    """For real nodes: the loop runs in a thread of its own."""

    def __init__(self, max_result: int) -> None:
        self._loop = asyncio.new_event_loop()
        self._there, self._home = CallQueue(self._loop), CallQueue(asyncio.get_running_loop())
        self._closing = False
        super().__init__(max_result, self._loop)
        self._thread = threading.Thread(target=self._run, name="rota-handlers", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            run_loop(self._loop, lambda: self._closing)
        finally:
            self._loop.close()

    def _on_loop(self, assignment: Assignment, act: Callable[[], None]) -> None:
        if assignment.task.is_async:
            self._there.put(act)
        else:
            act()  # it has a thread of its own, and need not wait for the loop

    def _ended(self, key: int, outcome: Outcome, wall: float) -> None:
        self._home.put(lambda: InNode._ended(self, key, outcome, wall))

    def close(self) -> None:
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._wind_up)
        self._thread.join(1.0)

    def _wind_up(self) -> None:
        """Cancels every task; then the loop ends, even if a task goes on."""
        self._closing = True
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.call_soon(self._loop.call_soon, self._loop.stop)
