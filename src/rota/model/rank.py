"""The order of jobs: `rank = rank time + priority x ageing step`, and the lowest rank is claimed first.

A job of priority 9 that became due nine steps earlier than a job of priority 0 ranks level with it: waiting jobs age
without any row being rewritten, and no job waits behind later arrivals for more than nine steps. A queue may have a
step of its own: 0 means first come first served, STRICT waives the bound.
"""

from __future__ import annotations

from rota.errors import InvalidInput
from rota.model.readers import whole
from rota.model.times import DAY, MINUTE, Duration, Instant, duration

MOST_URGENT = 0
LEAST_URGENT = 9
DEFAULT_PRIORITY = 5
AGEING_STEP: Duration = MINUTE
# A step so large that priority outweighs any time: strictly the most urgent first, without ageing.
STRICT: Duration = 500_000_000_000_000_000


def rank(rank_time: Instant, priority: int, step: Duration = AGEING_STEP) -> int:
    return rank_time + priority * step


def ranked_by(before: int, priority: int, old: Duration, new: Duration) -> int:
    """The rank of a job whose ageing step has changed."""
    return before + priority * (new - old)


def shifted(before: int, by: int, step: Duration) -> int:
    """The rank of a job whose priority or feedback level has changed by this. Its rank time stays."""
    return before + by * step


def priority(given: object) -> int:
    return whole(given, "priority", MOST_URGENT, LEAST_URGENT, "a whole number from 0 (most urgent) to 9")


def ageing_step(given: object) -> Duration | None:
    """Reads the ageing step of a queue: a duration up to a day, `strict`, or `default`."""
    if given == "strict":
        return STRICT
    if given == "default":
        return None
    try:
        step = duration(given, "step")
    except InvalidInput:
        step = DAY + 1
    if step > DAY:
        raise InvalidInput("step", given, "a duration from 0s to 1d, strict, or default")
    return step
