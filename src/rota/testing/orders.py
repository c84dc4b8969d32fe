"""The orders that code under test has made, and how tests find them."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rota.errors import InvalidInput
from rota.handles.task import Task
from rota.model.http import HttpSpec, shown_url
from rota.model.job import CommandSpec, Kind, NewJob, Submitted
from rota.model.retry import Retry
from rota.model.times import Duration, Instant
from rota.orders import HttpCall, check_arguments
from rota.tasks.encoding import to_json

if TYPE_CHECKING:
    from rota.app_core import AppCore

EXPECTED = "a task, the name of one, a command as a list of its first words, or app.http(...)"
# Orders that a message lists.
LISTED = 5
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

AnyOrder = Task[..., Any] | HttpCall | Sequence[str] | str


class OrderRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One order as the code under test gave it."""

    id: str  # of its job
    kind: Kind
    task: str
    args: dict[str, Any]  # as JSON carries them
    command: CommandSpec | None = None
    http: HttpSpec | None = None
    queue: str
    priority: int
    at: datetime | None
    delay: timedelta
    due: datetime  # the time that `at` or `delay` names, or that of the order
    key: str | None
    expires: timedelta | None
    timeout: timedelta | None
    retry: Retry
    labels: tuple[str, ...]
    after: tuple[str, ...]  # ids of jobs that it waits for
    workflow: str | None

    def __str__(self) -> str:
        if self.command is not None:
            return f"command {self.command.argv}"
        if self.http is not None:
            return f"{self.http.method} {shown_url(self.http.url)}"
        return f"{self.task}({', '.join(f'{name}={value!r:.60}' for name, value in self.args.items())})"


def moment(instant: Instant) -> datetime:
    return _EPOCH + timedelta(microseconds=instant)


def record(job: NewJob, job_id: str, now: Instant) -> OrderRecord:
    kind, body = job.spec.kind, job.spec.body
    return OrderRecord(
        id=job_id, kind=kind, task=job.task, args=msgspec.json.decode(job.args),
        command=msgspec.json.decode(body, type=CommandSpec) if kind is Kind.COMMAND else None,
        http=msgspec.json.decode(body, type=HttpSpec) if kind is Kind.HTTP else None,
        queue=job.queue, priority=job.priority, at=None if job.at is None else moment(job.at),
        delay=timedelta(microseconds=job.delay), due=moment(now + job.delay if job.at is None else job.at),
        key=job.key, expires=_span(job.expires), timeout=_span(job.timeout), retry=job.retry,
        labels=job.requirements.labels, after=tuple(edge.parent for edge in job.after),
        workflow=job.workflow.id if job.workflow else None,
    )  # fmt: skip


def _span(duration: Duration | None) -> timedelta | None:
    return None if duration is None else timedelta(microseconds=duration)


class Wanted(NamedTuple):
    """The order that a test looks for. `differences` says in words how another one differs."""

    name: str
    kind: Kind
    task: str
    differences: Callable[[OrderRecord], list[str]]

    def fits(self, order: OrderRecord) -> bool:
        return self.related(order) and not self.differences(order)

    def related(self, order: OrderRecord) -> bool:
        """An order of the same task, or of the same kind for commands and calls."""
        return order.kind is self.kind and (self.kind is not Kind.FUNCTION or order.task == self.task)


class OrderBook:
    def __init__(self, app: AppCore) -> None:
        self._app: AppCore = weakref.proxy(app)  # the book may live on in a client
        self.orders: list[OrderRecord] = []

    def add(self, jobs: Sequence[NewJob], answers: Sequence[Submitted], now: Instant) -> None:
        """Orders that were answered with an earlier job of the same key made none, and are left out."""
        self.orders += [
            record(job, answer.id, now) for job, answer in zip(jobs, answers, strict=True) if answer.created
        ]

    def find(self, work: AnyOrder, args: Mapping[str, Any]) -> list[OrderRecord]:
        wanted = self._wanted(work, args)
        return [order for order in self.orders if wanted.fits(order)]

    def missing(self, work: AnyOrder, args: Mapping[str, Any]) -> str:
        """The message about an order that is not there: near misses first."""
        wanted = self._wanted(work, args)
        if not self.orders:
            return f"{wanted.name} was not submitted; nothing was"
        near = [order for order in self.orders if wanted.related(order)]
        others = [order for order in self.orders if not wanted.related(order)]
        lines = [f"{wanted.name} was not submitted"]
        lines += _listed("near misses", [f"{order}: {'; '.join(wanted.differences(order))}" for order in near])
        lines += _listed("other orders", [str(order) for order in others])
        return "\n".join(lines)

    def unwanted(self, work: AnyOrder, args: Mapping[str, Any], found: Sequence[OrderRecord]) -> str:
        name = self._wanted(work, args).name
        return "\n".join([f"{name} was submitted", *_listed("orders", [str(order) for order in found])])

    def _wanted(self, work: AnyOrder, args: Mapping[str, Any]) -> Wanted:
        if isinstance(work, Task | str):
            return self._wanted_function(work if isinstance(work, str) else work.name, args)
        if args:
            raise InvalidInput("arguments", dict(args), "none: a command and an HTTP call say all of themselves")
        if isinstance(work, HttpCall):
            return _wanted_call(work)
        if isinstance(work, list | tuple):
            spec, _ = self._app.command(work)
            return _wanted_command(msgspec.json.decode(spec.body, type=CommandSpec).argv)
        raise InvalidInput("order", work, EXPECTED)

    def _wanted_function(self, name: str, args: Mapping[str, Any]) -> Wanted:
        definition = self._app.catalogue.get(name)
        check_arguments(msgspec.structs.replace(definition.info, required=(), types={}), args)
        limit = self._app.settings.max_args
        expected = msgspec.json.decode(to_json(args, limit, f"arguments of task {name!r}"))
        defaults = {
            parameter.name: parameter.default
            for parameter in inspect.signature(definition.function).parameters.values()
            if parameter.default is not parameter.empty
        }

        def differences(order: OrderRecord) -> list[str]:
            found = []
            for argument, value in expected.items():
                given = order.args.get(argument, defaults.get(argument))
                if given != value:
                    found.append(f"{argument} is {given!r:.60}, not {value!r:.60}")
            return found

        shown = ", ".join(f"{argument}={value!r:.60}" for argument, value in expected.items())
        return Wanted(f"{name}({shown})", Kind.FUNCTION, name, differences)


def _wanted_command(words: list[str]) -> Wanted:
    def differences(order: OrderRecord) -> list[str]:
        begun = order.command is not None and order.command.argv[: len(words)] == words
        return [] if begun else [f"does not begin with {words}"]

    return Wanted(f"command {words}", Kind.COMMAND, "", differences)


def _wanted_call(call: HttpCall) -> Wanted:
    wanted = msgspec.json.decode(call.spec.body, type=HttpSpec)

    def differences(order: OrderRecord) -> list[str]:
        spec, found = order.http, []
        if spec is None or (spec.method, spec.url) != (wanted.method, wanted.url):
            found.append(f"not {wanted.method} {shown_url(wanted.url)}")
        elif wanted.body is not None and spec.content() != wanted.content():
            found.append(f"its body is {spec.content()[:60]!r}, not {wanted.content()[:60]!r}")
        return found

    return Wanted(f"{wanted.method} {shown_url(wanted.url)}", Kind.HTTP, "", differences)


def _listed(title: str, lines: Sequence[str]) -> list[str]:
    if not lines:
        return []
    more = [f"  and {len(lines) - LISTED} more"] if len(lines) > LISTED else []
    return [f"{title}:", *(f"  {line}" for line in lines[:LISTED]), *more]
