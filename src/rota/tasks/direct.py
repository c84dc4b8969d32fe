"""The context of a task that is called as a function, outside of any job."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future

from rota.model.job import DEFAULT_QUEUE
from rota.model.progress import Progress
from rota.model.rank import DEFAULT_PRIORITY
from rota.tasks.context import Context, RunningJob


class DirectReporter:
    """Prints what is logged, checks progress, and forgets saved states."""

    def log(self, line: str) -> None:
        print(line)

    def progress(self, fraction: float | None, text: str) -> None:
        Progress.told(fraction, text, 0)

    def save(self, body: str) -> Future[None]:
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def mask(self, values: Sequence[str]) -> None:
        """Nothing is kept of what is printed here."""


def direct_context(task: str) -> Context:
    return Context(RunningJob("", task, DEFAULT_QUEUE, DEFAULT_PRIORITY, ""), 1, 0, DirectReporter())
