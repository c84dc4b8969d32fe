"""What a running task knows about itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator, Sequence
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

import msgspec

from rota.errors import InvalidInput
from rota.model.graph import ParentInfo
from rota.model.secrets import MOST_VALUES, can_be_masked, leaves
from rota.tasks.encoding import to_json

# A thread that waits looks up so often: the exception by which a sync task is told to stop arrives only there.
LOOK_UP = 0.1
T = TypeVar("T")


class RunningJob(msgspec.Struct, frozen=True):
    id: str
    task: str
    queue: str
    priority: int
    owner: str


class Reporter(Protocol):
    """All that a running task says goes through one of these, from whatever thread or process it runs in."""

    def log(self, line: str) -> None: ...

    def progress(self, fraction: float | None, text: str) -> None:
        """Raises InvalidInput if the fraction is neither from 0 to 1 nor None; whatever else goes wrong is nobody's
        business."""

    def save(self, body: str) -> Future[None]:
        """Keeps a state, as JSON. Done when it is durable; raises Stale if this attempt is over for the store."""

    def mask(self, values: Sequence[str]) -> None:
        """Masks these values in all that the attempt says from now on."""


class Context:
    """Handed to a task that has a parameter `ctx` (or one annotated `rota.Context`).

    `fence` rises with every attempt at this job and never repeats: send it along with side effects, and let the other
    side refuse anything that comes with a lower one than it has seen.
    """

    job: RunningJob
    attempt: int  # from 1
    fence: int
    parents: list[ParentInfo]  # the jobs it was ordered after, with their results
    state: Any  # what an earlier attempt has saved, or None
    meta: dict[str, Any]  # what hooks added when it was ordered

    def __init__(
        self,
        job: RunningJob,
        attempt: int,
        fence: int,
        reporter: Reporter,
        parents: Sequence[ParentInfo] = (),
        state: str | None = None,
        max_state: int = 1 << 20,
        meta: str | None = None,
    ) -> None:
        self.job, self.attempt, self.fence = job, attempt, fence
        self.parents = list(parents)
        self.state = _read(state)
        self.meta = _read(meta, "metadata") or {}
        self._reporter, self._max_state = reporter, max_state
        self._cancelled = False
        self._masked: set[str] = set()

    def __repr__(self) -> str:
        return f"<Context of job {self.job.id!r}, task {self.job.task!r}, attempt {self.attempt}>"

    @property
    def cancelled(self) -> bool:
        """True once the attempt should stop: cancelled, out of time, or its node is shutting down. Sync tasks that
        run long should look at it; async tasks are told by `asyncio.CancelledError`."""
        return self._cancelled

    def _cancel(self) -> None:
        self._cancelled = True

    def log(self, message: object, **fields: Any) -> None:
        """Adds a line to the output of this attempt."""
        text = " ".join([str(message), *(f"{name}={value!r}" for name, value in fields.items())])
        self._reporter.log(text)

    def progress(self, fraction: float | None, text: str = "") -> None:
        """Tells how far the task is: from 0 to 1, or None if it can't tell. Costs next to nothing: of what is told in
        a moment only the newest is kept."""
        self._reporter.progress(fraction, text)

    def mask(self, value: T) -> T:
        """Keeps a secret that the task has learnt out of its output, its errors and its result, from now on; returns
        the value. Of a list or a mapping every text and number is masked."""
        values = [one for one in leaves(value) if can_be_masked(one)]
        if len(self._masked | {*values}) > MOST_VALUES:
            raise InvalidInput("mask", f"{len(values):,} values", f"at most {MOST_VALUES:,} of one attempt")
        self._masked |= {*values}
        if values:
            self._reporter.mask(values)
        return value

    def save(self, state: Any) -> Awaitable[None]:
        """Keeps a value that JSON can carry for the next attempt at this job, which finds it in `ctx.state`.

        In sync code it returns when the value is safe. In async code it is awaited: `await ctx.save(...)`. Raises
        `rota.Stale` if this attempt is over, and another may have begun: stop, and leave the rest to that one.
        """
        done = self._reporter.save(to_json(state, self._max_state, "state"))
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return _wait(done)
        return asyncio.wrap_future(done)


class _Done:
    """What sync code gets: there is nothing left to wait for."""

    def __await__(self) -> Generator[Any, None, None]:
        return iter(())  # type: ignore[return-value]


def _wait(done: Future[None]) -> Awaitable[None]:
    while True:
        try:
            done.result(LOOK_UP)
        except TimeoutError:
            if done.done():
                raise
        else:
            return _Done()


def _read(state: str | None, what: str = "saved state") -> Any:
    try:
        return None if state is None else msgspec.json.decode(state)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidInput(what, state, f"JSON ({error})") from None
