"""Every error rota raises on purpose.

RotaError
├── InvalidInput            a given value is wrong; says what was given and what was expected
│   ├── InvalidArguments    arguments that the function of a task does not take
│   ├── UnknownTask         no task of that name is known
│   ├── InvalidQuery        a search that can't be read; says at which character
│   ├── NotSerialisable     a value that JSON can't carry
│   └── TooLarge            arguments, a command or a call beyond the limit
├── KeyConflict             an idempotency key was used before for another order
├── IdempotencyKeyReused    an idempotency key was used before for another request
├── RepeatInFlight          the first try of a write is still being carried out elsewhere
├── AnswerNotKept           a write was carried out before, and its answer can't be given again
├── NotFound                no such job (or none that this user may see)
├── NotAllowed              this user may not do that
├── QuotaExceeded           this user has used up a quota
├── ChangedMeanwhile        an edit names a version that another edit has replaced
├── IllegalEvent            the lifecycle table has no such step
├── JobFailed               the result of a job that did not succeed was asked for
├── ResultMismatch          the result of a job does not fit the return annotation of its task
├── WaitTimeout             a wait ended before the job did
├── LockTaken               a wait for a lock ended before it was free
├── LockLost                a lock ended or was released while it was needed
├── Stale                   raised to a task whose attempt has lost its job
├── NotFaked                in a test: nothing answers a command or an HTTP call, and it may not run for real
└── StoreError              the store can't do its work; the base itself: it refused this call
    ├── StoreUnavailable    locked, unreachable or unreadable; trying again may help
    ├── StoreFull           no space left for the write; nothing was written
    ├── StoreReadOnly       the file or its folder can't be written
    ├── StoreDenied         the server denies access: password, rights, no such database
    ├── WrongVersion        client and server are of versions that don't understand each other
    ├── SchemaTooNew        the store was migrated by a newer rota
    └── SchemaMissing       the store was never migrated, or not far enough

Signals, which tasks raise to say how their attempt should end, are in `rota.signals`.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence


class Travelling(BaseException):
    """An exception that crosses between processes of the user's, as `multiprocessing` and `concurrent.futures` send
    them. Python would call the class with the message alone, which fails where it takes more."""

    def __reduce__(self) -> tuple[Any, ...]:
        return arrived, (type(self), self.args, self._fields())

    def _fields(self) -> dict[str, Any]:
        return dict(self.__dict__)


E = TypeVar("E", bound=Travelling)


def arrived(kind: type[E], args: tuple[Any, ...], fields: dict[str, Any]) -> E:
    """An error as it was taken apart in another process, or by a server."""
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(fields)
    return error


class RotaError(Travelling, Exception):
    """Base of all errors that rota raises on purpose; the message is written for the person who must act."""


class InvalidInput(RotaError, ValueError):
    def __init__(self, what: str, given: object, expected: str) -> None:
        self.what, self.given, self.expected = what, given, expected
        super().__init__(f"{what}: {shown(given)} is not valid; expected {expected}")

    def _fields(self) -> dict[str, Any]:
        """`given` may be anything, such as an open file. What is no plain value arrives as the text that shows it."""
        plain = isinstance(self.given, str | bytes | int | float | datetime | timedelta | None)
        return super()._fields() | {"given": self.given if plain else shown(self.given)}


def shown(value: object) -> str:
    """A value in a message, cut if it is long."""
    try:
        shown = repr(value)
    except Exception:  # a failing __repr__, or a number with too many digits to print
        shown = f"a {type(value).__name__} that can't be shown"
    return shown if len(shown) <= 80 else shown[:77] + "..."


class InvalidArguments(InvalidInput):
    def __init__(self, task: str, problem: str, names: Sequence[str]) -> None:
        takes = ", ".join(names) or "no arguments"
        super().__init__(f"arguments of task {task!r}", problem, takes)
        self.args = (f"arguments of task {task!r}: {problem}; it takes {takes}",)


class UnknownTask(InvalidInput):
    def __init__(self, name: str, hint: str) -> None:
        self.name = name
        super().__init__("task", name, hint)
        self.args = (f"unknown task {name!r}; {hint}",)


class InvalidQuery(InvalidInput):
    """`position`: the character at fault, counted from 1; None: the query came as a tree, or is wrong as a whole."""

    def __init__(self, text: object, position: int | None, problem: str) -> None:
        self.position, self.problem = position, "".join(one if one.isprintable() else "\ufffd" for one in problem)
        super().__init__("query", text, "a query as docs/search.md has it")
        place = "" if position is None else f", character {position}"
        self.args = (f"query{place}: {self.problem}",)


class NotSerialisable(InvalidInput):
    pass


class TooLarge(InvalidInput):
    def __init__(self, what: str, size: int, limit: int) -> None:
        self.size, self.limit = size, limit
        super().__init__(what, f"{size} bytes", f"at most {limit} bytes")
        self.args = (f"{what}: {size} bytes is too large; at most {limit} bytes are allowed",)


class KeyConflict(RotaError):
    def __init__(self, key: str, job_id: str) -> None:
        self.key, self.job_id = key, job_id
        super().__init__(f"key {key!r} was used before for another order (job {job_id}); use a new key")


class IdempotencyKeyReused(RotaError):
    """`job_id`: the job that the first request ordered, if it was an order."""

    def __init__(self, job_id: str | None = None) -> None:
        self.job_id = job_id
        ordered = "" if job_id is None else f" (job {job_id})"
        super().__init__(f"the Idempotency-Key was used before for another request{ordered}: use a new key")


class RepeatInFlight(RotaError):
    def __init__(self) -> None:
        super().__init__("another server is carrying out a request with this Idempotency-Key; send it again soon")


class AnswerNotKept(RotaError):
    def __init__(self, why: str) -> None:
        super().__init__(f"the request was carried out before, and is not carried out again; {why}")


class NotFound(RotaError, LookupError):
    def __init__(self, what: str, given: str) -> None:
        super().__init__(f"no {what} {given!r}")


class IllegalEvent(RotaError):
    def __init__(self, state: str, event: str) -> None:
        self.state, self.event = state, event
        super().__init__(f"a job that is {state} can't {event.replace('_', ' ')}")


class JobFailed(RotaError):
    """`error`: the message of its last error, or the reason of its state. `type` and `trace` are those of the error,
    and `where` is the place that raised it: file, line and function. None: it has none, or it is not known."""

    def __init__(
        self, job_id: str, state: str, error: str | None, type: str | None = None, trace: str | None = None
    ) -> None:
        self.job_id, self.state, self.error, self.type, self.trace = job_id, state, error, type, trace
        self.where = place_in(trace)
        kind = f"{type.removeprefix('builtins.')}: " if type and not type.startswith("rota.") else ""
        place = f" ({self.where})" if self.where else ""
        super().__init__(f"job {job_id} {state}" + (f": {kind}{error}{place}" if error else ""))


def place_in(trace: str | None) -> str | None:
    """The last place that a trace of Python names."""
    found = re.findall(r'^ *File "([^"\n]+)", line (\d+), in (\S+)', trace or "", re.MULTILINE)
    return "{}, line {}, in {}".format(*found[-1]) if found else None


class ResultMismatch(RotaError):
    def __init__(self, task: str, job_id: str, problem: str) -> None:
        self.task, self.job_id = task, job_id
        super().__init__(
            f"result of task {task!r}, job {job_id}, is not what its annotation says: {problem}; info().result has it"
        )


class WaitTimeout(RotaError, TimeoutError):
    def __init__(self, job_id: str, state: str, what: str = "job") -> None:
        self.job_id, self.state = job_id, state
        super().__init__(f"{what} {job_id} is still {state}")


class LockTaken(RotaError, TimeoutError):
    """`age`: how long its holder has had it; None: that is not known, for the store could not be asked."""

    def __init__(self, name: str, age: timedelta | None = None) -> None:
        self.name, self.age = name, age
        had = "" if age is None else f"; its holder has had it for {max(0, round(age.total_seconds()))}s"
        super().__init__(f"lock {name!r} is taken{had}")


class LockLost(RotaError):
    def __init__(self, name: str, why: str) -> None:
        self.name, self.why = name, why
        super().__init__(f"lock {name!r} is lost: {why}; another may hold it now")


class Stale(RotaError):
    def __init__(self) -> None:
        super().__init__("this attempt is over, and another may have begun: what it does changes nothing any more")


class NotFaked(RotaError):
    def __init__(self, what: str, fake: str, option: str) -> None:
        super().__init__(
            f"{what} did not run: tests answer it with rota_test.{fake}; harness(app, {option}=True) runs it for real"
        )


class NotAllowed(RotaError):
    def __init__(self, user: str, what: str) -> None:
        self.user = user
        super().__init__(f"user {user!r} may not {what}")


class QuotaExceeded(RotaError):
    """`used` counts what is there before the refused order, which brings `more`. `retry_after`: seconds until the same
    order fits, if that is known."""

    retry_after: int | None = None

    def __init__(
        self, user: str, quota: str, used: int, allowed: str, more: int = 1, retry_after: int | None = None
    ) -> None:
        self.user, self.quota, self.used, self.allowed, self.more = user, quota, used, allowed, more
        self.retry_after = retry_after
        super().__init__(f"user {user!r} may have {quota}={allowed}; {used:,} used, {more:,} more asked for")


class ChangedMeanwhile(RotaError):
    def __init__(self, what: str, name: str) -> None:
        self.what, self.name = what, name
        super().__init__(f"{what} {name!r} is another version than the one that was read: read it again, decide anew")


class StoreError(RotaError):
    passing = False  # True: trying the same call again later may help
    whole = False  # True: the store as a whole has a problem, whatever the call's values


class StoreUnavailable(StoreError):
    passing = whole = True


class StoreFull(StoreError):
    passing = whole = True


class StoreReadOnly(StoreError):
    passing = whole = True


class StoreDenied(StoreError):
    whole = True


class WrongVersion(StoreError):
    whole = True

    def __init__(self, client: str, server: str, place: str) -> None:
        self.client, self.server = client, server
        super().__init__(
            f"this is rota {client}, the server at {place} is rota {server}; they understand each other "
            "if their minor versions are the same or neighbours: upgrade the older one"
        )


class SchemaTooNew(StoreError):
    whole = True

    def __init__(self, found: int, known: int) -> None:
        self.found, self.known = found, known
        super().__init__(
            f"the store has schema {found}, this rota knows up to {known}; install the newer rota that migrated it"
        )


class SchemaMissing(StoreError):
    whole = True

    def __init__(self, found: int, needed: int) -> None:
        self.found, self.needed = found, needed
        super().__init__(f"the store has schema {found}, {needed} is needed; run `rota migrate`")
