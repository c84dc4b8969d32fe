"""Who goes first: `rank = rank time + priority x ageing step`, and the lowest rank is claimed first.

A job of priority 9 that became due nine steps earlier than a job of priority 0 ranks level with it: waiting work rises
without any row being rewritten, and nobody waits behind later arrivals for more than nine steps.
"""

from __future__ import annotations

from rota.errors import InvalidInput
from rota.model.times import MINUTE, Duration, Instant

MOST_URGENT = 0
LEAST_URGENT = 9
DEFAULT_PRIORITY = 5
AGEING_STEP: Duration = MINUTE


def rank(rank_time: Instant, priority: int, step: Duration = AGEING_STEP) -> int:
    return rank_time + priority * step


def priority(given: object) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not MOST_URGENT <= given <= LEAST_URGENT:
        raise InvalidInput("priority", given, "a whole number from 0 (most urgent) to 9")
    return given
