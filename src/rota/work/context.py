"""What a running task knows about itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from rota.logs.shipper import Sink
from rota.model.graph import ParentInfo


class RunningJob(msgspec.Struct, frozen=True):
    id: str
    task: str
    queue: str
    priority: int
    owner: str


class Context:
    """Handed to a task that has a parameter `ctx` (or one annotated `rota.Context`).

    `fence` rises with every attempt at this job and never repeats: send it along with side effects, and let the other
    side refuse anything that comes with a lower one than it has seen.
    """

    def __init__(
        self, job: RunningJob, attempt: int, fence: int, sink: Sink | None, parents: Sequence[ParentInfo] = ()
    ) -> None:
        self.job, self.attempt, self.fence = job, attempt, fence
        self.parents = list(parents)  # the jobs it was ordered after, with their results
        self._sink = sink
        self._cancelled = False

    @property
    def cancelled(self) -> bool:
        """True once the attempt should stop: cancelled, out of time, or its node is shutting down. Sync tasks that
        run long should look at it; async tasks are told by `asyncio.CancelledError`."""
        return self._cancelled

    def cancel(self) -> None:
        self._cancelled = True

    def log(self, message: object, **fields: Any) -> None:
        """Adds a line to the output of this attempt."""
        text = " ".join([str(message), *(f"{name}={value!r}" for name, value in fields.items())])
        if self._sink is not None:
            self._sink.write("log", (text + "\n").encode("utf-8", "backslashreplace"))
