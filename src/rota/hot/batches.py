"""What the lanes do with batches in the same way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from rota.hot.lane import Due, Report

T = TypeVar("T")
AT_ONCE = 1_000  # entries of one script: about a millisecond, in which the server does nothing else
# What a server needs for a report besides its content: a key with a life, a place in the order, a size.
OVERHEAD = 400


def latest(entries: Sequence[Due]) -> list[Due]:
    """The last entry of each job, the earliest time first."""
    return sorted({one.job: one for one in entries}.values(), key=lambda one: (one.at, one.job))


def weight(report: Report) -> int:
    """The memory of a report, about."""
    return OVERHEAD + 3 * len(report.job) + len(report.content)


def pieces(items: Sequence[T], most: int = AT_ONCE) -> Iterator[Sequence[T]]:
    for place in range(0, len(items), most):
        yield items[place : place + most]
