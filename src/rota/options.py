"""The options of an order, read once and checked: when, how urgent, how often, how long."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from rota.config import queue_name
from rota.errors import InvalidInput
from rota.model.job import DEFAULT_QUEUE
from rota.model.order import DEFAULT_PRIORITY, priority
from rota.model.retry import Retry
from rota.model.times import Duration, Instant, duration, instant

NAMES = ("at", "delay", "priority", "queue", "key", "retry", "timeout", "expires")
LONGEST_KEY = 255
LONGEST_NAME = 200


class Options(msgspec.Struct, frozen=True):
    queue: str = DEFAULT_QUEUE
    priority: int = DEFAULT_PRIORITY
    at: Instant | None = None
    delay: Duration = 0
    retry: Retry = Retry()
    timeout: Duration | None = None
    expires: Duration | None = None
    key: str | None = None


def read_options(defaults: Options, given: Mapping[str, Any], allowed: Sequence[str] = NAMES) -> Options:
    """`given` over `defaults`; None counts as not given."""
    changes: dict[str, Any] = {}
    for name, value in given.items():
        if name not in allowed:
            raise InvalidInput("option", name, f"one of {', '.join(allowed)}")
        if value is not None:
            changes[name] = _READERS[name](value)
    if changes.get("at") is not None and changes.get("delay") is not None:
        raise InvalidInput("at and delay", "both", "one of them")
    return msgspec.structs.replace(defaults, **changes) if changes else defaults


def task_name(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_NAME or not value.isprintable():
        raise InvalidInput("task name", value, f"a name of up to {LONGEST_NAME} printable characters")
    return value


def _retry(value: Any) -> Retry:
    if isinstance(value, Retry):
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput("retry", value, "a number of retries or rota.Retry(...)")
    return Retry(value)


def _key(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_KEY or not value.isprintable():
        raise InvalidInput("key", value, f"a text of 1 to {LONGEST_KEY} printable characters")
    return value


def _longer_than_nothing(value: Any, what: str) -> Duration:
    limit = duration(value, what)
    if limit == 0:
        raise InvalidInput(what, value, "a duration longer than 0s")
    return limit


_READERS: dict[str, Callable[[Any], Any]] = {
    "at": lambda value: instant(value, "at"),
    "delay": lambda value: duration(value, "delay"),
    "priority": priority,
    "queue": queue_name,
    "key": _key,
    "retry": _retry,
    "timeout": lambda value: _longer_than_nothing(value, "timeout"),
    "expires": lambda value: _longer_than_nothing(value, "expires"),
}
