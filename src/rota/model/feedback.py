"""Feedback levels: a flow that uses much slot-time falls behind flows that use little, until the next boost.

Level 0 lasts for one quantum, and each level for twice as long as the one before: long work changes level rarely.
"""

from __future__ import annotations

import msgspec

from rota.model.limits import plain_name
from rota.model.readers import whole
from rota.model.times import DAY, HOUR, MILLISECOND, SECOND, Duration, duration_between

LEVELS = 5
SHORTEST_QUANTUM: Duration = 10 * MILLISECOND
LONGEST_QUANTUM: Duration = HOUR
SHORTEST_BOOST: Duration = SECOND
LONGEST_BOOST: Duration = DAY


class Feedback(msgspec.Struct, frozen=True):
    quantum: Duration = 10 * SECOND
    levels: int = LEVELS
    boost: Duration = 60 * SECOND


def level(used: Duration, rule: Feedback) -> int:
    """`used`: slot-time since the last boost."""
    found = 0
    while found < rule.levels - 1 and used > rule.quantum * (2 ** (found + 1) - 1):
        found += 1
    return found


def flow_name(owner: str, flow: str) -> str:
    """The name by which a flow is charged. Users can't have a flow in common."""
    return f"{owner}/{flow}"


def flow(given: object) -> str:
    return plain_name(given, "flow")


def read_feedback(quantum: object = "10s", levels: object = LEVELS, boost: object = "60s") -> Feedback:
    return Feedback(
        duration_between(quantum, "quantum", SHORTEST_QUANTUM, LONGEST_QUANTUM),
        whole(levels, "levels", 1, LEVELS, f"a whole number from 1 (no feedback) to {LEVELS}"),
        duration_between(boost, "boost", SHORTEST_BOOST, LONGEST_BOOST),
    )
