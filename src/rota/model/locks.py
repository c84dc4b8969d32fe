"""Locks: what users hold, one at a time in the whole cluster, for as long as they renew it.

A lock belongs to a user and has a name. Whoever acquires it does so under a token of its own, and gets a *fence*: a
number that is higher than all earlier ones of this lock. Fences come from the store's clock, and rise even if that
stands still or goes back. So they go on rising after the row of a lock that nobody used was deleted, in a copy of the
store, and after a restore from a backup, where a counter would begin again.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from rota.model.limits import plain_name
from rota.model.times import DAY, HOUR, SECOND, Duration, duration_between

SHORTEST_TTL: Duration = SECOND
LONGEST_TTL: Duration = HOUR
DEFAULT_TTL = "30s"
# How long the row of a free lock is kept. Its fences would fall only if the store's clock went back further than this.
KEPT_FREE: Duration = DAY
LONGEST_HOLDER = 64  # characters of a token
# The holder counts a lock as lost a tenth of its ttl before the store does, at most this long: time for a body to stop,
# and for clocks that run at different speeds.
LONGEST_MARGIN: Duration = 5 * SECOND


class LockInfo(msgspec.Struct, frozen=True):
    """A lock as the store has it. `expires_at`: the end, unless it is renewed; of a free lock: its last end."""

    name: str
    held: bool
    fence: int
    taken_at: datetime
    expires_at: datetime


class Acquisition(msgspec.Struct, frozen=True):
    """The answer to a try. `mine`: the lock is held under the token of the caller; else `lock` shows who keeps it."""

    mine: bool
    lock: LockInfo


def lock_name(given: object) -> str:
    return plain_name(given, "lock")


def lock_ttl(given: object) -> Duration:
    return duration_between(given, "ttl", SHORTEST_TTL, LONGEST_TTL)


def margin(ttl: Duration) -> Duration:
    return min(ttl // 10, LONGEST_MARGIN)
