"""Hooks and middleware of an app: code around orders, around attempts, and at the start and stop of processes.

A hook is a function for one event (`EVENTS`). A middleware is a generator function around orders or attempts
(`AROUND`): what stands before its `yield` runs before, the rest afterwards. All may be sync or async.

An order or attempt goes through them like this; hooks run in the order in which they were registered, and on the way
out in reverse:

    before hooks -> middleware -> order or function -> middleware -> after hooks

The way through is written once, as a generator of *steps*: it yields what must be awaited and gets its value. `awaited`
runs steps on a loop, `finished` in sync code.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from rota.errors import InvalidInput, RotaError
from rota.tasks.encoding import to_json

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
Steps = Generator[Awaitable[Any], Any, T]

# The events, with what their hooks get.
EVENTS: Mapping[str, tuple[str, ...]] = {
    "submit.before": ("submission",),
    "submit.after": ("submission",),
    "attempt.before": ("ctx",),
    "attempt.after": ("ctx", "end"),
    "process.start": ("process",),
    "process.stop": ("process",),
}
AROUND: Mapping[str, tuple[str, ...]] = {"submit": ("submission",), "attempt": ("ctx",)}
LARGEST_META = 4096  # bytes of JSON: it is stored with every job, and travels with every attempt

_log = logging.getLogger("rota.hooks")


class Submission:
    """An order on its way to the store."""

    def __init__(self, tasks: Sequence[str]) -> None:
        self.tasks = tuple(tasks)  # of its jobs
        self.meta: dict[str, Any] = {}  # hooks may add to it; attempts find it in `ctx.meta`
        self.jobs: list[Any] = []  # handles of the jobs, once they are ordered


class AttemptEnd(msgspec.Struct, frozen=True):
    """The end of a function, as far as the process knows in which it ran."""

    outcome: str  # succeeded, failed, snoozed, cancelled, or stopped: its node told it to stop
    error: BaseException | None = None


class ProcessInfo(msgspec.Struct, frozen=True):
    kind: str  # node; pool: runs one function at a time; host: runs many
    pid: int


class Hooks:
    """The hooks and middleware of one app."""

    def __init__(self) -> None:
        self._hooks: dict[str, list[Callable[..., Any]]] = {}
        self._around: dict[str, list[Callable[..., Any]]] = {}

    def on(self, event: str) -> Callable[[F], F]:
        """A decorator that registers a hook. Raises InvalidInput."""
        if event not in list(EVENTS):  # (a list: values that have no hash are wrong too)
            raise InvalidInput("event", event, f"one of {', '.join(EVENTS)}")

        def register(function: F) -> F:
            _check(function, f"hook {event}", EVENTS[event])
            if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
                raise InvalidInput(f"hook {event}", function, "a function that does not yield; see app.around(...)")
            self._hooks.setdefault(event, []).append(function)
            return function

        return register

    def around(self, what: str) -> Callable[[F], F]:
        """A decorator that registers a middleware. Raises InvalidInput."""
        if what not in list(AROUND):
            raise InvalidInput("around", what, f"one of {', '.join(AROUND)}")

        def register(function: F) -> F:
            _check(function, f"middleware around {what}", AROUND[what])
            if not (inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)):
                raise InvalidInput(f"middleware around {what}", function, "a generator function with one yield")
            self._around.setdefault(what, []).append(function)
            return function

        return register

    def has(self, *events: str) -> bool:
        return any(event in self._hooks or event in self._around for event in events)

    def of(self, event: str) -> Sequence[Callable[..., Any]]:
        return self._hooks.get(event, ())

    @property
    def attempts(self) -> bool:
        return self.has("attempt.before", "attempt.after", "attempt")

    async def submit_async(self, tasks: Sequence[str], order: Callable[[str | None], Awaitable[list[T]]]) -> list[T]:
        """Orders jobs of these tasks. `order` gets the metadata, as JSON, and returns their handles."""
        if not tasks or not self.has("submit.before", "submit.after", "submit"):
            return await order(None)
        jobs: list[T] = await awaited(self._submit(tasks, order, True))
        return jobs

    def submit_sync(
        self, tasks: Sequence[str], order: Callable[[str | None], list[T]], run: Callable[[Any], Any]
    ) -> list[T]:
        """Like `submit_async`, in the caller's thread; `run` runs what async hooks await."""
        if not tasks or not self.has("submit.before", "submit.after", "submit"):
            return order(None)
        jobs: list[T] = finished(self._submit(tasks, order, False), run)
        return jobs

    def _submit(self, tasks: Sequence[str], order: Callable[[str | None], Any], waits: bool) -> Steps[Any]:
        submission, failed = Submission(tasks), list[BaseException]()

        def place() -> Steps[Any]:
            try:
                body = order(_encoded(submission.meta))
                submission.jobs = (yield body) if waits else body
            except BaseException as error:
                failed.append(error)
                raise
            return submission.jobs

        for hook in self.of("submit.before"):
            yield from call(hook, submission)
        yield from nested(self._around.get("submit", ()), submission, place, _after_order(submission))
        if failed:  # a middleware has swallowed it, but there are no jobs to return
            raise failed[0]
        for hook in reversed(self.of("submit.after")):
            try:
                yield from call(hook, submission)
            except Exception:
                _log.exception("hook submit.after %s failed; the jobs are ordered", name_of(hook))
        return submission.jobs

    def attempt(self, ctx: Any, work: Callable[[], Any], waits: bool) -> Steps[Any]:
        """Calls a function, after the `before` hooks and inside the middleware. Returns its result; raises what is to
        be the end of the attempt."""
        for hook in self.of("attempt.before"):
            yield from call(hook, ctx)

        def run() -> Steps[Any]:
            value = work()
            return (yield value) if waits else value

        return (yield from nested(self._around.get("attempt", ()), ctx, run))

    def after_attempt(self, ctx: Any, end: AttemptEnd) -> Steps[None]:
        for hook in reversed(self.of("attempt.after")):
            try:
                yield from call(hook, ctx, end)
            except Exception:  # the outcome stands
                _log.exception("hook attempt.after %s failed; the outcome stands", name_of(hook))


def _after_order(submission: Submission) -> Callable[[Callable[..., Any], Exception], bool]:
    """What becomes of an error of a middleware on its way out: jobs that are ordered stay, and the caller gets them."""

    def forgiven(layer: Callable[..., Any], error: Exception) -> bool:
        if submission.jobs:
            _log.error("middleware %s failed; the jobs are ordered", name_of(layer), exc_info=error)
        return bool(submission.jobs)

    return forgiven


def _encoded(meta: Mapping[str, Any]) -> str | None:
    if not isinstance(meta, dict) or not all(isinstance(name, str) for name in meta):
        raise InvalidInput("submission.meta", meta, "a dict with texts as keys")
    return to_json(meta, LARGEST_META, "submission.meta") if meta else None


def _check(function: object, what: str, names: Sequence[str]) -> None:
    if not callable(function):
        raise InvalidInput(what, function, "a function")
    try:
        inspect.signature(function).bind(*names)
    except TypeError:
        raise InvalidInput(what, function, f"a function that takes ({', '.join(names)})") from None


def name_of(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{getattr(function, '__qualname__', function)}"


# -- steps ------------------------------------------------------------------------------------------------------------
def call(hook: Callable[..., Any], *args: Any) -> Steps[Any]:
    value = hook(*args)
    return (yield value) if inspect.isawaitable(value) else value


def nested(
    layers: Sequence[Callable[..., Any]],
    subject: Any,
    work: Callable[[], Steps[Any]],
    forgiven: Callable[[Callable[..., Any], Exception], bool] = lambda layer, error: False,
) -> Steps[Any]:
    """Runs work inside of middleware, the first layer outermost. `forgiven`: whether an error on the way out, after the
    work has succeeded, is left aside."""
    if not layers:
        return (yield from work())
    layer, *inner = layers
    generator = layer(subject)
    if (yield from _advance(generator, None)):
        raise RotaError(f"middleware {name_of(layer)} did not yield; it must yield once")
    try:
        value = yield from nested(inner, subject, work, forgiven)
    except BaseException as error:
        if (yield from _throw(layer, generator, error)):
            return None
        raise
    try:
        if not (yield from _advance(generator, value)):
            raise RotaError(f"middleware {name_of(layer)} yielded twice; it must yield once")
    except Exception as error:
        if not forgiven(layer, error):
            raise
    return value


def _advance(generator: Any, value: Any) -> Steps[bool]:
    """Takes a generator to its next yield; True if it has ended instead."""
    try:
        if inspect.isasyncgen(generator):
            yield generator.asend(value)
        else:
            generator.send(value)
    except (StopIteration, StopAsyncIteration):
        return True
    return False


def _throw(layer: Callable[..., Any], generator: Any, error: BaseException) -> Steps[bool]:
    """Tells a middleware about an error; True if it does not raise it again. It may raise another."""
    trace = error.__traceback__
    try:
        if inspect.isasyncgen(generator):
            yield generator.athrow(error)
        else:
            generator.throw(error)
    except (StopIteration, StopAsyncIteration) as end:
        return end is not error
    except BaseException as raised:
        # Python replaces a StopIteration that leaves a generator.
        if raised is not error and raised.__cause__ is not error:
            raise
        error.__traceback__ = trace  # without the lines of the middleware
        return False
    raise RotaError(f"middleware {name_of(layer)} yielded twice; it must yield once") from error


async def awaited(steps: Steps[T]) -> T:
    """Runs steps on the current loop."""
    try:
        waiting = next(steps)
        while True:
            try:
                value = await waiting
            except BaseException as error:
                waiting = steps.throw(error)
            else:
                waiting = steps.send(value)
    except StopIteration as end:
        result: T = end.value
        return result


def finished(steps: Steps[T], run: Callable[[Any], Any]) -> T:
    """Runs steps in sync code; `run` runs a coroutine to its end."""
    try:
        waiting = next(steps)
        while True:
            try:
                value = run(_as_coroutine(waiting))
            except BaseException as error:
                waiting = steps.throw(error)
            else:
                waiting = steps.send(value)
    except StopIteration as end:
        result: T = end.value
        return result


async def _as_coroutine(awaitable: Awaitable[T]) -> T:
    return await awaitable
