"""Quotas: bounds on what a user may order by access keys, may run at the same time, and may keep of output.

`submissions` is a rate: a bucket of so many submissions that refills evenly over its window. One instant keeps it:
`full_until`, when the bucket will be full again if nothing more is ordered. An order moves it on.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from rota.errors import InvalidInput, QuotaExceeded
from rota.model.limits import MOST_AT_ONCE, Rate, rate, rate_text
from rota.model.readers import whole
from rota.model.resources import size, size_text
from rota.model.times import SECOND, Instant

MOST = 1_000_000_000
NONE = "none"
_EXPECTED = (
    "parts such as submissions=600/1m, waiting=10000, schedules=100, running=8 or output=2GB, joined by commas; "
    "none lifts one"
)


class Quotas(msgspec.Struct, frozen=True, omit_defaults=True):
    """None: without a bound."""

    submissions: Rate | None = None  # jobs that may be ordered in a window
    waiting: int | None = None  # jobs that may wait at the same time: for their time, others, gates, keys or a slot
    schedules: int | None = None
    running: int | None = None  # jobs that may run at the same time, whoever ordered them
    output: int | None = None  # bytes of output that may be kept, of all jobs and attempts together

    def __bool__(self) -> bool:
        return self != NO_QUOTAS

    def texts(self) -> dict[str, str]:
        """The bounds as a person writes them, by name."""
        given = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: _text(name, bound) for name, bound in given.items() if bound is not None}


NO_QUOTAS = Quotas()


def quotas(given: str | Mapping[str, object], before: Quotas = NO_QUOTAS) -> Quotas:
    """Reads `submissions=600/1m,waiting=10000`, or a mapping of such bounds; those not named stay as they were."""
    if isinstance(given, str):
        parts = [part.partition("=") for part in given.split(",")]
        named: dict[str, object] = {name.strip(): bound.strip() for name, _, bound in parts}
        if len(named) < len(parts) or not all(bound for _, _, bound in parts):
            raise InvalidInput("quota", given, _EXPECTED)
    else:
        named = dict(given)
    for name in named:
        if name not in Quotas.__struct_fields__:
            raise InvalidInput("quota", name, f"one of {', '.join(Quotas.__struct_fields__)}")
    return msgspec.structs.replace(before, **{name: _bound(name, bound) for name, bound in named.items()})


def _text(name: str, bound: Rate | int) -> str:
    if isinstance(bound, Rate):
        return rate_text(bound)
    return size_text(bound) if name == "output" else str(bound)


def _bound(name: str, given: object) -> Rate | int | None:
    if given is None or given == NONE:
        return None
    if name == "submissions":
        return rate(given)
    if name == "output":
        return size(given, "quota output", 0)
    if isinstance(given, str) and given.isascii() and given.isdigit() and len(given) < 12:
        given = int(given)
    if name == "running":  # with 0 its jobs would wait for ever
        return whole(given, "quota running", 1, MOST_AT_ONCE)
    return whole(given, f"quota {name}", 0, MOST)


def submitted(bound: Rate, full_until: Instant, now: Instant) -> int:
    """How many submissions count against the bound now."""
    return max(0, -(-(full_until - now) * bound.count // bound.window))


def submit_more(user: str, bound: Rate, full_until: Instant, now: Instant, more: int) -> Instant:
    """The new `full_until` after `more` submissions; raises QuotaExceeded."""
    reached = max(full_until, now) + more * bound.window // bound.count
    if reached > now + bound.window:
        # None: so many never fit.
        wait = -(-(reached - bound.window - now) // SECOND) if more <= bound.count else None
        raise QuotaExceeded(user, "submissions", submitted(bound, full_until, now), rate_text(bound), more, wait)
    return reached
