"""Retry policies: the number of retries, the waits, and rules for exceptions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal, cast

import msgspec

from rota.errors import InvalidInput
from rota.model.readers import whole
from rota.model.times import LONGEST, Duration, duration

FATAL = "fatal"
MOST_RETRIES = 1_000_000
_EXPECTED = "a back-off such as 30s (fixed), 2s..10m (exponential) or linear 5s..1m"
_BACKOFF = re.compile(r"(?:(fixed|linear|exponential)\s+)?(\S+?)(?:\.\.(\S+))?")


Shape = Literal["fixed", "linear", "exponential"]


class Backoff(msgspec.Struct, frozen=True):
    shape: Shape
    first: Duration
    limit: Duration

    def delay(self, failures: int) -> Duration:
        """The wait after the `failures`-th failure (counted from 1)."""
        match self.shape:
            case "fixed":
                return self.first
            case "linear":
                return min(self.first * failures, self.limit)
            case "exponential":
                # The shift is bounded: 2 ** 1_000_000 would take the machine down before min() could help.
                return min(self.first << min(failures - 1, 62), self.limit)


@lru_cache(maxsize=1024)
def backoff(text: str) -> Backoff:
    """Reads `30s`, `2s..10m`, `fixed 30s`, `linear 5s..1m`, `exponential 2s..10m`."""
    found = _BACKOFF.fullmatch(text.strip())
    if found is None:
        raise InvalidInput("backoff", text, _EXPECTED)
    word, low, high = found.groups()
    try:
        first = duration(low, "backoff")
        limit = duration(high, "backoff") if high else LONGEST
    except InvalidInput:
        raise InvalidInput("backoff", text, _EXPECTED) from None
    if word == "fixed" and high:
        raise InvalidInput("backoff", text, f"{_EXPECTED}; a fixed one has no range")
    if limit < first:
        raise InvalidInput("backoff", text, f"{_EXPECTED}; the first wait is longer than the longest")
    shape: Shape = word or ("exponential" if high else "fixed")  # type: ignore[assignment]
    return Backoff(shape, first, first if shape == "fixed" else limit)


class Retry(msgspec.Struct, frozen=True, omit_defaults=True):
    """`Retry(5, backoff="2s..10m")`: five more attempts after the first.

    `jitter` adds up to that fraction of the wait; the back-off is a lower bound. `rules` map an
    exception (class, or name with or without its module) to `"fatal"` or to a back-off of its own; subclasses count.
    """

    retries: int = 3
    backoff: str = "2s..10m"
    jitter: float = 0.1
    rules: dict[Any, str] = {}

    def __post_init__(self) -> None:
        given = (self.retries, self.backoff, self.jitter, self.rules)
        retries, text, jitter, rules = cast("tuple[object, object, object, object]", given)
        whole(retries, "retries", 0, MOST_RETRIES, "a whole number, 0 or more")
        if not isinstance(text, str):
            raise InvalidInput("backoff", text, _EXPECTED)
        backoff(text)
        if isinstance(jitter, bool) or not isinstance(jitter, int | float) or not 0 <= jitter <= 1:
            raise InvalidInput("jitter", self.jitter, "a number from 0 to 1")
        if not isinstance(rules, dict):
            raise InvalidInput("retry rules", rules, "a mapping of exceptions to 'fatal' or a back-off")
        names = {(name := _name(error)): _rule(name, rule) for error, rule in rules.items()}
        msgspec.structs.force_setattr(self, "rules", names)

    def parts(self) -> dict[str, Any]:
        """All fields, also those with default values: equal policies give equal parts."""
        return {"retries": self.retries, "backoff": self.backoff, "jitter": float(self.jitter), "rules": self.rules}

    def after_failure(self, failures: int, errors: Sequence[str], chance: float) -> Duration | None:
        """The wait before the next attempt after the `failures`-th failure, or None if there is no next one.

        `errors` are the names of the exception's class and of all its bases, nearest first; `chance` is in [0, 1).
        """
        if failures > self.retries:
            return None
        rule = next((self.rules[name] for name in errors if name in self.rules), self.backoff)
        if rule == FATAL:
            return None
        wait = backoff(rule).delay(failures)
        return min(wait + int(wait * self.jitter * chance), LONGEST)


def _name(error: object) -> str:
    if isinstance(error, str) and error:
        return error
    if isinstance(error, type) and issubclass(error, BaseException):
        return qualified(error)
    raise InvalidInput("retry rule", error, "an exception class or its name")


def _rule(name: str, rule: object) -> str:
    try:
        if rule != FATAL:
            backoff(rule if isinstance(rule, str) else "")
    except InvalidInput:
        raise InvalidInput(f"retry rule of {name}", rule, f"'fatal', or {_EXPECTED}") from None
    return cast("str", rule)


def qualified(error: type[BaseException]) -> str:
    return _plain(f"{error.__module__}.{error.__qualname__}")


def _plain(name: str) -> str:
    return name.encode("utf-8", "backslashreplace").decode()  # modules and classes may be called anything


def names_of(error: type[BaseException]) -> tuple[str, ...]:
    """All names a rule may use for this class, nearest base first, with and without the module."""
    bases = [base for base in error.__mro__ if base is not object]
    return tuple(name for base in bases for name in (qualified(base), _plain(base.__qualname__)))
